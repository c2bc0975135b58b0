package memstore_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/contexts"
	"github.com/annals-go/annals/memstore"
)

// Code of the user in a transaction does not return when its context ends: the transaction is undone, and other writers go on.
func TestCodeThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	event := annals.NewEvent{Payload: annals.Payload{SerializerID: 1, Data: []byte("1")}}
	add := func(ctx context.Context, s annals.Store, id annals.PersistenceID, after annals.SeqNr) error {
		event := event
		if contexts.InTx(ctx, nil) {
			event.Data = []byte("within")
		}
		_, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: after, Events: []annals.NewEvent{event, event, event}})
		return err
	}
	put := func(ctx context.Context, s annals.Store) error {
		_, err := s.States().Put(ctx, annals.StateWrite{ID: "Slow|1", Payload: event.Payload, Event: &event})
		return err
	}
	for name, run := range map[string]func(ctx context.Context, s *memstore.Store, hang func()) error{
		"a function": func(ctx context.Context, s *memstore.Store, hang func()) error {
			return s.InTx(ctx, func(ctx context.Context, tx memstore.Tx, in annals.Store) error {
				ctx = context.WithoutCancel(ctx)
				tx.SetValue("n", 1)
				first := add(ctx, in, "T|1", 36)
				next, stop := iter.Pull2(in.Journal().Replay(ctx, "T|1", 1, annals.MaxSeqNr))
				defer stop()
				e, err, _ := next()
				hang()
				for last := e.SeqNr; err == nil && last < 39; last++ {
					if e, err, _ = next(); (string(e.Data) == "within") != (e.SeqNr > 36) {
						t.Errorf("event %d of the transaction is that of another writer: %q", e.SeqNr, e.Data)
					}
				}
				tx.SetValue("n", 2)
				return errors.Join(first, err, add(ctx, in, "T|1", 39))
			})
		},
		"a change handler": func(ctx context.Context, s *memstore.Store, _ func()) error { return put(ctx, s) },
		"a change handler in a transaction": func(ctx context.Context, s *memstore.Store, _ func()) error {
			return s.InTx(ctx, func(ctx context.Context, _ memstore.Tx, in annals.Store) error {
				return put(context.WithoutCancel(ctx), in)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				entered, leave := make(chan struct{}), make(chan struct{})
				hang := func() {
					close(entered)
					<-leave
				}
				s, err := memstore.Open(memstore.Options{StateTypes: map[string]annals.StateType[memstore.Tx]{
					"Slow": {OnChange: func(_ context.Context, tx memstore.Tx, _ annals.State) error {
						tx.SetValue("n", 1)
						hang()
						tx.SetValue("n", 2)
						return nil
					}}}})
				if err != nil {
					t.Fatal(err)
				}
				for n := annals.SeqNr(0); n < 36; n += 3 { // their slice has room for more
					if err := add(t.Context(), s, "T|1", n); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- run(ctx, s, hang) }()
				<-entered
				waits, withdraw := context.WithTimeout(t.Context(), time.Second)
				defer withdraw()
				if err := add(waits, s, "T|1", 36); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, annals.ErrUnavailable) {
					t.Errorf("a write that waits for the transaction: %v", err)
				}
				if last, err := s.Journal().LastSeqNr(t.Context(), "T|1"); last != 36 || err != nil {
					t.Errorf("a read beside the transaction: %d, %v", last, err)
				}
				cancel()
				for n := annals.SeqNr(36); n < 300; n += 3 {
					if err := add(t.Context(), s, "T|1", n); err != nil {
						t.Error(err)
					}
				}
				close(leave)
				if err := <-ended; !errors.Is(err, annals.ErrUnavailable) {
					t.Errorf("the transaction ended with %v", err)
				}
				if n := s.Value("n"); n != nil {
					t.Errorf("what was undone is there: %v", n)
				}
				var last annals.SeqNr
				for e, err := range s.Journal().Replay(t.Context(), "T|1", 1, annals.MaxSeqNr) {
					if last++; err != nil || e.SeqNr != last {
						t.Fatalf("event %d in place of %d, %v", e.SeqNr, last, err)
					}
				}
				if _, there, err := s.States().Get(t.Context(), "Slow|1"); last != 300 || there || err != nil {
					t.Errorf("%d events, a state: %t, %v", last, there, err)
				}
			})
		})
	}
}
