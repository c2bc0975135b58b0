package projection_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// park says Park to everything.
func park(context.Context, Failure) Verdict { return Park }

// failing is a handler that fails for some events, each "id/number".
type failing struct {
	mu     sync.Mutex
	events []string
}

func (f *failing) set(events ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = events
}

func (f *failing) handle(e envelope) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(f.events, key(e)) {
		return &annals.Error{Op: "handle", Kind: annals.ErrConstraint, Err: errBroken}
	}
	return nil
}

// list returns what is parked in the order of the ids.
func list(t *testing.T, c *Control) (all []ParkedEntity) {
	t.Helper()
	for x, err := range c.Parked(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b ParkedEntity) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return all
}

// parked returns what is parked as "id/number".
func parked(t *testing.T, c *Control) []string {
	t.Helper()
	var found []string
	for _, x := range list(t, c) {
		found = append(found, fmt.Sprintf("%s/%d", x.ID, x.From))
	}
	return found
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s:\n%s", what, d)
	}
}

func TestEventsBehindAParkedOneWait(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"once", "group", "least"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				in := inMemory(memstore.New())
				make := map[string]maker{"once": in.once, "group": in.group, "least": in.least}[kind]
				var f failing
				f.set("T|3/2", "T|7/5")
				runner := must(t)(make("p", in.store, f.handle, Options{OnError: park, Logger: silent}))
				running(t, runner)
				add(t, in.store, 1, 10, 3)
				time.Sleep(10 * time.Second)
				add(t, in.store, 1, 10, 3)
				time.Sleep(10 * time.Second)
				in.check(t, in.store, "T|3/2", "T|3/3", "T|3/4", "T|3/5", "T|3/6", "T|7/5", "T|7/6")

				c := NewControl(in.store, "p")
				all := list(t, c)
				for i := range all {
					if all[i].Since.IsZero() || all[i].Time.IsZero() {
						t.Errorf("times of %+v", all[i])
					}
					all[i].Since, all[i].Time = time.Time{}, time.Time{}
				}
				equal(t, "parked", all, []ParkedEntity{
					{ID: "T|3", From: 2, Kind: "constraint", Error: "*errors.errorString"},
					{ID: "T|7", From: 5, Kind: "constraint", Error: "*errors.errorString"},
				})

				// A retry that fails again at a later event.
				f.set("T|3/5")
				if err := c.Retry(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				in.check(t, in.store, "T|3/5", "T|3/6")
				if all = list(t, c); len(all) != 1 || all[0].From != 5 || all[0].Tries != 1 || all[0].Retry || all[0].Kind != "constraint" {
					t.Errorf("parked are %+v", all)
				}

				if err := c.Discard(t.Context(), "T|3", 5); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				add(t, in.store, 1, 10, 3)
				time.Sleep(10 * time.Second)
				in.check(t, in.store, "T|3/5")
				equal(t, "parked", parked(t, c), []string(nil))
			})
		})
	}
}

// async runs fn on a goroutine.
func async(fn func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- fn() }()
	return result
}

// Whatever call of a store fails while an entity is parked, retried, parked again and discarded, each event is handled exactly once and in
// its order.
func TestParkingUnderFaults(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		for _, once := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, once %v", m.name, once), func(t *testing.T) {
				t.Parallel()
				step := 1
				if testing.Short() {
					step = 5
				}
				for at, tripped := 1, true; tripped; at += step {
					synctest.Test(t, func(t *testing.T) {
						b := &breaks{mode: m, at: at}
						parkUnderFaults(t, memstore.New(), b, once)
						tripped = b.tripped()
						if t.Failed() {
							t.Fatalf("call %d", at)
						}
					})
					if t.Failed() {
						return
					}
				}
			})
		}
	}
}

