package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/annals-go/annals"
)

// panicked is the error of a panic in domain code; the stack goes to log. Called in the deferred function that
// recovered p, so that the stack still shows where.
func panicked(log *slog.Logger, op string, id annals.PersistenceID, p any) error {
	err, ok := p.(error)
	if !ok {
		err = errors.New(fmt.Sprint(p))
	}
	log.LogAttrs(context.Background(), slog.LevelError, "annals: domain code panicked",
		slog.String("op", op), slog.String("id", string(id)), slog.String("panic", err.Error()), slog.String("stack", string(debug.Stack())))
	return &annals.Error{Op: op, ID: id, Kind: annals.ErrPanic, Err: err}
}

// guard runs fn and turns its panic into an error.
func guard(log *slog.Logger, op string, id annals.PersistenceID, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(log, op, id, p)
		}
	}()
	return fn()
}
