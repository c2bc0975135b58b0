package dynamostore_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/internal/servers/dynamo"
)

// undeleting opens a store. refusing runs transactions while the server removes no rows.
func undeleting(t *testing.T, l dynamostore.Layout) (s *dynamostore.Store, seen *recorder, refusing func(fn func(ctx context.Context, in annals.Store) error) error) {
	t.Helper()
	seen = &recorder{}
	c, p := clientBehindProxy(t)
	s, err := dynamostore.Open(t.Context(), c, l, dynamostore.Options{CreateTables: true, Attempts: 2, Observer: seen})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, seen, func(fn func(ctx context.Context, in annals.Store) error) error {
		p.SetRule(func(r dynamo.Request) dynamo.Fault {
			if r.Operation == "BatchWriteItem" {
				return dynamo.Fault{Status: http.StatusInternalServerError}
			}
			return dynamo.Fault{}
		})
		defer p.SetRule(nil)
		return s.InTx(t.Context(), func(ctx context.Context, _ *dynamostore.Tx, in annals.Store) error { return fn(ctx, in) })
	}
}

// What a transaction deletes without conditions is removed after the commit. When that fails, the transaction is stored, and InTx must not say that
// it is not: a caller that tries again would do everything twice. It must not be silent either.
func TestRemovedAfterTheCommit(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]dynamostore.Layout{"akka": newAkka(false)(), "esa": newESA(esa.Layout{Shards: 8})()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s, seen, refusing := undeleting(t, l)
			first := func(id annals.PersistenceID, data ...string) annals.Commit {
				c := annals.Commit{ID: id, Events: texts(data...)}
				if name == "esa" {
					c.Snapshot = &annals.Snapshot{ID: id, SeqNr: annals.SeqNr(len(data)), Payload: text("s").Payload}
				}
				return c
			}
			if _, err := s.Journal().Append(ctx, first("Thing|1", "a", "b", "c")); err != nil {
				t.Fatal(err)
			}
			if err := refusing(func(ctx context.Context, in annals.Store) error {
				if _, err := in.Journal().Append(ctx, first("Thing|2", "d")); err != nil {
					return err
				}
				return in.Journal().DeleteTo(ctx, "Thing|1", 2)
			}); err != nil || seen.last().Warning == nil {
				t.Errorf("stored, and rows were not removed: %v, warning %v", err, seen.last().Warning)
			}
			if last, err := s.Journal().LastSeqNr(ctx, "Thing|2"); last != 1 || err != nil {
				t.Errorf("last number %d, %v", last, err)
			}
		})
	}
}

// A transaction that only removes returns the error.
func TestOnlyRemoved(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, _, refusing := undeleting(t, newAkka(false)())
	if _, err := s.Journal().Append(ctx, annals.Commit{ID: "Thing|1", Events: texts("a", "b", "c")}); err != nil {
		t.Fatal(err)
	}
	left := func(want ...annals.SeqNr) {
		t.Helper()
		if all, _, _, err := akka.ListAll(ctx, s, "Thing|1"); err != nil || !slices.Equal(all, want) {
			t.Errorf("events %v, %v, want %v", all, err, want)
		}
	}
	purge := func(ctx context.Context, in annals.Store) error { return akka.Purge(ctx, in, "Thing|1") }
	if err := refusing(purge); err == nil {
		t.Error("a transaction that removes nothing: no error")
	}
	left(1, 2, 3)
	if err := s.InTx(ctx, func(ctx context.Context, _ *dynamostore.Tx, in annals.Store) error { return purge(ctx, in) }); err != nil {
		t.Error(err)
	}
	left()
}
