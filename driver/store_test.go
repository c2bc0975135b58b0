package driver_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/memstore"
)

// backend is a Driver that has a journal.
type backend struct {
	annals.Store // nil
	journal      journal
	closed       int
}

func (*backend) Capabilities() annals.Capabilities { return annals.Capabilities{Events: true} }
func (b *backend) Journal() annals.Journal         { return b.journal }
func (*backend) Fault(err error) error             { return &annals.Error{Kind: annals.ErrCorrupt, Err: err} }
func (b *backend) Close() error                    { b.closed++; return nil }

// journal does what a test says. It answers a plain append by itself.
type journal struct {
	annals.Journal
	last   func(ctx context.Context) (annals.SeqNr, error)
	replay func(ctx context.Context) iter.Seq2[annals.Event, error]
}

func (j journal) Append(_ context.Context, c annals.Commit) (annals.Receipt, error) {
	return annals.Receipt{SeqNr: c.After + annals.SeqNr(len(c.Events)), Time: time.Unix(1, 0)}, nil
}

func (j journal) LastSeqNr(ctx context.Context, _ annals.PersistenceID) (annals.SeqNr, error) {
	return j.last(ctx)
}

func (j journal) Replay(ctx context.Context, _ annals.PersistenceID, _, _ annals.SeqNr) iter.Seq2[annals.Event, error] {
	return j.replay(ctx)
}

// pages yields an event for each fetch.
func pages(n int, fetch func(ctx context.Context) error) func(ctx context.Context) iter.Seq2[annals.Event, error] {
	return func(ctx context.Context) iter.Seq2[annals.Event, error] {
		return func(yield func(annals.Event, error) bool) {
			for i := range n {
				if err := driver.Fetch(ctx, fetch); err != nil {
					yield(annals.Event{}, err)
					return
				}
				if !yield(annals.Event{SeqNr: annals.SeqNr(i + 1)}, nil) {
					return
				}
			}
		}
	}
}

func nothing(context.Context) error { return nil }

func TestErrorsAreNamed(t *testing.T) {
	t.Parallel()
	cause, theirs := errors.New("cause"), &annals.Error{Op: "open", ID: "B|1", Kind: annals.ErrClosed}
	shared := &annals.Error{Kind: annals.ErrConflict, Last: 7}
	for _, c := range []struct {
		err  error
		want annals.Error
	}{
		{cause, annals.Error{Op: "last number", ID: "A|1", Kind: annals.ErrCorrupt, Err: cause}},
		{shared, annals.Error{Op: "last number", ID: "A|1", Kind: annals.ErrConflict, Last: 7}},
		{&annals.Error{ID: "A|2", Kind: annals.ErrCorrupt}, annals.Error{Op: "last number", ID: "A|2", Kind: annals.ErrCorrupt}},
		{theirs, *theirs},
	} {
		b := &backend{journal: journal{last: func(context.Context) (annals.SeqNr, error) { return 0, c.err }}}
		s := driver.New(b, driver.Options{})
		_, err := s.Journal().LastSeqNr(t.Context(), "A|1")
		if got := (*annals.Error)(nil); !errors.As(err, &got) || *got != c.want {
			t.Errorf("%#v: got %#v, want %#v", c.err, err, c.want)
		}
	}
	if shared.Op != "" {
		t.Errorf("an error of the driver's was changed: %v", shared)
	}
}

