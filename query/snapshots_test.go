package query_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/query"
)

// Snapshots come first, then the events that are not in them.
func TestEventsFromSnapshots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		snapshot := func(id annals.PersistenceID, n annals.SeqNr) {
			t.Helper()
			if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: id, SeqNr: n, Payload: annals.Payload{SerializerID: 1}}); err != nil {
				t.Fatal(err)
			}
		}
		write(t, s, "T|1", 3)
		write(t, s, "T|2", 2)
		write(t, s, "T|3", 4)
		write(t, s, "U|1", 2)
		snapshot("T|1", 2)
		snapshot("T|3", 1)
		snapshot("T|3", 4)
		snapshot("U|1", 1)
		follow := func(ctx context.Context, f annals.Filter, o query.Options) (found []string, err error) {
			for c, err := range query.EventsFromSnapshots(ctx, s, f, o) {
				if err != nil {
					return found, err
				}
				if c.Snapshot != nil {
					found = append(found, fmt.Sprint("snapshot ", c.Snapshot.ID, " ", c.Snapshot.SeqNr))
				} else {
					found = append(found, fmt.Sprint(c.Event.ID, " ", c.Event.SeqNr))
				}
			}
			return found, nil
		}
		all := []string{"snapshot T|1 2", "snapshot T|3 4", "T|1 3", "T|2 1", "T|2 2"}
		var second annals.Offset
		for e, err := range s.Query().Events(t.Context(), annals.Filter{Type: "T", Limit: 2}) {
			if err != nil {
				t.Fatal(err)
			}
			second = e.Offset()
		}
		for _, c := range []struct {
			filter annals.Filter
			want   []string
		}{
			{annals.Filter{Type: "T"}, all},
			{annals.Filter{Type: "T", Limit: 1}, all[:1]},
			{annals.Filter{Type: "T", Limit: 4}, all[:4]},
			{annals.Filter{Type: "T", After: second}, all[1:]},
			{annals.Filter{Type: "None"}, nil},
		} {
			if got, err := follow(t.Context(), c.filter, query.Options{Current: true}); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%+v: %v, %v, want %v", c.filter, got, err, c.want)
			}
		}

		time.AfterFunc(time.Minute, func() { write(t, s, "T|3", 1) })
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		got, err := follow(ctx, annals.Filter{Type: "T"}, query.Options{})
		if want := slices.Concat(all, []string{"T|3 5"}); !errors.Is(err, context.DeadlineExceeded) || !slices.Equal(got, want) {
			t.Errorf("live: %v, %v, want %v", got, err, want)
		}
		for c, err := range query.EventsFromSnapshots(t.Context(), noSnapshots{s}, annals.Filter{}, query.Options{Current: true}) {
			if !errors.Is(err, annals.ErrUnsupported) {
				t.Errorf("without snapshot queries: %+v, %v", c, err)
			}
		}
	})
}

type noSnapshots struct{ annals.Store }

func (s noSnapshots) Query() annals.Query { return noSnapshotQuery{s.Store.Query()} }

type noSnapshotQuery struct{ annals.Query }

func (noSnapshotQuery) Snapshots(ctx context.Context, f annals.Filter) iter.Seq2[annals.Snapshot, error] {
	return driver.Unsupported().Query().Snapshots(ctx, f)
}
