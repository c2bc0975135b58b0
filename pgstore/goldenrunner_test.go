package pgstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/projection"
)

// asStored is the codec of payloads that a test does not read.
type asStored struct{}

func (asStored) Encode(p annals.Payload) (annals.Payload, error) { return p, nil }
func (asStored) Decode(p annals.Payload) (annals.Payload, error) { return p, nil }

// continued is what a projection of the plugin handled after it was started again on the golden tables.
type continued struct {
	Kind, Name, Source string
	MinSlice, MaxSlice int
	Handled            []string
	HandledGroups      [][]string
}

func (c continued) handled() []string { return slices.Concat(append(c.HandledGroups, c.Handled)...) }

// A Runner continues where each projection of the plugin ended: it handles the events, or the durable states, that the plugin handled next,
// those of one entity in the same order. Afterwards the plugin's table has a row for the newest event of each entity, with the key of a
// range, the slice, the number and the time, so that the plugin could continue from it.
func TestRunnerGoesOnFromThePluginsProjections(t *testing.T) {
	t.Parallel()
	const folder = "projection-offsets"
	var all []continued
	if err := json.Unmarshal(goldenFile(t, folder, "continued.json", nil), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 5 {
		t.Errorf("continued.json has %d projections, want 5", len(all))
	}
	for _, want := range all {
		t.Run(want.Name, func(t *testing.T) {
			t.Parallel()
			url := goldenDatabase(t, folder)
			o := goldenOptions(folder)
			o.CreateTables = true // the plugin has no table for positions
			s := openAt(t, url, o)
			source := projection.Source[annals.Payload]{Store: s, Type: "Cart", Codec: asStored{}, States: want.Source == "durable state"}
			r := annals.SliceRange{From: want.MinSlice, To: want.MaxSlice + 1}
			options := projection.Options{Ranges: annals.SliceCount / (r.To - r.From)}
			var mu sync.Mutex
			handled := map[annals.PersistenceID][]string{}
			handle := func(es ...projection.Envelope[annals.Payload]) error {
				mu.Lock()
				defer mu.Unlock()
				for _, e := range es {
					if r.Contains(e.ID.Slice()) {
						text := fmt.Sprintf("%s %d", e.ID, e.SeqNr)
						if e.Deleted {
							text += " deleted"
						}
						handled[e.ID] = append(handled[e.ID], text)
					}
				}
				return nil
			}
			var runner *projection.Runner
			var err error
			switch want.Kind {
			case "exactlyOnce":
				runner, err = projection.ExactlyOnce(want.Name, source, s, func(_ context.Context, _ pgx.Tx, e projection.Envelope[annals.Payload]) error { return handle(e) }, options)
			case "atLeastOnce":
				runner, err = projection.AtLeastOnce(want.Name, source, s, func(_ context.Context, e projection.Envelope[annals.Payload]) error { return handle(e) }, options)
			case "grouped":
				runner, err = projection.ExactlyOnceGrouped(want.Name, source, s, func(_ context.Context, _ pgx.Tx, es []projection.Envelope[annals.Payload]) error {
					return handle(es...)
				}, options)
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time there is nothing left
				if err := runner.CatchUp(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			expected := map[annals.PersistenceID][]string{}
			for _, event := range want.handled() {
				var id annals.PersistenceID
				var n int
				if _, err := fmt.Sscanf(event, "%s %d", &id, &n); err != nil {
					t.Fatal(err)
				}
				expected[id] = append(expected[id], event)
			}
			if !maps.EqualFunc(handled, expected, slices.Equal) {
				t.Errorf("handled %v, want %v", handled, expected)
			}
			newest := map[annals.PersistenceID]annals.Offset{}
			note := func(o annals.Offset, err error) {
				if err != nil {
					t.Fatal(err)
				}
				newest[o.ID] = o
			}
			filter := annals.Filter{Type: "Cart", Slices: r}
			if source.States {
				for state, err := range s.Query().States(t.Context(), filter) {
					note(state.Offset(), err)
				}
			} else {
				for e, err := range s.Query().Events(t.Context(), filter) {
					note(e.Offset(), err)
				}
			}
			rows := map[annals.PersistenceID]offsetRow{}
			for _, row := range offsetRows(t, url) {
				if id := annals.PersistenceID(row.ID); row.Name == want.Name && annals.SeqNr(row.SeqNr) > annals.SeqNr(rows[id].SeqNr) {
					rows[id] = row
				}
			}
			for id, e := range newest {
				row := rows[id]
				var from, to int
				if _, err := fmt.Sscanf(row.Key, "%d-%d", &from, &to); err != nil || id.Slice() < from || id.Slice() > to {
					t.Errorf("the row of %s has the key %q", id, row.Key)
				}
				if annals.SeqNr(row.SeqNr) != e.SeqNr || !row.At.Equal(e.Time) || row.Slice != id.Slice() {
					t.Errorf("the row of %s is %+v, want number %d, time %v, slice %d", id, row, e.SeqNr, e.Time, id.Slice())
				}
			}
		})
	}
}
