package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/contexts"
	"github.com/annals-go/annals/internal/progress"
	"github.com/annals-go/annals/internal/statetype"
	"github.com/annals-go/annals/internal/watchers"
	"github.com/annals-go/annals/internal/writes"
)

// states is the annals.StateStore of a view.
type states struct{ *view }

func (v states) Get(ctx context.Context, id annals.PersistenceID) (annals.State, bool, error) {
	found, _, err := v.queryStates(ctx, v.s.stateTable(id).sql.get, string(id))
	if err != nil || len(found) == 0 {
		return annals.State{}, false, err
	}
	return found[0], !found[0].Deleted, nil
}

func (v states) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return v.Put(ctx, w)
}

func (v states) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	t := v.s.stateTable(w.ID)
	if err := storable(t.table, w.Payload, w.Metadata); err != nil {
		return annals.Receipt{}, invalid(err)
	}
	if w.Event != nil {
		if err := v.s.storableEvent(w.Event); err != nil {
			return annals.Receipt{}, invalid(fmt.Errorf("event: %w", err))
		}
	}
	w.Tags = orNil(slices.Clone(w.Tags))
	p := &statePut{StateWrite: w, t: t, attempts: attempts{since: time.Now(), blind: !t.has(writeIDs)}}
	driver.Count(ctx, annals.Result{Requests: 1})
	var err error
	p.names, p.values, err = statetype.Bind(t.StateType, p.state(), v.s.keep(t))
	if err != nil {
		return annals.Receipt{}, err
	}
	var o outcome
	if v.tx != nil {
		o, err = v.s.writeState(ctx, v.tx.tx, p)
		v.tx.changed(p.ID, err == nil && o.err == nil && !progress.Internal(p.ID))
	} else {
		o, err = v.s.untilKnown(ctx, &p.attempts, func(ctx context.Context, q querier) (outcome, error) { return v.s.writeState(ctx, q, p) })
		// Projections do not follow their own states: a signal would make all followers look at the store every few seconds.
		if err == nil && o.err == nil && !o.receipt.Repeated && !progress.Internal(p.ID) {
			v.s.wrote(watchers.SignalOf(p.ID))
		}
	}
	if err != nil {
		return annals.Receipt{}, err
	}
	return o.receipt, o.err
}

// statePut is one write of a state, or of its tombstone, which has serializer 0.
type statePut struct {
	annals.StateWrite
	t        *stateTable
	names    []string // additional columns
	values   []any
	attempts attempts
}

// state is the state that the write stores, without its time.
func (p *statePut) state() annals.State {
	return annals.State{ID: p.ID, Revision: p.After + 1, Payload: p.Payload, Tags: p.Tags, Metadata: p.Metadata, Deleted: p.SerializerID == 0}
}

// writeState writes p, or says why it cannot be written.
func (s *backend) writeState(ctx context.Context, q querier, p *statePut) (outcome, error) {
	var at time.Time
	var ok bool
	var err error
	guarded := p.t.wide() && p.After == 0
	if guarded || p.Event != nil || p.t.OnChange != nil {
		if p.t.OnChange != nil {
			s.programs.Add(1)
			defer s.programs.Add(-1)
		}
		err = atomically(ctx, q, func(tx pgx.Tx) error {
			if guarded {
				if err := p.t.guard(ctx, tx, p.ID); err != nil {
					return err
				}
			}
			if at, ok, err = p.write(ctx, tx); err != nil || !ok {
				return err // a write that lost stores no event and calls no handler
			}
			return s.complete(ctx, tx, p, at)
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

// complete completes a write whose row was stored in tx: it stores the event, then calls the change handler.
func (s *backend) complete(ctx context.Context, tx pgx.Tx, p *statePut, at time.Time) error {
	if p.Event != nil {
		m := newCommit(annals.Commit{ID: p.ID, After: p.After, Events: []annals.NewEvent{*p.Event}, WriteID: p.WriteID})
		err := s.insert(ctx, tx, []*commit{m}, true)
		if err == nil && !m.won() {
			err = s.insertDeleted(ctx, tx, m)
		}
		if err != nil {
			return err
		}
		if !m.won() {
			last, err := s.lastSeqNr(ctx, tx, p.ID)
			if err != nil {
				return err
			}
			if last == p.After && m.timed() {
				return invalid(m.ahead())
			}
			return writes.EventMisfit(p.After, last)
		}
	}
	if p.t.OnChange == nil {
		return nil
	}
	state := p.state()
	state.Time = at.UTC()
	ctx, cancel := context.WithTimeout(contexts.WithTx(ctx, s.self), s.options.WriteTimeout)
	defer cancel()
	return statetype.Handle(ctx, func() error { return p.t.OnChange(ctx, callersTx{tx}, state) }, constraint)
}

// lookUp is the outcome of a write that did not win: an earlier attempt may have stored it. Foreign writers do not write the column for
// the last writes.
func (p *statePut) lookUp(ctx context.Context, q querier) (outcome, error) {
	var last int64
	var text string
	err := q.QueryRow(ctx, p.t.sql.lookUp, string(p.ID)).Scan(&last, &text)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return outcome{}, err
	}
	all, err := writes.Parse(text)
	if err != nil {
		return outcome{}, &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("column %s: %w", writeIDs, err)}
	}
	w := p.StateWrite
	w.FirstTry = w.FirstTry && !p.attempts.maybe
	switch earlier, err := all.Check(w, annals.SeqNr(last)); {
	case err != nil:
		return outcome{err: err}, nil
	case earlier != nil:
		p.attempts.maybe = true
		return outcome{receipt: annals.Receipt{SeqNr: earlier.Revision, Time: earlier.Time, Repeated: true}}, confirm(ctx, q, p.t.sql.lockState, string(p.ID))
	}
	return outcome{err: conflict(p.After, annals.SeqNr(last))}, nil
}
