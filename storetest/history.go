package storetest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/annals-go/annals"
)

// action is one operation of a concurrent history.
type action struct {
	op     string // of a journal "append", "again" (a stored append sent again), "delete", "last", "replay", "recover"; of a state "put", "remove", "get"
	id     annals.PersistenceID
	n      annals.SeqNr // After of a write, to of a delete
	values string       // what a write stores: a value for every event, each followed by a comma
}

// answer is the answer to an action.
type answer struct {
	conflict bool
	unknown  bool         // it may have been done, or may be done later
	n        annals.SeqNr // the last number of a receipt or of the entity, the revision; of a replay or recovery the first number of values
	values   string       // what a read yielded
	covered  annals.SeqNr // by the snapshot of a recovery
}

// call is an action with its answer and when it was called and returned.
type call struct {
	client     int
	in         action
	out        answer
	begun, end time.Duration
}

func (c call) String() string {
	return fmt.Sprintf("client %d, %d to %d: %s", c.client, c.begun, c.end, describe(c.in, c.out))
}

func describe(input, output any) string {
	in, out := input.(action), output.(answer)
	return fmt.Sprintf("%s(%s, %d, %q) -> conflict %v, unknown %v, %d, %q", in.op, in.id, in.n, in.values, out.conflict, out.unknown, out.n, out.values)
}

func count(values string) annals.SeqNr { return annals.SeqNr(strings.Count(values, ",")) }

func each(values string) []string {
	return strings.FieldsFunc(values, func(r rune) bool { return r == ',' })
}

// history is the actions of all clients with their answers.
type history struct {
	mu    sync.Mutex
	start time.Time
	calls []call
}

func newHistory() *history { return &history{start: time.Now()} }

// do runs one action and records it. An error that is no answer is returned and not recorded.
func (hi *history) do(client int, in action, run func() (answer, error)) (answer, error) {
	begun := time.Since(hi.start)
	out, err := run()
	if err != nil {
		return out, fmt.Errorf("%s of %q, %d: %w", in.op, in.id, in.n, err)
	}
	hi.mu.Lock()
	defer hi.mu.Unlock()
	hi.calls = append(hi.calls, call{client, in, out, begun, time.Since(hi.start)})
	return out, nil
}

// impossible is in the failure for a history that is not linearizable.
const impossible = "that no order explains"

// check fails the case when the history is not linearizable.
func (hi *history) check(h *harness, model porcupine.Model) {
	h.Helper()
	switch porcupine.CheckOperationsTimeout(model, hi.operations(), time.Minute) {
	case porcupine.Ok:
	case porcupine.Unknown:
		h.Errorf("history of %d operations: got no answer within a minute, want it checked", len(hi.calls))
	case porcupine.Illegal:
		slices.SortFunc(hi.calls, func(a, b call) int { return int(a.begun - b.begun) })
		var b strings.Builder
		for _, c := range hi.calls {
			fmt.Fprintf(&b, "  %v\n", c)
		}
		h.Errorf("history of %d operations: got one %s, want a linearizable one:\n%s", len(hi.calls), impossible, b.String())
	}
}

// operations converts the history for the checker. An append is one operation for each of its events, because readers may see the first of them
// before the others. An action with an unknown outcome never ends.
func (hi *history) operations() (all []porcupine.Operation) {
	for _, c := range hi.calls {
		op := porcupine.Operation{ClientId: c.client, Input: c.in, Call: int64(c.begun), Output: c.out, Return: int64(c.end)}
		if c.out.unknown {
			op.Return = math.MaxInt64
		}
		if c.in.op != "append" || c.out.conflict {
			all = append(all, op)
			continue
		}
		values := each(c.in.values)
		for i, value := range values {
			in, out := c.in, c.out
			in.n, in.values = c.in.n+annals.SeqNr(i), value+","
			out.n = c.out.n - annals.SeqNr(len(values)-1-i)
			op.Input, op.Output = in, out
			all = append(all, op)
		}
	}
	return all
}

// log is the state of the model of a journal: all values ever written, and the number up to which they are deleted.
type log struct {
	values  string
	last    annals.SeqNr
	deleted annals.SeqNr
}

// journalModel says which answers a journal may give. A replay reads the newest number. It may still begin before a delete that runs at the same
// time.
var journalModel = porcupine.Model{
	Partition: byEntity,
	Init:      func() any { return log{} },
	Step: func(state, input, output any) (bool, any) {
		l, in, out := state.(log), input.(action), output.(answer)
		switch in.op {
		case "append":
			if out.conflict || in.n != l.last {
				return in.n != l.last && (out.conflict || out.unknown), l
			}
			return out.unknown || out.n == l.last+1, log{l.values + in.values, l.last + 1, l.deleted}
		case "again":
			if out.conflict || out.unknown { // allowed when nothing of it was stored
				return in.n+count(in.values) <= l.deleted, l
			}
			return out.n == in.n+count(in.values) && out.n <= l.last, l
		case "delete":
			return true, log{l.values, l.last, max(l.deleted, min(in.n, l.last))}
		case "last":
			return out.n == l.last, l
		}
		if out.values == "" && in.op == "replay" {
			return l.deleted == l.last, l
		}
		return out.n+count(out.values)-1 == l.last && out.n <= max(l.deleted, out.covered)+1 && strings.HasSuffix(","+l.values, ","+out.values), l
	},
	DescribeOperation: describe,
}

// register is the state of the model of a durable state.
type register struct {
	revision annals.SeqNr
	values   string
}

var stateModel = porcupine.Model{
	Partition: byEntity,
	Init:      func() any { return register{} },
	Step: func(state, input, output any) (bool, any) {
		r, in, out := state.(register), input.(action), output.(answer)
		switch {
		case in.op == "get":
			return out.n == r.revision && out.values == r.values, r
		case out.conflict, in.n != r.revision:
			return in.n != r.revision && (out.conflict || out.unknown), r
		}
		return out.unknown || out.n == r.revision+1, register{r.revision + 1, in.values}
	},
	DescribeOperation: describe,
}

func byEntity(all []porcupine.Operation) [][]porcupine.Operation {
	parts := map[annals.PersistenceID][]porcupine.Operation{}
	for _, op := range all {
		id := op.Input.(action).id
		parts[id] = append(parts[id], op)
	}
	return slices.Collect(maps.Values(parts))
}