func TestUse(t *testing.T) {
	t.Parallel()
	type key struct{}
	mine, no := errors.New("mine"), error(nil)
	last := func(ctx context.Context) (annals.SeqNr, error) {
		if ctx.Value(key{}) == nil {
			return 0, errors.New("another context than that of the use")
		}
		return 1, mine
	}
	b := &backend{journal: journal{last: last, replay: pages(2, nothing)}}
	s := driver.New(b, driver.Options{})
	var ends []error
	use := func(ctx context.Context) (context.Context, func(err error) error, error) {
		return context.WithValue(ctx, key{}, true), func(err error) error { ends = append(ends, err); return err }, no
	}
	err := driver.InTx(t.Context(), s, driver.Transaction{Driver: b, Use: use}, func(ctx context.Context, in *driver.Store) error {
		if _, err := in.Journal().LastSeqNr(ctx, "A|1"); !errors.Is(err, mine) {
			t.Error(err)
		}
		if err := drain(in.Journal().Replay(ctx, "A|1", 1, 2), 9); err != nil {
			t.Error(err)
		}
		if !slices.Equal(ends, []error{mine, nil, nil}) {
			t.Errorf("the uses ended with %v", ends)
		}
		no = errors.New("no")
		if _, err := in.Journal().LastSeqNr(ctx, "A|1"); !errors.Is(err, no) || !errors.Is(err, annals.ErrCorrupt) {
			t.Errorf("a use that is refused: got %v", err)
		}
		return mine
	})
	if !errors.Is(err, mine) || len(ends) != 3 {
		t.Errorf("the transaction: %v, %v", err, ends)
	}
	if err := s.Close(); err != nil || b.closed != 1 { // nothing is left under way
		t.Errorf("close: %v, %d times", err, b.closed)
	}
}

// When the context ends in a transaction, it is not guarded, and must not be committed.
func TestInTxWhoseContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	d := &backend{}
	guard := func(context.Context, []driver.Seen, []driver.Seen) error { return nil }
	err := driver.InTx(ctx, driver.New(d, driver.Options{}), driver.Transaction{Driver: d, Guard: guard}, func(context.Context, *driver.Store) error { cancel(); return nil })
	if !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Close waits for calls and fetches under way, for reads no longer than ReadWait, and not for the body of a loop.
func TestClose(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wait, takes time.Duration
		kind        error
	}{{0, time.Hour, nil}, {time.Minute, time.Second, nil}, {time.Minute, time.Hour, annals.ErrUnavailable}} {
		synctest.Test(t, func(t *testing.T) {
			slow := func(context.Context) error { time.Sleep(c.takes); return nil }
			b := &backend{journal: journal{replay: pages(2, slow), last: func(ctx context.Context) (annals.SeqNr, error) { return 1, slow(ctx) }}}
			s := driver.New(b, driver.Options{ReadWait: c.wait})
			go func() { _, _ = s.Journal().LastSeqNr(t.Context(), "A|1") }()
			synctest.Wait()
			began := time.Now()
			err := s.Close()
			want := c.takes
			if c.kind != nil {
				want = c.wait
			}
			if !errors.Is(err, c.kind) || c.kind == nil && err != nil || time.Since(began) != want || b.closed != 1 {
				t.Errorf("%+v: got %v after %v", c, err, time.Since(began))
			}
			if err := s.Close(); err != nil || b.closed != 1 {
				t.Errorf("a second close: %v, the driver was closed %d times", err, b.closed)
			}
			if _, err := s.Journal().LastSeqNr(t.Context(), "A|1"); !errors.Is(err, annals.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
			time.Sleep(2 * c.takes)
		})
	}
	b := &backend{journal: journal{replay: pages(3, nothing)}}
	s := driver.New(b, driver.Options{})
	n := 0
	for _, err := range s.Journal().Replay(t.Context(), "A|1", 1, 3) {
		if n++; n == 1 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, annals.ErrClosed) {
			t.Errorf("an event after Close: %v", err)
		}
	}
	if n != 2 {
		t.Errorf("the loop's body ran %d times, want twice", n)
	}
}

// inside is a Driver within a transaction that claims more.
type inside struct{ *backend }

func (inside) Capabilities() annals.Capabilities {
	return annals.Capabilities{Events: true, Metadata: true}
}

// skipping is a Driver that has abilities and lists ids, with or without the claims.
type skipping struct {
	*backend
	ability.StateSkipper
	ability.Skipper
	caps  annals.Capabilities
	lacks error
}

