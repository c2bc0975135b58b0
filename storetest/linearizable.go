package storetest

import (
	"errors"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

var linearizableCases = []testCase{
	{id: "LINEAR-1", about: "concurrent appends, reads and last numbers are linearizable", needs: needs(events), run: func(h *harness) { h.linearizable(h.store, false) }},
	{id: "LINEAR-2", about: "concurrent appends, reads and deletes are linearizable", needs: needs(events, fenceAfterDelete), run: func(h *harness) { h.linearizable(h.store, true) }},
	{id: "LINEAR-3", about: "the same when answers to appends get lost", needs: needs(events, fenceAfterDelete, repeatable), run: func(h *harness) { h.linearizable(newForgetful(h.store), true) }},
	{id: "LINEAR-4", about: "concurrent writes and reads of a durable state are linearizable", needs: needs(states), run: func(h *harness) {
		hi := newHistory()
		h.writeStates(hi, []annals.PersistenceID{h.id()}, h.volume(40, 15))
		hi.check(h, stateModel)
	}},
}

// clients is the number of clients in a concurrent history.
const clients = 5

func (h *harness) linearizable(s annals.Store, deletes bool) {
	hi := newHistory()
	h.writeJournals(hi, s, []annals.PersistenceID{h.id(), h.id()}, h.volume(50, 15), deletes)
	hi.check(h, journalModel)
}

// writeJournals lets clients work on the same few entities of s at the same time. Each client uses the last number that it knows as After.
func (h *harness) writeJournals(hi *history, s annals.Store, ids []annals.PersistenceID, steps int, deletes bool) {
	h.Helper()
	errs := make([]error, clients)
	together(clients, func(number int) {
		c := client{h: h, hi: hi, s: s, number: number, deletes: deletes, known: map[annals.PersistenceID]annals.SeqNr{}}
		for step := range steps {
			if errs[number] = c.step(step, ids[(number+step)%len(ids)]); errs[number] != nil {
				return
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("%d clients: got error %v, want none but conflicts", clients, err)
	}
}

// client is one of several that work on the same journals.
type client struct {
	h       *harness
	hi      *history
	s       annals.Store
	number  int
	deletes bool
	known   map[annals.PersistenceID]annals.SeqNr
	landed  []annals.Commit
}

func (c *client) step(step int, id annals.PersistenceID) error {
	switch what := (step*3 + c.number*7) % 10; {
	case what == 1:
		return c.last(id)
	case what == 2 && c.deletes:
		to := c.known[id]
		_, err := c.hi.do(c.number, action{op: "delete", id: id, n: to}, func() (answer, error) {
			return answer{}, c.h.retried(func() error { return c.s.Journal().DeleteTo(c.h.ctx, id, to) })
		})
		return err
	case what == 3:
		return c.replay(id)
	case what == 4:
		return c.recover(id)
	case what == 5 && c.h.caps.Repeatable && len(c.landed) > 0:
		old := c.landed[step%len(c.landed)]
		_, err := c.append("again", old)
		return err
	}
	commit := c.commit(step, id)
	out, err := c.append("append", commit)
	if err != nil {
		return err
	}
	if out.conflict || out.unknown {
		n := annals.SeqNr(0)
		err = c.h.retried(func() (err error) { n, err = c.s.Journal().LastSeqNr(c.h.ctx, id); return err }) // not recorded: it would make the check of the history slower
		c.known[id] = n
		return err
	}
	c.known[id], c.landed = out.n, append(c.landed, commit)
	return nil
}

// commit returns a commit of one to three events with unique values, in some cases with a snapshot.
func (c *client) commit(step int, id annals.PersistenceID) annals.Commit {
	commit := annals.Commit{ID: id, After: c.known[id], WriteID: annals.NewWriteID()}
	for i := range c.h.batch(1 + (c.number+step)%3) {
		value := fmt.Sprintf("%d.%d.%d", c.number, step, i)
		commit.Events = append(commit.Events, annals.NewEvent{Payload: annals.Payload{SerializerID: 4, Data: []byte(value)}})
	}
	if c.h.caps.CommitSnapshot && step%7 == 3 {
		s := snapshotOf(id, commit.After+annals.SeqNr(len(commit.Events)))
		commit.Snapshot = &s
	}
	return c.h.complete(commit)
}

func (c *client) append(op string, commit annals.Commit) (answer, error) {
	in := action{op: op, id: commit.ID, n: commit.After}
	for _, e := range commit.Events {
		in.values += string(e.Data) + ","
	}
	return c.hi.do(c.number, in, func() (answer, error) {
		r, err := c.h.send(c.h.ctx, c.s, commit)
		return written(r, err)
	})
}

// written is the answer to a write.
func written(r annals.Receipt, err error) (answer, error) {
	switch {
	case isConflict(err):
		return answer{conflict: true}, nil
	case errors.Is(err, annals.ErrUnknown):
		return answer{unknown: true}, nil
	}
	return answer{n: r.SeqNr}, err
}

func (c *client) last(id annals.PersistenceID) error {
	out, err := c.hi.do(c.number, action{op: "last", id: id}, func() (out answer, err error) {
		err = c.h.retried(func() error { out.n, err = c.s.Journal().LastSeqNr(c.h.ctx, id); return err })
		return out, err
	})
	c.known[id] = out.n
	return err
}

func (c *client) replay(id annals.PersistenceID) error {
	out, err := c.hi.do(c.number, action{op: "replay", id: id}, func() (out answer, err error) {
		err = c.h.retried(func() error { out, err = c.h.readAll(c.s.Journal(), id); return err })
		return out, err
	})
	if out.values != "" {
		c.known[id] = out.n + count(out.values) - 1
	}
	return err
}

// recover records the snapshot of a recovery, the events after it and the last number.
func (c *client) recover(id annals.PersistenceID) error {
	_, err := c.hi.do(c.number, action{op: "recover", id: id}, func() (out answer, err error) {
		for {
			var first, last annals.SeqNr
			err = c.h.retried(func() error {
				out = answer{}
				last, err = ability.Recover(c.h.ctx, c.s, id,
					func(s annals.Snapshot) error { out = answer{covered: s.SeqNr}; return nil },
					func(e annals.Event) error {
						if out.values == "" {
							first = e.SeqNr
						}
						out.values += string(e.Data) + ","
						return nil
					})
				return err
			})
			if errors.Is(err, annals.ErrTruncated) {
				continue
			}
			out.n = last + 1 - count(out.values)
			if err == nil && out.values != "" && out.n != first {
				err = fmt.Errorf("got %d events from %d on, and the last number %d", count(out.values), first, last)
			}
			return out, err
		}
	})
	return err
}

// readAll replays all events, again while the error is ErrTruncated.
func (h *harness) readAll(j annals.Journal, id annals.PersistenceID) (answer, error) {
	for {
		es, err := collect(j.Replay(h.ctx, id, 1, annals.MaxSeqNr))
		if errors.Is(err, annals.ErrTruncated) {
			continue
		}
		var out answer
		for i, e := range es {
			if i == 0 {
				out.n = e.SeqNr
			}
			if e.SeqNr != es[0].SeqNr+annals.SeqNr(i) {
				return out, fmt.Errorf("got number %d after %d", e.SeqNr, e.SeqNr-1)
			}
			out.values += string(e.Data) + ","
		}
		return out, err
	}
}

// writeStates lets clients write and read the same few durable states at the same time.
func (h *harness) writeStates(hi *history, ids []annals.PersistenceID, steps int) {
	h.Helper()
	errs := make([]error, clients)
	together(clients, func(number int) {
		known := map[annals.PersistenceID]annals.SeqNr{}
		for step := range steps {
			id := ids[(number+step/4)%len(ids)]
			in := action{op: "put", id: id, n: known[id], values: fmt.Sprintf("%d.%d,", number, step)}
			switch (step + number) % 4 {
			case 0, 1:
				in = action{op: "get", id: id}
			case 2:
				if h.caps.DeletesStates {
					in.op, in.values = "remove", ""
				}
			}
			var out answer
			out, errs[number] = hi.do(number, in, func() (answer, error) { return h.stateCall(in) })
			if errs[number] != nil {
				return
			}
			if !out.conflict && !out.unknown {
				known[id] = out.n
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("%d clients of states: got error %v, want none but conflicts", clients, err)
	}
}

func (h *harness) stateCall(in action) (out answer, err error) {
	s := h.store.States()
	if in.op == "get" {
		err := h.retried(func() error {
			st, ok, err := s.Get(h.ctx, in.id)
			if out = (answer{n: st.Revision}); ok {
				out.values = string(st.Data) + ","
			}
			return err
		})
		return out, err
	}
	w := annals.StateWrite{ID: in.id, After: in.n, WriteID: annals.NewWriteID(), FirstTry: true}
	write := s.Delete
	if in.op == "put" {
		w.Payload = annals.Payload{SerializerID: 4, Data: []byte(each(in.values)[0])}
		write = s.Put
	}
	for try := 1; ; try++ {
		out, err = written(write(h.ctx, w))
		repeatable := errors.Is(err, annals.ErrUnavailable) || out.unknown && h.caps.IdempotentState
		if !repeatable || !again(h.ctx, try) {
			return out, err
		}
		w.FirstTry = w.FirstTry && !out.unknown
	}
}
