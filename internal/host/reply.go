package host

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
)

// Reply is the reply to c, which was executed before: its events are the last of those up to the number n. A durable state has no past: the reply is made
// of the newest state.
func (o *Observed[C, S, R]) Reply(ctx context.Context, id string, pid annals.PersistenceID, c C, n annals.SeqNr, events int) (reply R, err error) {
	e := o.New(id, pid)
	err = o.observe(ctx, annals.Call{Op: OpLoad, ID: pid}, func(ctx context.Context) (r annals.Result, err error) {
		reply, r, err = e.Reply(ctx, c, n, events)
		return r, err
	})
	return reply, err
}

// Reply implements Entity.
func (e *sourced[C, E, S, R]) Reply(ctx context.Context, c C, n annals.SeqNr, events int) (reply R, r annals.Result, err error) {
	b := &e.m.b
	if b.Reply == nil {
		return reply, r, nil
	}
	if r, err = e.LoadAt(ctx, Past{Number: n}); err != nil {
		return reply, r, fmt.Errorf("the command was executed before: %w", err)
	}
	var done []E
	for ev, err := range e.m.journal.Replay(ctx, e.pid, n-annals.SeqNr(events)+1, n) {
		if events == 0 {
			break
		}
		if err != nil {
			return reply, r, loadFailed(e.pid, err)
		}
		r.Events, r.Bytes = r.Events+1, r.Bytes+len(ev.Data)
		if err := e.m.c.guard("recover", e.pid, func() error {
			v, err := b.Events.Decode(ev.Payload)
			done = append(done, v)
			return err
		}); err != nil {
			return reply, r, e.unread(ev.SeqNr, fmt.Errorf("event %d: %w", ev.SeqNr, err))
		}
	}
	if len(done) < events {
		return reply, r, fmt.Errorf("the command was executed before: %w", e.deleted(reading{Past: Past{Number: n}, to: n}, n))
	}
	return reply, r, e.m.c.guard("reply", e.pid, func() error { reply = b.Reply(e.state, c, done); return nil })
}

// Reply implements Entity.
func (e *durable[C, S, R]) Reply(ctx context.Context, c C, _ annals.SeqNr, _ int) (reply R, r annals.Result, err error) {
	if e.m.b.Reply == nil {
		return reply, r, nil
	}
	if r, err = e.Load(ctx); err != nil {
		return reply, r, err
	}
	return reply, r, e.m.c.guard("reply", e.pid, func() error { reply = e.m.b.Reply(e.state, c); return nil })
}
