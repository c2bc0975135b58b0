package entity

import (
	"context"

	"github.com/annals-go/annals/internal/contexts"
)

// onBehalf is ctx for a call that is made for commands, of which there is at least one: with the values of the caller's context, or, for
// several, with their contexts as annals.Callers has them. No caller ends the call.
func onBehalf[C, S, R any](ctx context.Context, commands []*command[C, S, R]) context.Context {
	if len(commands) == 1 {
		return contexts.WithCaller(ctx, commands[0].ctx)
	}
	callers := make([]context.Context, len(commands))
	for i, c := range commands {
		callers[i] = c.ctx
	}
	return contexts.WithCallers(ctx, callers)
}
