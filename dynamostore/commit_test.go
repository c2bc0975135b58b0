package dynamostore_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
)

func TestCommitJournal(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openCommit(t, client(t), dynamostore.Options{})
	j := s.Journal()
	id := annals.NewPersistenceID("Thing", "1")
	w := annals.NewWriteID()
	r, err := j.Append(ctx, annals.Commit{ID: id, Events: texts("a", "b", "c"), WriteID: w})
	if err != nil || r.SeqNr != 3 || r.Repeated {
		t.Fatal(r, err)
	}
	again, err := j.Append(ctx, annals.Commit{ID: id, Events: texts("a", "b", "c"), WriteID: w})
	if err != nil || !again.Repeated || again.SeqNr != 3 || !again.Time.Equal(r.Time) {
		t.Fatal(again, r, err)
	}
	if _, err := j.Append(ctx, annals.Commit{ID: id, Events: texts("x")}); !errors.Is(err, annals.ErrConflict) {
		t.Fatal(err)
	}
	if _, err := j.Append(ctx, annals.Commit{ID: id, After: 3, Events: texts("d", "e")}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to annals.SeqNr
		want     []string
	}{{1, annals.MaxSeqNr, []string{"a", "b", "c", "d", "e"}}, {2, 4, []string{"b", "c", "d"}}, {5, 5, []string{"e"}}, {4, 9, []string{"d", "e"}}, {6, 9, nil}, {3, 2, nil}} {
		if got := replay(ctx, t, s, id, c.from, c.to); !slices.Equal(got, c.want) {
			t.Errorf("%d to %d: %q", c.from, c.to, got)
		}
	}
	if err := j.DeleteTo(ctx, id, 4); err != nil {
		t.Fatal(err)
	}
	if err := j.DeleteTo(ctx, id, 2); err != nil {
		t.Fatal(err)
	}
	if got := replay(ctx, t, s, id, 1, annals.MaxSeqNr); !slices.Equal(got, []string{"e"}) {
		t.Errorf("after the delete: %q", got)
	}
	if _, err := j.Append(ctx, annals.Commit{ID: id, Events: texts("x")}); !errors.Is(err, annals.ErrConflict) {
		t.Error(err)
	}
	if err := j.DeleteTo(ctx, id, annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	if last, err := j.LastSeqNr(ctx, id); last != 5 || err != nil {
		t.Error(last, err)
	}
	if again, err := j.Append(ctx, annals.Commit{ID: id, Events: texts("a", "b", "c"), WriteID: w}); err != nil || !again.Repeated || again.SeqNr != 3 {
		t.Error(again, err)
	}
}
