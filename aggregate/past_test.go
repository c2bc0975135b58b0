package aggregate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

// A durable state has no past, and a store without times has none by time.
func TestPastIsRefused(t *testing.T) {
	t.Parallel()
	states, err := aggregate.NewState(memstore.New(), accountState, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, _, at := states.LoadAt(t.Context(), "a", 1)
	_, _, asOf := states.LoadAsOf(t.Context(), "a", time.Now())
	s := newFlaky()
	s.caps.Times = false
	events, err := aggregate.New(s, account, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, _, timeless := events.LoadAsOf(t.Context(), "a", time.Now())
	for _, err := range []error{at, asOf, timeless} {
		if !errors.Is(err, annals.ErrUnsupported) {
			t.Errorf("%v, want ErrUnsupported", err)
		}
	}
}

// Another owner saves a snapshot and deletes the events that it covers, or the entity, while a state of the past is being loaded. A snapshot that cannot be
// decoded is passed over.
func TestPastBesideRetention(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		snapshot int    // the number at which the other owner saves one
		data     string // of it; "" deletes all snapshots instead
		deletes  annals.SeqNr
		want     int // 0: the state is lost
		kind     error
	}{
		"covered":            {4, "4", 4, 5, nil},
		"covers more":        {7, "7", 7, 0, annals.ErrTruncated},
		"unreadable":         {4, `"x"`, 0, 5, nil},
		"unreadable, needed": {4, `"x"`, 4, 0, annals.ErrCorrupt},
		"deleted":            {0, "", annals.MaxSeqNr, 0, annals.ErrTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem, begun := memstore.New(), false
			save := func(n int, data string) error {
				p := annals.Payload{SerializerID: codec.JSONSerializer, Manifest: account.Type, Data: []byte(data)}
				return mem.Snapshots().Save(t.Context(), annals.Snapshot{ID: "Account|a", SeqNr: annals.SeqNr(n), Payload: p})
			}
			s := &faulty.Store{Store: mem, Around: func(ctx context.Context, call *faulty.Call, run func() error) error {
				if call.Op == "replay" && !begun {
					begun = true
					var err error
					if c.data == "" {
						err = mem.Snapshots().Delete(ctx, "Account|a", annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
					} else {
						err = save(c.snapshot, c.data)
					}
					if err = errors.Join(err, mem.Journal().DeleteTo(ctx, "Account|a", c.deletes)); err != nil {
						t.Error(err)
					}
				}
				return run()
			}}
			r, err := aggregate.New(mem, account, aggregate.Options{Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			for range 8 {
				if _, err := r.Ask(t.Context(), "a", 1); err != nil {
					t.Fatal(err)
				}
			}
			if err := save(3, "3"); err != nil {
				t.Fatal(err)
			}
			if r, err = aggregate.New(s, account, aggregate.Options{Logger: quiet}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				state, _, err := r.LoadAt(t.Context(), "a", 5)
				if !errors.Is(err, c.kind) || state != c.want && err == nil {
					t.Errorf("state %d, %v, want %d, %v", state, err, c.want, c.kind)
				}
			}
		})
	}
}
