package followtest

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/projection"
)

// kills is how many runners of a projection are killed: make soak asks for more.
var kills = flag.Int("kills", 8, "runners that Projections kills for each projection")

// Target is a store with the positions of a projection, and its read model. T is the type of its transactions.
type Target[T any] struct {
	Store projection.TxStore[T]
	// Events is the store with the events. nil is Store; then some events are written in transactions that stay open for a while.
	Events annals.Store
	// Beside is another store on the same events, which writers use, too; nil: there is none.
	Beside annals.Store
	// Add adds an entry to the read model, in a transaction. It must keep two entries that are equal but for their Stamp.
	Add func(ctx context.Context, tx T, e Entry) error
	// Entries are those of all transactions that were committed.
	Entries func(ctx context.Context) ([]Entry, error)
	// Breaks are ways in which a handler makes its transaction one that cannot be committed, although it returns nil.
	Breaks map[string]func(ctx context.Context, tx T)
	// Deny makes the server deny what Store asks for, and then not any more. nil: all that a runner asks of Store and Events is denied.
	Deny func(ctx context.Context, denies bool) error
	// Late are ways in which events appear after their time has been passed. nil: there is none.
	Late map[string]Late
}

// Late is a way in which events appear late.
type Late struct {
	// Begin is called before the position has passed the time of the call. Store stores commits after that, with times before passed.
	Begin func(ctx context.Context) (Store, error)
	// Warning is in the warning that followers have of it before; "" where they cannot know.
	Warning string
}

// Store stores commits, which become visible late.
type Store func(ctx context.Context, passed time.Time, cs ...annals.Commit) error

// Entry says that an event was handled.
type Entry struct {
	ID    annals.PersistenceID
	SeqNr annals.SeqNr
	Stamp int64 // an entry that was added later has a greater one
}

// Projections checks that the projections of a target, which open opens for each of them, handle every event, and handle it once where that
// is promised, in the order of each entity, and of durable states the newest of each entity: while writers write at the same time, requests fail, answers get lost, runners are killed and
// ranges move. The cases are subtests.
func Projections[T any](t *testing.T, open func(t *testing.T) Target[T]) {
	t.Helper()
	for name, c := range cases[T](open(t).Late, 1) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c(t, open(t), random.New(t))
		})
	}
}

// cases are the cases of Projections by name, for a target with the ways of being late. times as many runners are killed as the flag says.
func cases[T any](ways map[string]Late, times int) map[string]func(t *testing.T, target Target[T], r *random.Source) {
	all := map[string]func(t *testing.T, target Target[T], r *random.Source){}
	for _, g := range guarantees {
		all[string(g)] = func(t *testing.T, target Target[T], r *random.Source) {
			w := newWorld(target, g, r)
			if w.kills = *kills * times; times == 1 { // each write is a request to a server
				w.rounds = 2 * w.kills
			}
			if err := w.run(t.Context()); err != nil {
				t.Error(err)
			}
			t.Logf("%d events, %d runners were killed, skipped %d, doubled %d", w.written, w.kills, w.skipped, w.doubled)
		}
	}
	orders := schedules[T]()
	for name := range ways {
		orders[name] = func(w *world[T], ctx context.Context) error { return w.below(ctx, w.Late[name]) }
	}
	for name, s := range orders {
		all[name] = func(t *testing.T, target Target[T], r *random.Source) {
			if err := s.in(t.Context(), target, late.Lies{}, r); err != nil {
				t.Error(err)
			}
		}
	}
	return all
}

// guarantee is a kind of projection.
type guarantee string

const (
	exactlyOnce        guarantee = "exactly once"
	exactlyOnceGrouped guarantee = "exactly once, grouped"
	atLeastOnce        guarantee = "at least once"
	ofStates           guarantee = "exactly once, of durable states"
)

var guarantees = []guarantee{exactlyOnce, exactlyOnceGrouped, atLeastOnce, ofStates}