func (s skipping) Lacks(any) error { return s.lacks }

func (s skipping) Capabilities() annals.Capabilities { return s.caps }

func (skipping) Query() annals.Query { return ids{} }

type ids struct{ annals.Query }

func (ids) IDs(context.Context, string, annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) { yield("A|1", nil) }
}

type skips struct{}

func (skips) SkipTo(context.Context, annals.PersistenceID, annals.SeqNr, annals.SeqNr) error {
	return nil
}
func (skips) SkipStateTo(context.Context, annals.PersistenceID, annals.SeqNr) error { return nil }

// What the Driver says that it lacks, or has no claim for, is ErrUnsupported, although it has the method.
func TestAbilitiesThatAreLacking(t *testing.T) {
	t.Parallel()
	for _, c := range []annals.Capabilities{{Events: true, EventQueries: true, StateQueries: true}, {States: true}, {IDQueries: true}} {
		for _, lacks := range []error{nil, errors.New("no room")} {
			s := driver.New(skipping{&backend{}, skips{}, skips{}, c, lacks}, driver.Options{})
			_, skips := ability.Of[ability.Skipper](s)
			_, skipsStates := ability.Of[ability.StateSkipper](s)
			for name, err := range map[string]error{"skip": s.Unwrap().(ability.Skipper).SkipTo(t.Context(), "A|1", 0, 7), "ask for a Skipper": skips} {
				if has := c.Events && lacks == nil; errors.Is(err, annals.ErrUnsupported) == has || c.Events && !has && !strings.Contains(err.Error(), lacks.Error()) {
					t.Errorf("%+v, lacks %v: %s: %v", c, lacks, name, err)
				}
			}
			for name, err := range map[string]error{"skip": s.Unwrap().(ability.StateSkipper).SkipStateTo(t.Context(), "A|1", 7), "ask for a StateSkipper": skipsStates} {
				if has := c.States && lacks == nil; errors.Is(err, annals.ErrUnsupported) == has {
					t.Errorf("%+v, lacks %v: state: %s: %v", c, lacks, name, err)
				}
			}
		}
		s := driver.New(skipping{&backend{}, skips{}, skips{}, c, nil}, driver.Options{})
		for _, err := range s.Query().IDs(t.Context(), "", "") {
			if errors.Is(err, annals.ErrUnsupported) == c.IDQueries {
				t.Errorf("%+v: ids: %v", c, err)
			}
		}
	}
}