func parkUnderFaults(t *testing.T, store *memstore.Store, b *breaks, once bool) {
	var f failing
	var mu sync.Mutex
	least := map[annals.PersistenceID][]annals.SeqNr{}
	o := Options{OnError: park, Logger: silent, Ranges: 2, BatchSize: 3}
	run := func(events annals.Store, into TxStore[memstore.Tx], ctx context.Context) error {
		source := Source[int]{Store: events, Type: "T", Codec: numbers}
		var r *Runner
		if once {
			r = must(t)(ExactlyOnce("p", source, into, func(_ context.Context, tx memstore.Tx, e envelope) error {
				model, _ := tx.Value("model").(map[annals.PersistenceID][]annals.SeqNr)
				model = maps.Clone(model)
				if model == nil {
					model = map[annals.PersistenceID][]annals.SeqNr{}
				}
				model[e.ID] = append(slices.Clone(model[e.ID]), e.SeqNr)
				tx.SetValue("model", model)
				return f.handle(e)
			}, o))
		} else {
			r = must(t)(AtLeastOnce("p", source, into, func(_ context.Context, e envelope) error {
				if err := f.handle(e); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				if !slices.Contains(least[e.ID], e.SeqNr) {
					least[e.ID] = append(least[e.ID], e.SeqNr)
				}
				return nil
			}, o))
		}
		return r.CatchUp(ctx)
	}
	c := NewControl(store, "p")
	// work runs a process that may break, and another one if it did not come to the end.
	work := func() {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b.die = cancel
		flaky := breaking(store, b)
		err := run(flaky, flaky, ctx)
		b.revive()
		ordered := func(x ParkedEntity) bool { return x.Retry }
		for err != nil || slices.ContainsFunc(list(t, c), ordered) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			err = run(store, store, ctx)
			if cancel(); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(step string, want map[annals.PersistenceID][]annals.SeqNr, waiting ...string) {
		t.Helper()
		got := least
		if once {
			got, _ = store.Value("model").(map[annals.PersistenceID][]annals.SeqNr)
		}
		equal(t, step+": handled", got, want)
		equal(t, step+": parked", parked(t, NewControl(store, "p")), waiting)
	}
	all := []annals.SeqNr{1, 2, 3, 4}

	add(t, store, 1, 3, 4)
	f.set("T|2/2")
	work()
	check("park", map[annals.PersistenceID][]annals.SeqNr{"T|1": all, "T|2": {1}, "T|3": all}, "T|2/2")

	f.set("T|2/3", "T|3/6")
	if err := c.Retry(t.Context(), "T|2"); err != nil {
		t.Fatal(err)
	}
	add(t, store, 2, 3, 2)
	work()
	check("park again", map[annals.PersistenceID][]annals.SeqNr{"T|1": all, "T|2": {1, 2}, "T|3": {1, 2, 3, 4, 5}}, "T|2/3", "T|3/6")

	f.set()
	if err := errors.Join(c.Discard(t.Context(), "T|2", 3), c.Retry(t.Context(), "T|3")); err != nil {
		t.Fatal(err)
	}
	add(t, store, 2, 3, 1)
	work()
	check("discard", map[annals.PersistenceID][]annals.SeqNr{"T|1": all, "T|2": {1, 2, 4, 5, 6, 7}, "T|3": {1, 2, 3, 4, 5, 6, 7}})
}

func TestOrdersAboutWhatIsNotParked(t *testing.T) {
	t.Parallel()
	in := inMemory(memstore.New())
	add(t, in.store, 1, 3, 3)
	var f failing
	f.set("T|2/2")
	catchUp(t, must(t)(in.once("p", in.store, f.handle, Options{OnError: park, Logger: silent})))
	c := NewControl(in.store, "p")
	for what, err := range map[string]error{
		"retry of another":   c.Retry(t.Context(), "T|2", "T|1"),
		"discard of another": c.Discard(t.Context(), "T|1", 9),
		"discard below":      c.Discard(t.Context(), "T|2", 1),
		"other projection":   NewControl(in.store, "q").Retry(t.Context()),
	} {
		if !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if all := list(t, c); len(all) != 1 || all[0].Retry || all[0].DiscardTo != 0 {
		t.Errorf("parked are %+v", all)
	}
	if err := c.Discard(t.Context(), "T|2", annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	catchUp(t, must(t)(in.once("p", in.store, f.handle, Options{Logger: silent})))
	add(t, in.store, 2, 2, 1)
	catchUp(t, must(t)(in.once("p", in.store, f.handle, Options{Logger: silent})))
	in.check(t, in.store, "T|2/2", "T|2/3")
}

// The text of an error is kept only if the program wants it.
func TestTextOfParkedErrors(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 200) + "\xff"
	for i, text := range []func(error) string{nil, error.Error, func(error) string { panic("text") }} {
		in := inMemory(memstore.New())
		add(t, in.store, 1, 1, 3)
		catchUp(t, must(t)(in.once("p", in.store, func(envelope) error {
			return fmt.Errorf("secret %w", errors.New(long))
		}, Options{OnError: park, Logger: silent, ErrorText: text})))
		all := list(t, NewControl(in.store, "p"))
		if len(all) != 1 {
			t.Fatalf("parked are %+v", all)
		}
		want := "*errors.errorString"
		if i == 1 {
			want = "secret " + strings.Repeat("é", 124)
		}
		equal(t, "text", all[0].Error, want)
	}
}

// An order is carried out within the time that is promised, also while nothing is written to the store of the events.
func TestOrderWhileNothingIsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, events := inMemory(memstore.New()), memstore.New()
		var f failing
		f.set("T|1/2")
		add(t, events, 1, 1, 3)
		r := must(t)(in.once("p", events, f.handle, Options{OnError: park, Logger: silent}))
		running(t, r)
		time.Sleep(time.Minute)
		equal(t, "parked", parked(t, r.Control()), []string{"T|1/2"})
		f.set()
		if err := r.Control().Retry(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(8 * time.Second)
		in.check(t, events)
	})
}

