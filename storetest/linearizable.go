package storetest

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/annals-go/annals"
)

var linearizableCases = []testCase{
	{id: "LINEAR-1", about: "concurrent appends, reads and last numbers are linearizable", needs: needs(events), run: func(h *harness) { h.linearizable(h.store, false) }},
	{id: "LINEAR-2", about: "with deletes", needs: needs(events, fenceAfterDelete), run: func(h *harness) { h.linearizable(h.store, true) }},
	{id: "LINEAR-3", about: "with deletes and lost answers", needs: needs(events, fenceAfterDelete, repeatable), run: func(h *harness) { h.linearizable(&forgetful{Store: h.store}, true) }},
	{id: "LINEAR-4", about: "concurrent writes and reads of a durable state are linearizable", needs: needs(states), run: linearizableStates},
}

// action is one operation of a history.
type action struct {
	op    string // "append", "last", "delete", "replay"
	id    annals.PersistenceID
	n     annals.SeqNr // After of an append, to of a delete
	value string       // what an append writes
}

// answer is what an operation said.
type answer struct {
	conflict bool
	n        annals.SeqNr // of an append's receipt, or the last number; the first number of a replay
	values   string       // of a replay: each followed by a comma
}

// log is the state of the model: everything ever written, and how much of it is deleted.
type log struct {
	values  string // each followed by a comma
	last    annals.SeqNr
	deleted annals.SeqNr
}

// journalModel says what a journal may answer. A replay is a read of the newest number; deletes that are on their way
// may have taken effect in part, so it may begin before them.
var journalModel = porcupine.Model{
	Partition: byEntity,
	Init:      func() any { return log{} },
	Step: func(state, input, output any) (bool, any) {
		l, in, out := state.(log), input.(action), output.(answer)
		switch in.op {
		case "append":
			if out.conflict {
				return in.n != l.last, l
			}
			return in.n == l.last && out.n == l.last+1, log{l.values + in.value + ",", l.last + 1, l.deleted}
		case "delete":
			return true, log{l.values, l.last, max(l.deleted, min(in.n, l.last))}
		case "last":
			return out.n == l.last, l
		}
		if out.values == "" {
			return l.deleted == l.last, l
		}
		read := annals.SeqNr(strings.Count(out.values, ","))
		return out.n+read-1 == l.last && out.n <= l.deleted+1 && strings.HasSuffix(","+l.values, ","+out.values), l
	},
	DescribeOperation: describe,
}

func byEntity(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[annals.PersistenceID][]porcupine.Operation{}
	for _, op := range history {
		id := op.Input.(action).id
		parts[id] = append(parts[id], op)
	}
	var all [][]porcupine.Operation
	for _, part := range parts {
		all = append(all, part)
	}
	return all
}

func describe(input, output any) string {
	in, out := input.(action), output.(answer)
	return fmt.Sprintf("%s(%s, %d, %q) -> conflict %v, %d, %q", in.op, in.id, in.n, in.value, out.conflict, out.n, out.values)
}

// history is what clients did, with the times of calls and returns.
type history struct {
	mu    sync.Mutex
	start time.Time
	ops   []porcupine.Operation
}

// do runs one operation and notes it, unless it failed: then it stops the case.
func (hi *history) do(client int, in action, run func() (answer, error)) (answer, error) {
	call := time.Since(hi.start)
	out, err := run()
	if err != nil {
		return out, fmt.Errorf("%s of %q, %d: %w", in.op, in.id, in.n, err)
	}
	hi.mu.Lock()
	defer hi.mu.Unlock()
	hi.ops = append(hi.ops, porcupine.Operation{ClientId: client, Input: in, Call: int64(call), Output: out, Return: int64(time.Since(hi.start))})
	return out, nil
}

// check demands that the history is linearizable, and shows its beginning when it is not.
func (hi *history) check(h *harness, model porcupine.Model) {
	h.Helper()
	switch porcupine.CheckOperationsTimeout(model, hi.ops, time.Minute) {
	case porcupine.Ok:
	case porcupine.Unknown:
		h.Errorf("history of %d operations: got no answer within a minute, want it checked", len(hi.ops))
	case porcupine.Illegal:
		sort.Slice(hi.ops, func(i, j int) bool { return hi.ops[i].Call < hi.ops[j].Call })
		var b strings.Builder
		for _, op := range hi.ops {
			fmt.Fprintf(&b, "  client %d, %d to %d: %s\n", op.ClientId, op.Call, op.Return, describe(op.Input, op.Output))
		}
		h.Errorf("history of %d operations: got one that no order explains, want a linearizable one:\n%s", len(hi.ops), b.String())
	}
}

