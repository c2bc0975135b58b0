package aggregate_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

// Amounts with a meaning of their own.
const (
	panics = 10_000 + iota
	unencodable
)

var errPoor = errors.New("the balance is too low")

// account adds amounts; 0 reads, and what would make the balance negative is rejected.
var account = behavior.EventSourced[int, int, int, int]{
	Type: "Account",
	Decide: func(balance, amount int) ([]int, error) {
		switch {
		case amount == 0:
			return nil, nil
		case amount == panics:
			panic("sprung")
		case balance+amount < 0:
			return nil, errPoor
		}
		return []int{amount}, nil
	},
	Evolve: func(balance, amount int) int { return balance + amount },
	Reply:  func(balance, _ int, _ []int) int { return balance },
	Events: encoder{codec.JSON[int]("moved")},
}

type encoder struct{ codec.Codec[int] }

func (c encoder) Encode(amount int) (annals.Payload, error) {
	if amount == unencodable {
		return annals.Payload{}, errors.New("no way to encode it")
	}
	return c.Codec.Encode(amount)
}

// accountState is account as a durable state. -1000 deletes it.
var accountState = behavior.DurableState[int, int, int]{
	Type: "Account",
	Decide: func(balance, amount int) (none behavior.Effect[int], err error) {
		if amount == -1000 {
			return behavior.Delete[int](), nil
		}
		events, err := account.Decide(balance, amount)
		if err != nil || len(events) == 0 {
			return none, err
		}
		return behavior.Save(balance + amount), nil
	},
	Reply:  func(balance, _ int) int { return balance },
	States: encoder{codec.JSON[int]("balance")},
}

type repository = aggregate.Repository[int, int, int]

var quiet = slog.New(slog.DiscardHandler)

// eachKind runs test for both kinds of behavior.
func eachKind(t *testing.T, test func(t *testing.T, open func(s annals.Store, o aggregate.Options) *repository)) {
	t.Parallel()
	for name, open := range map[string]func(s annals.Store, o aggregate.Options) (*repository, error){
		"sourced": func(s annals.Store, o aggregate.Options) (*repository, error) { return aggregate.New(s, account, o) },
		"durable": func(s annals.Store, o aggregate.Options) (*repository, error) {
			return aggregate.NewState(s, accountState, o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(s annals.Store, o aggregate.Options) *repository {
				o.Logger = quiet
				r, err := open(s, o)
				if err != nil {
					t.Fatal(err)
				}
				return r
			})
		})
	}
}

type opener = func(s annals.Store, o aggregate.Options) *repository

// flaky is a memstore with a hook around every write.
type flaky struct {
	faulty.Store
	mem   *memstore.Store
	caps  annals.Capabilities
	write func(id annals.WriteID, next func() error) error
	save  func() error
}

func newFlaky() *flaky {
	m := memstore.New()
	s := &flaky{mem: m, caps: m.Capabilities(),
		write: func(_ annals.WriteID, next func() error) error { return next() },
		save:  func() error { return nil }}
	s.Store = faulty.Store{Store: m, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		switch arg := c.Arg.(type) {
		case *annals.Commit:
			return s.write(arg.WriteID, run)
		case *annals.StateWrite:
			return s.write(arg.WriteID, run)
		case *annals.Snapshot:
			if err := s.save(); err != nil {
				return err
			}
		}
		return run()
	}}
	return s
}

func (s *flaky) Capabilities() annals.Capabilities { return s.caps }

func TestDo(t *testing.T) {
	eachKind(t, func(t *testing.T, open opener) {
		r := open(memstore.New(), aggregate.Options{})
		for i, c := range []struct {
			amount, reply int
			seqNr         annals.SeqNr
			err           error
		}{
			{0, 0, 0, nil}, {5, 5, 1, nil}, {7, 12, 2, nil}, {0, 12, 2, nil}, {-13, 0, 0, errPoor},
			{panics, 0, 0, annals.ErrPanic}, {-10, 2, 3, nil},
		} {
			got, err := r.Do(t.Context(), "a", c.amount)
			if got.Reply != c.reply || got.SeqNr != c.seqNr || !errors.Is(err, c.err) || c.err == nil && err != nil {
				t.Errorf("%d: %+v, %v", i, got, err)
			}
		}
		if s, at, err := r.Load(t.Context(), "a"); s != 2 || at != 3 || err != nil {
			t.Errorf("Load: %d at %d, %v", s, at, err)
		}
		if s, at, err := r.Load(t.Context(), "never written"); s != 0 || at != 0 || err != nil {
			t.Errorf("Load: %d at %d, %v", s, at, err)
		}
	})
}

