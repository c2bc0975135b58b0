package pgstore_test

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/pgstore"
)

// expectedJSON is what the plugin answered.
type expectedJSON struct {
	IDs map[annals.PersistenceID]struct {
		Slice   int `json:"slice"`
		Journal struct {
			Highest annals.SeqNr `json:"highestSequenceNr"`
			Events  []eventJSON  `json:"events"`
		} `json:"journal"`
		Events   []envelopeJSON `json:"events"`
		Snapshot *snapshotJSON  `json:"snapshot"`
		State    struct {
			Revision annals.SeqNr `json:"revision"`
			Value    *payloadJSON `json:"value"`
		} `json:"state"`
	} `json:"persistenceIds"`
	CurrentIDs      []annals.PersistenceID `json:"currentPersistenceIds"`
	CurrentStateIDs []annals.PersistenceID `json:"currentStateIds"`
	ByType          map[string]struct {
		Events  []envelopeJSON `json:"currentEventsBySlices"`
		Changes []changeJSON   `json:"currentChangesBySlices"`
	} `json:"byType"`
	Queries []struct {
		Query  queryJSON       `json:"query"`
		Result json.RawMessage `json:"result"`
	} `json:"queries"`
}

type queryJSON struct {
	Q            string               `json:"q"`
	ID           annals.PersistenceID `json:"pid"`
	Type         string               `json:"type"`
	Name         string               `json:"name"`
	From         annals.SeqNr         `json:"from"`
	To           annals.SeqNr         `json:"to"`
	Max          *int64               `json:"max"`
	SeqNr        annals.SeqNr         `json:"seqNr"`
	Min          int                  `json:"min"`
	MinSeqNr     annals.SeqNr         `json:"minSeqNr"`
	MaxSeqNr     *annals.SeqNr        `json:"maxSeqNr"`
	MinTimestamp int64                `json:"minTimestamp"`
	MaxTimestamp int64                `json:"maxTimestamp"`
	MaxSlice     *int                 `json:"-"`
	Offset       *struct {
		Timestamp time.Time                             `json:"timestamp"`
		Seen      map[annals.PersistenceID]annals.SeqNr `json:"seen"`
	} `json:"offset"`
}

func TestReadsWhatThePluginWrote(t *testing.T) {
	t.Parallel()
	for _, folder := range goldenFolders {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			var want expectedJSON
			goldenFile(t, folder, "expected.json", &want)
			g := &goldenReader{t, folder, openAt(t, goldenDatabase(t, folder), goldenOptions(folder))}
			for _, id := range slices.Sorted(maps.Keys(want.IDs)) {
				w := want.IDs[id]
				if id.Slice() != w.Slice {
					t.Errorf("slice of %q is %d, want %d", id, id.Slice(), w.Slice)
				}
				g.wantReplay(id, 1, annals.MaxSeqNr, w.Journal.Events)
				g.wantLast(id, w.Journal.Highest)
				g.wantEnvelopes("events of "+string(id), g.s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr), w.Events)
				g.wantSnapshot(id, annals.SnapshotCriteria{}, w.Snapshot)
				g.wantState(id, w.State.Revision, w.State.Value)
			}
			g.wantIDs("", "", slices.Concat(want.CurrentIDs, want.CurrentStateIDs))
			for entityType, w := range want.ByType {
				if entityType == "" { // no type, where ours is any type
					continue
				}
				g.wantEnvelopes("events of type "+entityType, g.s.Query().Events(t.Context(), annals.Filter{Type: entityType}), w.Events)
				g.wantChanges(annals.Filter{Type: entityType}, w.Changes)
			}
			for _, q := range want.Queries {
				g.query(q.Query, q.Result)
			}
		})
	}
}

// goldenReader compares what a store reads with what the plugin read.
type goldenReader struct {
	*testing.T
	folder string
	s      *pgstore.Store
}