// linearizable lets clients work on two entities of s at once, each from the last number it knows.
func (h *harness) linearizable(s annals.Store, deletes bool) {
	const clients = 5
	hi := &history{start: time.Now()}
	ids := []annals.PersistenceID{h.id(), h.id()}
	errs := make([]error, clients)
	together(clients, func(client int) {
		known := map[annals.PersistenceID]annals.SeqNr{}
		for step := range h.volume(50, 15) {
			id := ids[(client+step)%2]
			if errs[client] = h.step(hi, s, client, step, id, known, deletes); errs[client] != nil {
				return
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("%d clients: got error %v, want none but conflicts", clients, err)
	}
	hi.check(h, journalModel)
}

func (h *harness) step(hi *history, s annals.Store, client, step int, id annals.PersistenceID, known map[annals.PersistenceID]annals.SeqNr, deletes bool) error {
	j := s.Journal()
	switch what := (step*5 + client*3) % 8; {
	case what == 1:
		out, err := hi.do(client, action{op: "last", id: id}, func() (answer, error) {
			n, err := j.LastSeqNr(h.ctx, id)
			return answer{n: n}, err
		})
		known[id] = out.n
		return err
	case what == 2 && deletes:
		to := known[id]
		_, err := hi.do(client, action{op: "delete", id: id, n: to}, func() (answer, error) { return answer{}, j.DeleteTo(h.ctx, id, to) })
		return err
	case what == 3 || what == 4:
		out, err := hi.do(client, action{op: "replay", id: id}, func() (answer, error) { return h.readAll(j, id) })
		if out.values != "" {
			known[id] = out.n + annals.SeqNr(strings.Count(out.values, ",")) - 1
		}
		return err
	}
	after, value := known[id], fmt.Sprintf("%d.%d", client, step)
	out, err := hi.do(client, action{op: "append", id: id, n: after, value: value}, func() (answer, error) {
		c := h.complete(annals.Commit{ID: id, After: after, Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 4, Data: []byte(value)}}}, WriteID: annals.NewWriteID()})
		r, err := h.send(h.ctx, s, c)
		if isConflict(err) {
			return answer{conflict: true}, nil
		}
		return answer{n: r.SeqNr}, err
	})
	if err == nil && !out.conflict {
		known[id] = out.n
	} else if err == nil {
		known[id], err = j.LastSeqNr(h.ctx, id) // not part of the history: reads only make it harder
	}
	return err
}

// readAll replays until no delete cuts the read.
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
				return out, fmt.Errorf("got number %d behind %d", e.SeqNr, e.SeqNr-1)
			}
			out.values += string(e.Data) + ","
		}
		return out, err
	}
}

// register is the state of the model of a durable state.
type register struct {
	revision annals.SeqNr
	value    string
}

var stateModel = porcupine.Model{
	Partition: byEntity,
	Init:      func() any { return register{} },
	Step: func(state, input, output any) (bool, any) {
		r, in, out := state.(register), input.(action), output.(answer)
		switch in.op {
		case "get":
			return out.n == r.revision && out.values == r.value, r
		case "delete":
			in.value = ""
		}
		if out.conflict {
			return in.n != r.revision, r
		}
		return in.n == r.revision && out.n == r.revision+1, register{out.n, in.value}
	},
	DescribeOperation: describe,
}

func linearizableStates(h *harness) {
	const clients = 5
	hi := &history{start: time.Now()}
	id, s := h.id(), h.store.States()
	errs := make([]error, clients)
	together(clients, func(client int) {
		var known annals.SeqNr
		for step := range h.volume(40, 15) {
			in := action{op: "put", id: id, n: known, value: strconv.Itoa(client) + "." + strconv.Itoa(step)}
			switch (step + client) % 4 {
			case 0, 1:
				in = action{op: "get", id: id}
			case 2:
				in.op = "delete"
			}
			var out answer
			out, errs[client] = hi.do(client, in, func() (answer, error) {
				if in.op == "get" {
					st, _, err := s.Get(h.ctx, id)
					return answer{n: st.Revision, values: string(st.Data)}, err
				}
				w := annals.StateWrite{ID: id, After: in.n, Payload: annals.Payload{SerializerID: 4, Data: []byte(in.value)}} // without a WriteID old numbers are conflicts
				write := s.Put
				if in.op == "delete" {
					write = s.Delete
				}
				r, err := write(h.ctx, w)
				if isConflict(err) {
					return answer{conflict: true}, nil
				}
				return answer{n: r.SeqNr}, err
			})
			if errs[client] != nil {
				return
			}
			if !out.conflict {
				known = out.n
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("%d clients of a state: got error %v, want none but conflicts", clients, err)
	}
	hi.check(h, stateModel)
}