func TestDoAt(t *testing.T) {
	eachKind(t, func(t *testing.T, open opener) {
		s := newFlaky()
		r := open(s, aggregate.Options{})
		if got, err := r.DoAt(t.Context(), "a", 0, 5); got.SeqNr != 1 || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		for _, at := range []annals.SeqNr{0, 2} {
			_, err := r.DoAt(t.Context(), "a", at, 5)
			e := (*annals.Error)(nil)
			if !errors.Is(err, annals.ErrConflict) || !errors.As(err, &e) || e.After != at || e.Last != 1 {
				t.Errorf("at %d: %v, want a conflict with 1", at, err)
			}
		}
		if _, err := r.DoAt(t.Context(), "a", -1, 5); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("at -1: %v", err)
		}
		// Overtaken between load and write: read again, the number is another one.
		other, tries := open(s.mem, aggregate.Options{}), 0
		s.write = func(_ annals.WriteID, next func() error) error {
			tries++
			_, _ = other.Ask(t.Context(), "a", 7)
			return next()
		}
		if _, err := r.DoAt(t.Context(), "a", 1, 5); !errors.Is(err, annals.ErrConflict) || tries != 1 {
			t.Errorf("%v after %d tries", err, tries)
		}
	})
}

func TestDeletedState(t *testing.T) {
	t.Parallel()
	r, err := aggregate.NewState(memstore.New(), accountState, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		amount, reply int
		seqNr         annals.SeqNr
	}{{5, 5, 1}, {-1000, 0, 2}, {0, 0, 2}, {3, 3, 3}} {
		if got, err := r.Do(t.Context(), "a", c.amount); got.Reply != c.reply || got.SeqNr != c.seqNr || err != nil {
			t.Errorf("%d: %+v, %v", i, got, err)
		}
	}
}

// A lost answer is found out with the identical write; when it cannot be, the error says so, in time.
func TestLostAnswers(t *testing.T) {
	eachKind(t, func(t *testing.T, open opener) {
		synctest.Test(t, func(t *testing.T) {
			s := newFlaky()
			var ids []annals.WriteID
			lost := 2
			s.write = func(id annals.WriteID, next func() error) error {
				ids = append(ids, id)
				err := next()
				if lost > 0 {
					lost--
					return &annals.Error{Op: "test", Kind: annals.ErrUnknown}
				}
				return err
			}
			r := open(s, aggregate.Options{WriteTimeout: time.Second})
			if got, err := r.Do(t.Context(), "a", 5); got.Reply != 5 || got.SeqNr != 1 || err != nil {
				t.Errorf("%+v, %v", got, err)
			}
			if len(ids) != 3 || ids[0] != ids[1] || ids[1] != ids[2] || ids[0] == (annals.WriteID{}) {
				t.Errorf("write ids %v, want one three times", ids)
			}
			lost = 1 << 30
			began := time.Now()
			if _, err := r.Do(t.Context(), "a", 5); !errors.Is(err, annals.ErrUnknown) || time.Since(began) > 2*time.Second {
				t.Errorf("%v after %v, want unknown after 1 s", err, time.Since(began))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/10)
			defer cancel()
			if _, err := r.Do(ctx, "a", 5); !errors.Is(err, annals.ErrUnknown) || ctx.Err() == nil {
				t.Errorf("%v, want unknown when the caller's context ended", err)
			}
		})
	})
}

