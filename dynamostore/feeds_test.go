package dynamostore_test

import (
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/stream"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/google/go-cmp/cmp"
)

// The stream of a table tells of each event as a replay reads the event, and a scan finds its entity.
func TestFeeds(t *testing.T) {
	t.Parallel()
	raw := streamsClient(t, dynamo.Endpoint(t))
	for name, layout := range map[string]func() dynamostore.Layout{
		"commit":      newCommit,
		"esa":         newESA(esa.Layout{Shards: 3}),
		"esa, rust 5": newRust5(0, false),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := dynamostore.Open(t.Context(), client(t), layout(), dynamostore.Options{CreateTables: true, Streams: true})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			ids := entities(4)
			want := map[annals.PersistenceID][]annals.Event{}
			for _, id := range ids {
				commit := func(after annals.SeqNr, events ...string) {
					t.Helper()
					c := annals.Commit{ID: id, After: after, Events: texts(events...)}
					if s.Capabilities().Limits.FirstSnapshot && after == 0 {
						c.Snapshot = &annals.Snapshot{ID: id, SeqNr: annals.SeqNr(len(events)), Payload: c.Events[0].Payload}
					}
					if _, err := s.Journal().Append(t.Context(), c); err != nil {
						t.Fatal(err)
					}
				}
				commit(0, `{"n":1}`, `{"n":2}`)
				commit(2, `{"n":3}`)
				for e, err := range s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr) {
					if err != nil {
						t.Fatal(err)
					}
					want[id] = append(want[id], e)
				}
			}
			if err := s.Journal().DeleteTo(t.Context(), ids[0], 1); err != nil {
				t.Fatal(err)
			}
			arn, err := s.StreamOf(t.Context(), s.Feed().Table)
			if err != nil {
				t.Fatal(err)
			}
			shards, _, err := stream.Shards(t.Context(), s.Streams(raw), arn, "")
			if err != nil || len(shards) != 1 {
				t.Fatalf("%d shards, %v", len(shards), err)
			}
			records, _, err := stream.NewReader(s.Streams(raw), arn, shards[0].ID, "").Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := map[annals.PersistenceID][]annals.Event{}
			for _, rec := range records {
				events, err := s.Feed().Events(rec.Image, rec.Created)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range events {
					if e.SeqNr > annals.SeqNr(len(got[e.ID])) { // a delete may tell of events again
						got[e.ID] = append(got[e.ID], e)
					}
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("the stream tells of other events (-replay +stream):\n%s", d)
			}
			found := map[annals.PersistenceID]string{}
			for n := range 2 {
				for seen, err := range s.Feed().Scan(t.Context(), s.Executor(), plan.Part{N: n, Of: 2}) {
					if err != nil {
						t.Fatal(err)
					}
					id := seen.ID
					if last := annals.SeqNr(len(want[id])); seen.Last != last {
						t.Errorf("the scan finds %d events of %s, want %d", seen.Last, id, last)
					}
					if part := fmt.Sprint(n); found[id] != "" && found[id] != part {
						t.Errorf("%s is in both parts", id)
					} else {
						found[id] = part
					}
				}
			}
			if len(found) != len(ids) {
				t.Errorf("found the ids %v", found)
			}
		})
	}
}
