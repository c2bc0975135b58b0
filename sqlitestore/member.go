package sqlitestore

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/annals-go/annals"
)

// member is a transaction with a function of the user that shares the COMMIT of a group. A savepoint undoes what the function has written when
// it fails.
type member struct {
	ctx     context.Context
	fn      func(within *txSession) error
	lent    *atomic.Bool    // of the backend
	begun   chan *txSession // the caller runs fn with it
	ended   chan error      // what run has returned; buffered
	started bool            // fn
}

// beside runs fn, with code of the user, in a transaction that shares its COMMIT with other writes. It is run on the caller's goroutine, once. When
// ctx ends, what it has written is undone and others write, also when it has not returned.
func (b *backend) beside(ctx context.Context, fn func(within *txSession) error) error {
	once(ctx)
	m := &member{ctx: ctx, fn: fn, lent: &b.lent, begun: make(chan *txSession), ended: make(chan error, 1)}
	return b.writer.submit(ctx, &write{member: m, apply: m.apply})
}

// begins is where the caller waits for the transaction; nil for a write that has no function.
func (m *member) begins() <-chan *txSession {
	if m == nil {
		return nil
	}
	return m.begun
}

// ran reports whether there is a function and it has been called.
func (m *member) ran() bool { return m != nil && m.started }

// run runs fn.
func (m *member) run(within *txSession) (err error) {
	err = &annals.Error{Err: errors.New("the function did not return")} // after a panic and runtime.Goexit
	defer func() {
		within.end(errEnded)
		m.ended <- err
	}()
	return m.fn(within)
}

// apply is that of the write, in the goroutine that executes the group.
func (m *member) apply(ctx context.Context, t *transaction) (err error) {
	if err := t.exec(ctx, `SAVEPOINT member`); err != nil {
		return err
	}
	m.lent.Store(true) // when SQLite rolls back the group, what the function writes afterwards is refused
	defer m.lent.Store(false)
	within := &txSession{t: t, ctx: m.ctx}
	select {
	case m.begun <- within:
		m.started = true
		select {
		case err = <-m.ended:
		case <-m.ctx.Done():
			err = withdrawn(m.ctx)
			within.end(err)
		}
	case <-m.ctx.Done():
		err = withdrawn(m.ctx)
	}
	if err == nil {
		err = within.broken()
	}
	if !refused(err) {
		err = &annals.Error{Kind: kindOf(err), Err: err}
	}
	if err != nil {
		if rolledBack := t.exec(ctx, `ROLLBACK TO member`); rolledBack != nil { // by SQLite, and with it all others
			return rolledBack
		}
	}
	if err := t.exec(ctx, `RELEASE member`); err != nil {
		return err
	}
	return err
}
