package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/panics"
	"github.com/annals-go/annals/internal/sqlrow"
)

type states struct{ view }

func (v states) Get(ctx context.Context, id annals.PersistenceID) (found annals.State, ok bool, err error) {
	if err := validRead("get state", id); err != nil {
		return annals.State{}, false, err
	}
	c, err := v.begin(ctx, "get state", id, 0)
	if err != nil {
		return annals.State{}, false, err
	}
	defer c.end(&err)
	c.result.Requests = 1
	rows, err := v.reader().Query(c.ctx, v.s.stateTable(id).sql.get, string(id))
	if err != nil {
		return annals.State{}, false, err
	}
	all, err := appendStates(nil, rows, &c.result)
	if err != nil || len(all) == 0 {
		return annals.State{}, false, err
	}
	return all[0], !all[0].Deleted, nil
}

func (v states) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return v.put(ctx, "put state", w)
}

func (v states) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return v.put(ctx, "delete state", w)
}

func (v states) put(ctx context.Context, op string, w annals.StateWrite) (r annals.Receipt, err error) {
	w.Tags = orNil(slices.Clone(w.Tags))
	if err := v.s.validateState(op, w); err != nil {
		return annals.Receipt{}, err
	}
	p := &statePut{op: op, StateWrite: w, t: v.s.stateTable(w.ID), deleted: op == "delete state", writer: w.WriteID}
	if w.WriteID.IsZero() {
		p.writer = annals.NewWriteID()
	}
	c, err := v.beginWrite(ctx, op, w.ID, 0)
	if err != nil {
		return annals.Receipt{}, err
	}
	defer c.end(&err)
	c.result.Requests, c.result.Bytes = 1, len(w.Data)
	if !p.deleted {
		if p.names, p.values, err = p.t.bind(&v.s.types, p.state()); err != nil {
			return annals.Receipt{}, p.about(err)
		}
	}
	var o outcome
	if v.tx != nil {
		v.tx.wrote.Store(true)
		o, err = v.s.writeState(c.ctx, v.tx.tx, p)
	} else {
		o, err = v.s.resolveState(c, p)
	}
	if err != nil {
		return annals.Receipt{}, err
	}
	return o.receipt, o.err
}

// validateState says what is wrong with w, as annals.StateWrite.Validate and the columns have it.
func (s *Store) validateState(op string, w annals.StateWrite) error {
	if err := w.Validate(op, s.limits); err != nil {
		return err
	}
	if op != "delete state" {
		if err := storable(s.stateTable(w.ID).table, "state_payload", w.Payload, w.Metadata); err != nil {
			return invalid(op, w.ID, err)
		}
	} else if utf8.RuneCountInString(w.Metadata.Manifest) > maxChars {
		return invalid(op, w.ID, fmt.Errorf("the manifest of the metadata has more than %d characters", maxChars))
	}
	if e := w.Event; e != nil {
		if err := s.storableEvent(e); err != nil {
			return invalid(op, w.ID, fmt.Errorf("event: %w", err))
		}
	}
	return nil
}

// statePut is one write of a state, or of its tombstone.
type statePut struct {
	annals.StateWrite
	op       string
	t        *stateTable
	deleted  bool
	writer   annals.WriteID
	names    []string // additional columns
	values   []any
	attempts attempts
}

// state is what the write makes of the entity, but for its time.
func (p *statePut) state() annals.State {
	s := annals.State{ID: p.ID, Revision: p.After + 1, Tags: p.Tags, Deleted: p.deleted}
	if !p.deleted {
		s.Payload = p.Payload
	}
	if p.t.keepsMetadata() {
		s.Metadata = p.Metadata
	}
	return s
}

// about makes err, of the user's own function, an error of this write.
func (p *statePut) about(err error) *annals.Error {
	e := &annals.Error{Op: p.op, ID: p.ID, Err: err}
	if own := (*annals.Error)(nil); errors.As(err, &own) && own.Op == "" {
		e.Kind, e.Err = own.Kind, own.Err
	}
	return e
}

// resolveState writes p, trying again as long as that can tell what happened.
func (s *Store) resolveState(c *call, p *statePut) (outcome, error) {
	p.attempts.since = time.Now()
	for {
		o, err := s.tryState(c, p)
		if err == nil {
			return o, nil
		}
		if !p.attempts.again(err) {
			return outcome{}, fault(p.op, p.ID, err)
		}
		c.result.Retries++
		if p.attempts.maybe && (!p.t.has(writeIDs) || c.ctx.Err() != nil || time.Since(p.attempts.since) > resolveFor) {
			return outcome{}, &annals.Error{Op: p.op, ID: p.ID, Kind: annals.ErrUnknown, Err: errors.Unwrap(fault(p.op, p.ID, err))}
		}
		_ = backoff.Wait(c.ctx, c.result.Retries+3) // when ctx ends the next try fails at once, and says how it stands
	}
}