func TestSnapshots(t *testing.T) {
	t.Parallel()
	s := newFlaky()
	b := account
	b.SnapshotEvery = 3
	var log bytes.Buffer
	r, err := aggregate.New(s, b, aggregate.Options{DeleteEvents: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s.save = func() error { return errors.New("disk full") }
	do := func(want int) {
		t.Helper()
		if got, err := r.Do(t.Context(), "a", 1); got.Reply != want || err != nil {
			t.Fatalf("%+v, %v, want %d", got, err, want)
		}
		if err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		do(i + 1) // the snapshot after the third fails, the command does not
	}
	if !bytes.Contains(log.Bytes(), []byte("disk full")) {
		t.Errorf("not reported: %s", log.String())
	}
	s.save = func() error { return nil }
	for i := range 5 {
		do(i + 4)
	}
	snap, ok, err := s.Snapshots().Latest(t.Context(), "Account|a", annals.SnapshotCriteria{})
	if !ok || err != nil || snap.SeqNr != 7 {
		t.Errorf("snapshot %d, %v, %v, want 7", snap.SeqNr, ok, err)
	}
	for e, err := range s.Journal().Replay(t.Context(), "Account|a", 1, annals.MaxSeqNr) {
		if e.SeqNr != 8 || err != nil {
			t.Errorf("event %d is left, %v, want 8 only", e.SeqNr, err)
		}
	}
}

// A command does not wait for its snapshot, and Wait does. While one is being saved, no other of the same entity is.
func TestSlowSnapshotDelaysNoCommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFlaky()
		release, saves := make(chan struct{}), 0
		s.save = func() error {
			saves++
			<-release
			return nil
		}
		b := account
		b.SnapshotEvery = 1
		r, err := aggregate.New(s, b, aggregate.Options{WriteTimeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 3 {
			if got, err := r.Do(ctx, "a", 1); got.Reply != i+1 || err != nil {
				t.Fatalf("%+v, %v", got, err)
			}
		}
		cancel() // the callers' contexts end with their requests
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Wait(short); !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait for a snapshot that takes longer: %v", err)
		}
		close(release)
		if err := r.Wait(t.Context()); err != nil || saves != 1 {
			t.Errorf("%d saves, %v, want 1", saves, err)
		}
		if snap, ok, err := s.Snapshots().Latest(t.Context(), "Account|a", annals.SnapshotCriteria{}); !ok || err != nil || snap.SeqNr != 1 {
			t.Errorf("snapshot %d, %v, %v, want 1", snap.SeqNr, ok, err)
		}
	})
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	type user struct{}
	users := codec.JSON[string]("user")
	r, err := aggregate.New(s, account, aggregate.Options{Metadata: func(ctx context.Context) (annals.Payload, error) {
		name, _ := ctx.Value(user{}).(string)
		return users.Encode(name)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Do(context.WithValue(t.Context(), user{}, "ann"), "a", 1); err != nil {
		t.Fatal(err)
	}
	for e, err := range s.Journal().Replay(t.Context(), "Account|a", 1, 1) {
		if name, decodeErr := users.Decode(e.Metadata); name != "ann" || err != nil || decodeErr != nil {
			t.Errorf("%q, %v, %v", name, err, decodeErr)
		}
	}
}

// A command without metadata that can be encoded writes nothing.
func TestMetadataThatIsRefused(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	broken := errors.New("no user")
	r, err := aggregate.New(s, account, aggregate.Options{Metadata: func(context.Context) (annals.Payload, error) { return annals.Payload{}, broken }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Do(t.Context(), "a", 1); !errors.Is(err, annals.ErrInvalid) || !errors.Is(err, broken) {
		t.Errorf("got %v, want ErrInvalid with the reason", err)
	}
	if last, err := s.Journal().LastSeqNr(t.Context(), account.ID("a")); last != 0 || err != nil {
		t.Errorf("the last number is %d, %v", last, err)
	}
}

func TestBadInputIsRefused(t *testing.T) {
	eachKind(t, func(t *testing.T, open opener) {
		s := newFlaky()
		s.caps.Limits.MaxIDBytes = 20
		s.write = func(annals.WriteID, func() error) error {
			t.Error("something was written")
			return nil
		}
		r := open(s, aggregate.Options{})
		for _, id := range []string{"", "a\x00b", "a\xff", "twelve bytes and more"} {
			if _, err := r.Do(t.Context(), id, 1); !errors.Is(err, annals.ErrInvalid) {
				t.Errorf("id %q: %v, want invalid", id, err)
			}
			if _, _, err := r.Load(t.Context(), id); !errors.Is(err, annals.ErrInvalid) {
				t.Errorf("id %q: %v, want invalid", id, err)
			}
		}
		if _, err := r.Do(t.Context(), "a", unencodable); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%v, want invalid", err)
		}
	})
}

// A decision to delete is refused where the store would lose the revision. Commands beside it are not.
func TestDeleteThatTheStoreRefuses(t *testing.T) {
	t.Parallel()
	s := newFlaky()
	s.caps.DeletesStates = false
	r, err := aggregate.NewState(s, accountState, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ amount, want int }{{5, 5}, {-1000, 0}, {2, 7}} {
		got, err := r.Do(t.Context(), "a", c.amount)
		if refused := c.amount == -1000; refused != errors.Is(err, annals.ErrUnsupported) || !refused && (err != nil || got.Reply != c.want) {
			t.Errorf("%d: got %d, error %v, want %d", c.amount, got.Reply, err, c.want)
		}
	}
}

// A Decide that calls runtime.Goexit ends the caller's goroutine. Other callers are not delayed.
func TestGoexitInDecide(t *testing.T) {
	t.Parallel()
	b := account
	b.Decide = func(balance, amount int) ([]int, error) {
		switch amount {
		case 1000:
			runtime.Goexit()
		case 2000:
			panic((*nilError)(nil))
		}
		return account.Decide(balance, amount)
	}
	r, err := aggregate.New(newFlaky(), b, aggregate.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := r.Do(t.Context(), "a", 1000)
		t.Errorf("returned with %v", err)
	}()
	<-ended
	_, err = r.Do(t.Context(), "a", 2000)
	if !errors.Is(err, annals.ErrPanic) || !strings.Contains(err.Error(), "<nil>") {
		t.Errorf("a panic with a nil error: %v", err)
	}
	if got, err := r.Do(t.Context(), "a", 1); got.Reply != 1 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text } // panics for nil