// CatchUp carries orders out, however long that takes.
func TestCatchUpCarriesOutOrders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		source := Source[int]{Store: store, Type: "T", Codec: numbers}
		bug := true
		r := must(t)(AtLeastOnce("p", source, store, func(context.Context, envelope) error {
			if bug {
				return errBroken
			}
			time.Sleep(time.Minute)
			return nil
		}, Options{OnError: park, Logger: silent, BatchSize: 1}))
		add(t, store, 1, 1, 3)
		if err := r.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		bug = false
		if err := errors.Join(r.Control().Retry(t.Context()), r.CatchUp(t.Context())); err != nil {
			t.Fatal(err)
		}
		equal(t, "parked", parked(t, r.Control()), []string(nil))
	})
}

// tooLarge refuses transactions in which handle was not called, as those that park an entity.
func (f *faults) tooLarge() (handle func(envelope) error) {
	handled := false
	f.around = func(run func() error) error {
		handled = false
		return run()
	}
	f.commit = func() error {
		if !handled {
			return &annals.Error{Op: "transaction", Kind: annals.ErrTooLarge}
		}
		return nil
	}
	return func(envelope) error {
		handled = true
		return errBroken
	}
}

func TestParkedEntitiesThatAreTooLarge(t *testing.T) {
	t.Parallel()
	in := inMemory(memstore.New())
	add(t, in.store, 1, 1, 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := must(t)(in.once("p", in.store, in.faults.tooLarge(), Options{OnError: park, Logger: silent, Ranges: 1})).CatchUp(ctx)
	if !errors.Is(err, errBroken) || !errors.Is(err, annals.ErrTooLarge) {
		t.Errorf("CatchUp returned %v", err)
	}
}

// The same after a retry that has failed.
func TestRetriedEntitiesThatAreTooLarge(t *testing.T) {
	t.Parallel()
	in := inMemory(memstore.New())
	add(t, in.store, 1, 1, 3)
	handle := func(envelope) error { return errBroken }
	r := must(t)(in.once("p", in.store, func(e envelope) error { return handle(e) }, Options{OnError: park, Logger: silent, Ranges: 1}))
	catchUp(t, r)
	handle = in.faults.tooLarge()
	if err := r.Control().Retry(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.CatchUp(ctx); !errors.Is(err, errBroken) || !errors.Is(err, annals.ErrTooLarge) {
		t.Errorf("CatchUp returned %v", err)
	}
}

// An entity is parked together with the position, not when the position is saved the next time. So are later events that wait.
func TestParkingSavesThePosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := inMemory(memstore.New())
		var f failing
		f.set("T|1/1")
		running(t, must(t)(in.once("p", in.store, f.handle, Options{OnError: park, Logger: silent})))
		time.Sleep(time.Minute)
		add(t, in.store, 1, 1, 1)
		time.Sleep(100 * time.Millisecond)
		c := NewControl(in.store, "p")
		equal(t, "parked", parked(t, c), []string{"T|1/1"})
		add(t, in.store, 1, 1, 1)
		time.Sleep(100 * time.Millisecond)
		if s := status(t, c, in.store); s.Lag != 0 {
			t.Errorf("lag %d", s.Lag)
		}
		f.set()
		if err := c.Retry(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		in.check(t, in.store)
	})
}