// tryState is one try, bounded as the server bounds it.
func (s *Store) tryState(c *call, p *statePut) (outcome, error) {
	ctx, cancel := context.WithTimeout(c.ctx, s.answerTime())
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer conn.Release()
	o, err := s.writeState(ctx, conn, p)
	if err == nil && o.err == nil && !o.receipt.Repeated {
		s.wrote()
	}
	return o, err
}

// writeState writes p, or says who came before.
func (s *Store) writeState(ctx context.Context, q querier, p *statePut) (outcome, error) {
	var at time.Time
	var ok bool
	var err error
	guarded := p.t.wide() && p.After == 0
	if guarded || p.Event != nil || p.t.OnChange != nil {
		err = atomically(ctx, q, func(tx pgx.Tx) error {
			if guarded {
				if err := p.t.guard(ctx, tx, p.ID); err != nil {
					return err
				}
			}
			if at, ok, err = p.write(ctx, tx); err != nil || !ok {
				return err // when it lost, neither the event nor the handler may follow
			}
			return s.follow(ctx, tx, p, at)
		})
	} else {
		at, ok, err = p.write(ctx, q)
	}
	if err != nil {
		return outcome{}, err
	}
	if !ok {
		return p.lookUp(ctx, q)
	}
	return outcome{receipt: annals.Receipt{SeqNr: p.After + 1, Time: at.UTC()}}, nil
}

// write writes the row. It returns false when the last revision is not p.After.
func (p *statePut) write(ctx context.Context, q querier) (at time.Time, ok bool, err error) {
	sql, args := p.t.statement(p)
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return time.Time{}, false, err
	}
	_, err = pgx.ForEachRow(rows, []any{&at}, func() error { ok = true; return nil })
	return at, ok, err
}

// follow does what belongs to a row written in tx: the event, then the change handler.
func (s *Store) follow(ctx context.Context, tx pgx.Tx, p *statePut, at time.Time) error {
	if p.Event != nil {
		m := newCommit(annals.Commit{ID: p.ID, After: p.After, Events: []annals.NewEvent{*p.Event}, WriteID: p.writer})
		won, err := s.insert(ctx, tx, []*commit{m})
		if err != nil {
			return err
		}
		if _, ok := won[p.ID]; !ok {
			last, err := s.lastSeqNr(ctx, tx, p.ID)
			if err != nil {
				return err
			}
			if last == p.After && m.timed() {
				return invalid(p.op, p.ID, m.ahead())
			}
			return invalid(p.op, p.ID, fmt.Errorf("the write carries event %d, but the journal's last number is %d: every write of the entity must carry one", p.After+1, last))
		}
	}
	if p.t.OnChange == nil {
		return nil
	}
	state := p.state()
	state.Time = at.UTC()
	ctx, cancel := context.WithTimeout(annals.ContextWithTx(ctx, s), s.options.WriteTimeout)
	defer cancel()
	err := panics.Contain("", "", func() error { return p.t.OnChange(ctx, callersTx{tx}, state) })
	if ended := ctx.Err(); ended != nil && !errors.Is(err, annals.ErrPanic) { // whatever the handler makes of it
		return &annals.Error{Op: p.op, ID: p.ID, Kind: annals.ErrUnavailable, Err: ended}
	}
	if err != nil {
		e := p.about(err)
		if e.Kind == nil && constraint(err) {
			e.Kind = annals.ErrConstraint
		}
		return e
	}
	return nil
}

// lookUp answers a write that did not win: it may have been written by an earlier try.
func (p *statePut) lookUp(ctx context.Context, q querier) (outcome, error) {
	var last int64
	var text string
	err := q.QueryRow(ctx, p.t.sql.lookUp, string(p.ID)).Scan(&last, &text)
	if errors.Is(err, pgx.ErrNoRows) {
		return outcome{err: conflict(p.op, p.ID, p.After, 0)}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	kept, err := sqlrow.ParseWrites(text)
	if err != nil {
		return outcome{}, &annals.Error{Op: p.op, ID: p.ID, Kind: annals.ErrCorrupt, Err: fmt.Errorf("column %s: %w", writeIDs, err)}
	}
	revision := p.After + 1
	remembered := len(kept) < sqlrow.RememberedWrites // nothing has been forgotten: foreign writers leave no traces
	for _, w := range kept {
		if w.Revision == revision && w.WriteID == p.writer {
			return outcome{receipt: annals.Receipt{SeqNr: revision, Time: w.Time, Repeated: true}}, nil
		}
		remembered = remembered || w.Revision <= revision // what is as old as this write would be still there
	}
	if p.After < annals.SeqNr(last) && !remembered && (!p.WriteID.IsZero() && !p.FirstTry || p.attempts.maybe) {
		return outcome{err: &annals.Error{Op: p.op, ID: p.ID, After: p.After, Last: annals.SeqNr(last), Kind: annals.ErrUnknown}}, nil
	}
	return outcome{err: conflict(p.op, p.ID, p.After, annals.SeqNr(last))}, nil
}