// Without Times a receipt has no time, whatever the Driver says.
func TestReceiptWithoutTimes(t *testing.T) {
	t.Parallel()
	s := driver.New(&backend{}, driver.Options{})
	r, err := s.Journal().Append(t.Context(), annals.Commit{ID: "A|1", Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1}}}})
	if err != nil || r.SeqNr != 1 || !r.Time.IsZero() {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestInTx(t *testing.T) {
	t.Parallel()
	b := &backend{journal: journal{replay: pages(3, nothing)}}
	s := driver.New(b, driver.Options{})
	var next func() (annals.Event, error, bool)
	var stop func()
	var in *driver.Store
	c := annals.Commit{ID: "A|1", Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1}}}}
	if err := driver.InTx(t.Context(), s, driver.Transaction{Driver: inside{b}}, func(ctx context.Context, within *driver.Store) error {
		in = within
		if !in.Capabilities().Metadata || s.Capabilities().Metadata {
			t.Errorf("capabilities: inside %+v, outside %+v", in.Capabilities(), s.Capabilities())
		}
		if err := in.Close(); err != nil || b.closed != 0 {
			t.Errorf("close inside: %v", err)
		}
		if _, err := in.Journal().Append(ctx, c); err != nil {
			t.Error(err)
		}
		if _, err := s.Journal().Append(ctx, c); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("a write to the outer store: %v", err)
		}
		if _, err := ability.Of[ability.Atomic](in); !errors.Is(err, annals.ErrUnsupported) || !errors.Is(in.Unwrap().(ability.Atomic).Atomically(ctx, nil), annals.ErrUnsupported) {
			t.Errorf("a transaction within a transaction: %v", err)
		}
		next, stop = iter.Pull2(in.Journal().Replay(ctx, "A|1", 1, 3))
		if _, err, ok := next(); err != nil || !ok {
			t.Errorf("the first event: %v", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	defer stop()
	if _, err, _ := next(); !errors.Is(err, annals.ErrClosed) {
		t.Errorf("an event after the end: %v", err)
	}
	if _, err := in.Journal().Append(t.Context(), c); !errors.Is(err, annals.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// What a call costs is counted for the store that is called, and not for one whose call it is within.
func TestCount(t *testing.T) {
	t.Parallel()
	counts := journal{last: func(ctx context.Context) (annals.SeqNr, error) {
		driver.Count(ctx, annals.Result{Requests: 1, Retries: 2, ReadUnits: 0.5, WriteUnits: 3, Events: 9, Bytes: 9})
		return 1, nil
	}}
	silent := driver.New(&backend{journal: counts}, driver.Options{})
	o := &observer{}
	s := driver.New(&backend{journal: journal{last: func(ctx context.Context) (annals.SeqNr, error) {
		_, _ = silent.Journal().LastSeqNr(ctx, "B|1")
		return counts.last(ctx)
	}}}, driver.Options{Observer: o})
	if _, err := s.Journal().LastSeqNr(t.Context(), "A|1"); err != nil {
		t.Error(err)
	}
	o.result.Duration = 0
	if want := (annals.Result{Requests: 1, Retries: 2, ReadUnits: 0.5, WriteUnits: 3}); o.result != want {
		t.Errorf("got %+v, want %+v", o.result, want)
	}
}

// The duration of a replay or recovery is without the caller's code.
func TestDurationIsOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &observer{}
		store, err := memstore.Open(memstore.Options{Observer: o})
		if err != nil {
			t.Fatal(err)
		}
		event := annals.NewEvent{Payload: annals.Payload{SerializerID: 1}}
		if _, err := store.Journal().Append(t.Context(), annals.Commit{ID: "A|1", Events: []annals.NewEvent{event, event}}); err != nil {
			t.Fatal(err)
		}
		for _, err := range store.Journal().Replay(t.Context(), "A|1", 1, 2) {
			if time.Sleep(time.Second); err != nil {
				t.Fatal(err)
			}
		}
		replay := o.result
		_, err = ability.Recover(t.Context(), store, "A|1", func(annals.Snapshot) error { return nil }, func(annals.Event) error { time.Sleep(time.Second); return nil })
		if recovery := o.result; err != nil || replay.Duration != 0 || recovery.Duration != 0 || replay.Events != 2 || recovery.Events != 2 {
			t.Errorf("%v: %+v, %+v", err, replay, recovery)
		}
	})
}

// A call whose function, or the body of whose loop, does not return is told to the Observer as one that failed.
func TestObserverOfAPanic(t *testing.T) {
	t.Parallel()
	o := &observer{}
	store, err := memstore.Open(memstore.Options{Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	ctx, id := t.Context(), annals.PersistenceID("A|1")
	one := annals.Payload{SerializerID: 1}
	_, appended := store.Journal().Append(ctx, annals.Commit{ID: id, Events: []annals.NewEvent{{Payload: one}, {Payload: one}}})
	saved := store.Snapshots().Save(ctx, annals.Snapshot{ID: id, SeqNr: 1, Payload: one})
	_, put := store.States().Put(ctx, annals.StateWrite{ID: id, Payload: one})
	if err := errors.Join(appended, saved, put); err != nil {
		t.Fatal(err)
	}
	checker, err := ability.Of[ability.Checker](store)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []func(){func() { panic("on purpose") }, runtime.Goexit} {
		for name, call := range map[string]func(){
			"transaction": func() {
				_ = store.InTx(ctx, func(context.Context, memstore.Tx, annals.Store) error { end(); return nil })
			},
			"recover, snapshot": func() {
				_, _ = ability.Recover(ctx, store, id, func(annals.Snapshot) error { end(); return nil }, func(annals.Event) error { return nil })
			},
			"recover, event": func() {
				_, _ = ability.Recover(ctx, store, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { end(); return nil })
			},
			"check":  func() { _, _ = checker.Check(ctx, id, func(ability.Stored) { end() }) },
			"replay": func() { store.Journal().Replay(ctx, id, 1, 1)(func(annals.Event, error) bool { end(); return true }) },
			"query events": func() {
				store.Query().Events(ctx, annals.Filter{})(func(annals.Event, error) bool { end(); return true })
			},
			"query states": func() {
				store.Query().States(ctx, annals.Filter{})(func(annals.State, error) bool { end(); return true })
			},
			"query snapshots": func() {
				store.Query().Snapshots(ctx, annals.Filter{})(func(annals.Snapshot, error) bool { end(); return true })
			},
			"query ids": func() { store.Query().IDs(ctx, "A", "")(func(annals.PersistenceID, error) bool { end(); return true }) },
		} {
			o.result = annals.Result{}
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { _ = recover() }()
				call()
			})
			wg.Wait()
			if !errors.Is(o.result.Err, annals.ErrPanic) {
				t.Errorf("%s: got %v, want ErrPanic", name, o.result.Err)
			}
		}
	}
}

// observer keeps the last result.
type observer struct{ result annals.Result }

func (*observer) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }
func (o *observer) End(_ context.Context, _ annals.Call, r annals.Result)  { o.result = r }