func (g *goldenReader) query(q queryJSON, result json.RawMessage) {
	g.Helper()
	if isError(result) {
		return // what the plugin cannot do is no example
	}
	decode := func(v any) {
		if err := json.Unmarshal(result, v); err != nil {
			g.Fatalf("%s: %v", q.Q, err)
		}
	}
	to := cmp.Or(q.To, annals.MaxSeqNr)
	switch q.Q {
	case "replay":
		var w struct {
			Events []eventJSON `json:"events"`
		}
		decode(&w)
		if q.Max == nil { // annals bounds by number, not by count
			g.wantReplay(q.ID, q.From, to, w.Events)
		}
	case "highestSequenceNr":
		var w struct {
			Highest annals.SeqNr `json:"highestSequenceNr"`
		}
		if decode(&w); q.From == 0 {
			g.wantLast(q.ID, w.Highest)
		}
	case "currentEventsByPersistenceId":
		var w []envelopeJSON
		decode(&w)
		g.wantEnvelopes("events of "+string(q.ID), g.s.Journal().Replay(g.Context(), q.ID, q.From, to), w)
	case "loadEnvelope":
		var w envelopeJSON
		decode(&w)
		g.wantEnvelopes("event of "+string(q.ID), g.s.Journal().Replay(g.Context(), q.ID, q.SeqNr, q.SeqNr), []envelopeJSON{w})
	case "loadSnapshot":
		var w *snapshotJSON
		decode(&w)
		c := annals.SnapshotCriteria{MinSeqNr: q.MinSeqNr, MaxSeqNr: q.To}
		if q.MaxSeqNr != nil {
			if c.MaxSeqNr = *q.MaxSeqNr; c.MaxSeqNr == 0 {
				return // no bound in annals, no snapshot in the plugin
			}
		}
		if q.MinTimestamp > 0 {
			c.MinTime = time.UnixMilli(q.MinTimestamp)
		}
		if q.MaxTimestamp > 0 {
			c.MaxTime = time.UnixMilli(q.MaxTimestamp)
		}
		g.wantSnapshot(q.ID, c, w)
	case "currentEventsBySlices":
		if q.Type == "" { // no type, where ours is any type
			return
		}
		var w []envelopeJSON
		decode(&w)
		f := annals.Filter{Type: q.Type, Slices: slicesOf(q)}
		if q.Offset != nil {
			f.After = annals.Offset{Time: q.Offset.Timestamp}
			w = slices.DeleteFunc(w, func(e envelopeJSON) bool {
				return e.Offset.Timestamp.Equal(f.After.Time) && q.Offset.Seen[e.ID] >= e.SeqNr
			})
			events := slices.Collect(func(yield func(envelopeJSON) bool) {
				for e, err := range g.s.Query().Events(g.Context(), f) {
					if err != nil {
						g.Fatal(err)
					}
					if !(e.Time.Equal(f.After.Time) && q.Offset.Seen[e.ID] >= e.SeqNr) && !yield(envelope(e)) {
						return
					}
				}
			})
			g.compare("events after an offset", events, w)
			return
		}
		g.wantEnvelopes("events by slices", g.s.Query().Events(g.Context(), f), w)
	case "currentChangesBySlices":
		var w []changeJSON
		decode(&w)
		g.wantChanges(annals.Filter{Type: q.Type, Slices: slicesOf(q)}, w)
	case "slice":
		var w int
		if decode(&w); q.ID.Slice() != w {
			g.Errorf("slice of %q is %d, want %d", q.ID, q.ID.Slice(), w)
		}
	case "projectionOffset":
		g.wantOffsets(q, result)
	}
}

func slicesOf(q queryJSON) annals.SliceRange {
	if q.MaxSlice == nil {
		return annals.SliceRange{}
	}
	return annals.SliceRange{From: q.Min, To: *q.MaxSlice + 1}
}

// UnmarshalJSON reads max, which is a slice in queries by slices and a count in replays.
func (q *queryJSON) UnmarshalJSON(data []byte) error {
	type plain queryJSON
	if err := json.Unmarshal(data, (*plain)(q)); err != nil {
		return err
	}
	if q.Q != "replay" {
		var m struct {
			Max *int `json:"max"`
		}
		if err := json.Unmarshal(data, &m); err != nil {
			return err
		}
		q.MaxSlice = m.Max
	}
	return nil
}

