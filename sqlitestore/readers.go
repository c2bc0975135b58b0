package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/annals-go/annals"
)

// readers are the connections for reading. A read uses one of them alone, with statements prepared on that connection, so that it never
// holds one connection while it waits for another.
type readers struct {
	db    *sql.DB
	files files
	slots chan struct{} // holds a value for each read under way

	mu   sync.Mutex
	idle []*reader // the one used last is taken first
}

type reader struct {
	*statements
	conn   *sql.Conn
	broken bool // a transaction may be open on it: it must not be used again
}

// newReaders opens connections when they are needed, at most limit.
func newReaders(db *sql.DB, files files, limit int) *readers {
	return &readers{db: db, files: files, slots: make(chan struct{}, limit)}
}

// read runs fn on one connection, as soon as one is free.
func (p *readers) read(ctx context.Context, fn func(context.Context, *statements) error) error {
	return p.use(ctx, func(r *reader) error { return fn(ctx, r.statements) })
}

// readTx is read within a transaction, so that all statements of fn see the same moment.
func (p *readers) readTx(ctx context.Context, fn func(context.Context, *statements) error) error {
	return p.use(ctx, func(r *reader) error {
		// Without ctx: the BEGIN and the ROLLBACK must not be interrupted, or the transaction would stay open after this call.
		uninterrupted := context.WithoutCancel(ctx)
		if err := r.exec(uninterrupted, `BEGIN`); err != nil {
			r.broken = true
			return err
		}
		err := fn(ctx, r.statements)
		if failed := r.exec(uninterrupted, `ROLLBACK`); failed != nil {
			r.broken = true
		}
		return err
	})
}

func (p *readers) use(ctx context.Context, fn func(*reader) error) error {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.slots }()
	r, err := p.take(ctx)
	if err != nil {
		return err
	}
	err = fn(r)
	if e := (*annals.Error)(nil); r.broken || err != nil && ctx.Err() == nil && !errors.As(err, &e) {
		_ = r.close() // the connection may be broken
	} else {
		p.put(r)
	}
	return err
}

func (p *readers) take(ctx context.Context) (*reader, error) {
	p.mu.Lock()
	if last := len(p.idle) - 1; last >= 0 {
		r := p.idle[last]
		p.idle = p.idle[:last]
		p.mu.Unlock()
		return r, nil
	}
	p.mu.Unlock()
	conn, err := p.db.Conn(ctx)
	if missed := p.files.missing(annals.ErrCorrupt); missed != nil { // the connection may be to another file
		if err == nil {
			_ = conn.Close()
		}
		return nil, missed
	}
	if err != nil {
		return nil, err
	}
	return &reader{conn: conn, statements: &statements{conn: conn}}, nil
}

func (p *readers) put(r *reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, r)
}

// close closes the connections. No read may be under way.
func (p *readers) close() error {
	var errs []error
	for _, r := range p.idle {
		errs = append(errs, r.close())
	}
	p.idle = nil
	return errors.Join(errs...)
}

func (r *reader) close() error { return errors.Join(r.statements.close(), r.conn.Close()) }