// An append without an Observer allocates at most three times.
func TestAllocations(t *testing.T) {
	c := annals.Commit{ID: "A|1", WriteID: annals.NewWriteID(), Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1}}}}
	b := &backend{}
	s := driver.New(struct{ driver.Driver }{b}, driver.Options{})
	got := testing.AllocsPerRun(100, func() {
		if _, err := s.Journal().Append(t.Context(), c); err != nil {
			t.Error(err)
		}
	})
	if got > 3 {
		t.Errorf("an append allocates %v times", got)
	}
}

func BenchmarkAppend(b *testing.B) {
	c := annals.Commit{ID: "A|1", WriteID: annals.NewWriteID(), Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1}}}}
	s := driver.New(struct{ driver.Driver }{&backend{}}, driver.Options{})
	b.ReportAllocs()
	for b.Loop() {
		_, _ = s.Journal().Append(b.Context(), c)
	}
}

func BenchmarkReplay(b *testing.B) {
	s := driver.New(struct{ driver.Driver }{&backend{journal: journal{replay: pages(b.N, nothing)}}}, driver.Options{})
	b.ReportAllocs()
	for _, err := range s.Journal().Replay(b.Context(), "A|1", 1, annals.MaxSeqNr) {
		if err != nil {
			b.Fatal(err)
		}
	}
}

// Close returns after the Observer was told of the end of every call.
func TestCloseWaitsForTheObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &slowObserver{}
		s := driver.New(&backend{journal: journal{last: func(context.Context) (annals.SeqNr, error) { return 1, nil }}}, driver.Options{Observer: o})
		go func() { _, _ = s.Journal().LastSeqNr(t.Context(), "A|1") }()
		synctest.Wait()
		if err := s.Close(); err != nil || !o.ended.Load() {
			t.Errorf("close: %v, the Observer was told: %v", err, o.ended.Load())
		}
	})
}

type slowObserver struct{ ended atomic.Bool }

func (*slowObserver) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (o *slowObserver) End(context.Context, annals.Call, annals.Result) {
	time.Sleep(time.Second)
	o.ended.Store(true)
}