func (g *goldenReader) wantReplay(id annals.PersistenceID, from, to annals.SeqNr, want []eventJSON) {
	g.Helper()
	i := 0
	for e, err := range g.s.Journal().Replay(g.Context(), id, from, to) {
		if err != nil {
			g.Fatalf("replay %q: %v", id, err)
		}
		if i == len(want) {
			g.Errorf("replay %q: event %d, want none", id, e.SeqNr)
			return
		}
		w := want[i]
		if e.SeqNr != w.SeqNr || !same(g.folder, e.Payload, w.payload()) || e.Adapter != w.Adapter || e.WriteID.String() != w.Writer || !same(g.folder, e.Metadata, w.Metadata.payload()) {
			g.Errorf("replay %q: got %+v, want %+v", id, e, w)
		}
		i++
	}
	if i != len(want) {
		g.Errorf("replay %q from %d to %d: %d events, want %d", id, from, to, i, len(want))
	}
}

func (g *goldenReader) wantLast(id annals.PersistenceID, want annals.SeqNr) {
	g.Helper()
	if last, err := g.s.Journal().LastSeqNr(g.Context(), id); err != nil || last != want {
		g.Errorf("last number of %q is %d (%v), want %d", id, last, err, want)
	}
}

func envelope(e annals.Event) envelopeJSON {
	w := envelopeJSON{ID: e.ID, SeqNr: e.SeqNr, Slice: e.ID.Slice(), Tags: e.Tags, Event: &payloadJSON{e.SerializerID, e.Manifest, e.Data}}
	w.Offset.Timestamp = e.Time
	if e.Metadata.SerializerID != 0 {
		w.Metadata = &payloadJSON{e.Metadata.SerializerID, e.Metadata.Manifest, e.Metadata.Data}
	}
	return w
}

func (g *goldenReader) wantEnvelopes(what string, events iter.Seq2[annals.Event, error], want []envelopeJSON) {
	g.Helper()
	var got []envelopeJSON
	for e, err := range events {
		if err != nil {
			g.Fatalf("%s: %v", what, err)
		}
		got = append(got, envelope(e))
	}
	g.compare(what, got, want)
}

// compare takes the events of one time and number in the order of their ids, as ours come: the plugin has none for them.
func (g *goldenReader) compare(what string, got, want []envelopeJSON) {
	g.Helper()
	slices.SortStableFunc(want, func(a, b envelopeJSON) int {
		return cmp.Or(a.Offset.Timestamp.Compare(b.Offset.Timestamp), cmp.Compare(a.SeqNr, b.SeqNr), cmp.Compare(a.ID, b.ID))
	})
	if len(got) != len(want) {
		g.Errorf("%s: %d events, want %d", what, len(got), len(want))
		return
	}
	for i, w := range want {
		e := got[i]
		if e.ID != w.ID || e.SeqNr != w.SeqNr || !e.Offset.Timestamp.Equal(w.Offset.Timestamp) || e.Slice != w.Slice || !slices.Equal(sorted(e.Tags), sorted(w.Tags)) ||
			!same(g.folder, e.Event.payload(), w.Event.payload()) || !same(g.folder, e.Metadata.payload(), w.Metadata.payload()) {
			g.Errorf("%s: got %+v, want %+v", what, e, w)
		}
	}
}

func (g *goldenReader) wantSnapshot(id annals.PersistenceID, c annals.SnapshotCriteria, want *snapshotJSON) {
	g.Helper()
	s, ok, err := g.s.Snapshots().Latest(g.Context(), id, c)
	if err != nil || ok != (want != nil) {
		g.Errorf("snapshot of %q: %v, %v, want %v", id, ok, err, want != nil)
		return
	}
	if ok && (s.SeqNr != want.SeqNr || s.Time.UnixMilli() != want.Timestamp || !same(g.folder, s.Payload, want.payload()) || !same(g.folder, s.Metadata, want.Metadata.payload())) {
		g.Errorf("snapshot of %q: got %+v, want %+v", id, s, want)
	}
}

