package memstore_test

import (
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/verifytest"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/verify"
)

// What can be damaged through the contracts is found.
func TestDamage(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), memstore.New()
	p := annals.Payload{SerializerID: 31, Manifest: "text", Data: []byte(`"text"`)}
	r, err := s.Journal().Append(ctx, annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: p}, {Payload: p}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		s.Snapshots().Save(ctx, annals.Snapshot{ID: "T|1", SeqNr: 5, Payload: p}),
		s.Snapshots().Save(ctx, annals.Snapshot{ID: "T|2", SeqNr: 1, Payload: p}),
		s.Offsets().Save(ctx, annals.Progress{Projection: "p", Offsets: []annals.Offset{{Time: r.Time.Add(time.Second), ID: "T|1", SeqNr: 7}}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for id, p := range map[annals.PersistenceID]annals.Payload{"annals.projection|gone": p, "annals.parked|7/none": p, "annals.lease|broken": {SerializerID: 31, Data: []byte("{")}} {
		if _, err := s.States().Put(ctx, annals.StateWrite{ID: id, Payload: p}); err != nil {
			t.Fatal(err)
		}
	}
	verifytest.Want(t, s, verify.Options{Running: []string{"p"}},
		"orphan T|1 5 5", "orphan T|2 1 1", "position T|1 3 7 p", "gone annals.projection|gone 0 0 gone", "gone annals.parked|7/none 0 0 none", "gone annals.lease|broken 0 0", "codec annals.lease|broken 1 1")
	verifytest.Want(t, s, verify.Options{Type: "T"}, "orphan T|1 5 5", "orphan T|2 1 1")
	verifytest.Want(t, s, verify.Options{IDs: []annals.PersistenceID{"T|2"}}, "orphan T|2 1 1")
	verifytest.Want(t, s, verify.Options{Since: r.Time.Add(time.Hour), Type: "T"}, "orphan T|2 1 1") // it has no events, so no time is known
}

// Nothing is found in a sound store, whatever is written meanwhile.
func TestSoundUnderLoad(t *testing.T) {
	t.Parallel()
	verifytest.Load(t, memstore.New(), 20)
}