// A cleaner and a host that wait for the projection do not delete the events that wait.
func TestWaitingEventsAreNotDeleted(t *testing.T) {
	t.Parallel()
	in := inMemory(memstore.New())
	add(t, in.store, 1, 3, 3)
	var f failing
	f.set("T|2/2")
	catchUp(t, must(t)(in.once("p", in.store, f.handle, Options{OnError: park, Logger: silent})))
	c, err := cleanup.New(in.store, cleanup.Options{Projections: []string{"p"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.DeleteEvents(t.Context(), cleanup.IDs("T|1", "T|2", "T|3"), annals.MaxSeqNr); !errors.Is(err, annals.ErrUnavailable) {
		t.Errorf("the parked entity was cleaned: %v", err)
	}
	f.set()
	if err := NewControl(in.store, "p").Retry(t.Context()); err != nil {
		t.Fatal(err)
	}
	catchUp(t, must(t)(in.once("p", in.store, f.handle, Options{Logger: silent})))
	if n := len(in.count(t)); n != 9 {
		t.Errorf("%d events were handled, want 9", n)
	}
	if _, err := c.DeleteEvents(t.Context(), cleanup.IDs("T|2"), annals.MaxSeqNr); err != nil {
		t.Error(err)
	}
}

// An entity with an event that the codec does not read is parked as corrupt.
func TestKindOfAnEventThatIsNotDecoded(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	valid, err := numbers.Encode(1)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range []annals.Payload{
		{SerializerID: valid.SerializerID, Manifest: "unknown", Data: valid.Data},
		{SerializerID: valid.SerializerID, Manifest: valid.Manifest, Data: []byte("{")},
		{SerializerID: 99, Manifest: valid.Manifest, Data: valid.Data},
	} {
		_, err := s.Journal().Append(t.Context(), annals.Commit{ID: annals.NewPersistenceID("T", strconv.Itoa(i)), Events: []annals.NewEvent{{Payload: p}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	var f failing
	catchUp(t, must(t)(ExactlyOnce("p", Source[int]{Store: s, Type: "T", Codec: numbers}, s, func(_ context.Context, _ memstore.Tx, e envelope) error { return f.handle(e) }, Options{OnError: park, Logger: silent})))
	all := list(t, NewControl(s, "p"))
	if len(all) != 3 {
		t.Errorf("parked are %+v", all)
	}
	for _, x := range all {
		if x.Kind != annals.ErrCorrupt.Error() {
			t.Errorf("%s is parked with kind %q", x.ID, x.Kind)
		}
	}
}