func (g *goldenReader) wantState(id annals.PersistenceID, revision annals.SeqNr, want *payloadJSON) {
	g.Helper()
	s, ok, err := g.s.States().Get(g.Context(), id)
	if err != nil || s.Revision != revision || ok != (want != nil) || !same(g.folder, s.Payload, want.payload()) {
		g.Errorf("state of %q: got %+v, %v, %v, want revision %d, %v", id, s, ok, err, revision, want)
	}
}

func (g *goldenReader) wantChanges(f annals.Filter, want []changeJSON) {
	g.Helper()
	i := 0
	for s, err := range g.s.Query().States(g.Context(), f) {
		if err != nil {
			g.Fatalf("states: %v", err)
		}
		if i == len(want) {
			g.Errorf("states of %q: %q, want no more", f.Type, s.ID)
			return
		}
		w := want[i]
		if s.ID != w.ID || s.Revision != w.Revision || !s.Time.Equal(w.Offset.Timestamp) || s.Deleted != (w.Change == "deleted") || !same(g.folder, s.Payload, w.Value.payload()) {
			g.Errorf("states of %q: got %+v, want %+v", f.Type, s, w)
		}
		i++
	}
	if i != len(want) {
		g.Errorf("states of %q: %d, want %d", f.Type, i, len(want))
	}
}

func (g *goldenReader) wantIDs(entityType string, after annals.PersistenceID, want []annals.PersistenceID) {
	g.Helper()
	var got []annals.PersistenceID
	for id, err := range g.s.Query().IDs(g.Context(), entityType, after) {
		if err != nil {
			g.Fatalf("ids: %v", err)
		}
		got = append(got, id)
	}
	slices.Sort(got)
	slices.Sort(want)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		g.Errorf("ids: got %q, want %q", got, want)
	}
}

// wantOffsets compares what projections had handled. Their offsets of other kinds are in a table that annals does not know.
func (g *goldenReader) wantOffsets(q queryJSON, result json.RawMessage) {
	g.Helper()
	if q.MaxSlice == nil {
		return
	}
	var want struct {
		Latest map[annals.PersistenceID]struct {
			SeqNr     annals.SeqNr `json:"seqNr"`
			Timestamp time.Time    `json:"timestamp"`
		} `json:"latestByPid"`
	}
	if err := json.Unmarshal(result, &want); err != nil {
		g.Fatal(err)
	}
	var newest time.Time
	ids := slices.Sorted(maps.Keys(want.Latest))
	handled, err := g.s.Offsets().Handled(g.Context(), q.Name, ids...)
	if err != nil {
		g.Fatal(err)
	}
	for i, id := range ids {
		w, o := want.Latest[id], handled[i]
		if o.SeqNr != w.SeqNr || !o.Time.Equal(w.Timestamp) || o.ID != id {
			g.Errorf("projection %q has handled %+v of %q, want %+v", q.Name, o, id, w)
		}
		if w.Timestamp.After(newest) {
			newest = w.Timestamp
		}
	}
	positions, err := g.s.Offsets().Load(g.Context(), q.Name, slicesOf(q))
	if err != nil || len(positions) == 0 {
		g.Fatal(positions, err)
	}
	loaded := map[annals.PersistenceID]annals.SeqNr{}
	for _, p := range positions {
		if latest := newest.Add(-130 * time.Second); !p.Through.Time.IsZero() && p.Through.Time.After(latest) {
			g.Errorf("projection %q resumes slices %s at %v, want at most %v", q.Name, p.Slices, p.Through.Time, latest)
		}
		for _, o := range p.Offsets {
			loaded[o.ID] = o.SeqNr
		}
	}
	for id, w := range want.Latest { // all of them were handled within the window of the plugin
		if loaded[id] != w.SeqNr {
			g.Errorf("projection %q: loaded number %d of %q, want %d", q.Name, loaded[id], id, w.SeqNr)
		}
	}
}
