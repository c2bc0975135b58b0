package rust5_test

import (
	"context"
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// interrupted stops after it has deleted one item.
type interrupted struct{ *plantest.Executor }

func (x interrupted) DeleteAll(ctx context.Context, table string, keys []plan.Item) error {
	return errors.Join(x.Executor.DeleteAll(ctx, table, keys[:1]), &annals.Error{Kind: annals.ErrUnavailable})
}

func (x interrupted) Then(ctx context.Context, do func(ctx context.Context, x plan.Executor) error) error {
	return do(ctx, x)
}

// Readers do not read what an interrupted delete has left, and the next delete removes it, whatever its number.
func TestInterruptedDelete(t *testing.T) {
	t.Parallel()
	b := newBench(t, esa.Layout{Peer: esa.Rust5})
	b.write(thing, 0, 6)
	if err := b.offer.On(interrupted{b.Executor}).Journal.DeleteTo(t.Context(), thing, 4); !errors.Is(err, annals.ErrUnavailable) {
		t.Fatal(err)
	}
	stored := func() int { return len(b.Items("journal")) - 1 }
	if got, err := b.replay(thing, 1, annals.MaxSeqNr); err != nil || len(got) != 2 || stored() != 5 {
		t.Errorf("%v, %v, %d items", numbers(got), err, stored())
	}
	if err := b.Journal.DeleteTo(t.Context(), thing, 1); err != nil || stored() != 2 {
		t.Errorf("%v, %d items", err, stored())
	}
}

// A head without the events of the last commit tells which commit it was: the same WriteID after another number is another commit.
func TestRepeatedAfterADelete(t *testing.T) {
	t.Parallel()
	b := newBench(t, esa.Layout{Peer: esa.Rust5, WriteIDs: true})
	b.write(thing, 0, 3)
	c := annals.Commit{ID: thing, After: 3, Events: events(2), WriteID: annals.NewWriteID()}
	first, err := b.append(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Journal.DeleteTo(t.Context(), thing, annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	if r, err := b.append(c); err != nil || !r.Repeated || r.SeqNr != 5 || !r.Time.Equal(first.Time) {
		t.Errorf("%+v, %v, want %+v", r, err, first)
	}
	c.After = 2
	if _, err := b.append(c); !errors.Is(err, annals.ErrConflict) {
		t.Errorf("the WriteID after another number: %v", err)
	}
}

// Events that are deleted before the first one is yielded are only missing. Those deleted after that are ErrTruncated.
func TestDeleteBesideAReplay(t *testing.T) {
	t.Parallel()
	b := newBench(t, esa.Layout{Peer: esa.Rust5})
	b.write(thing, 0, 4)
	b.Meanwhile = func() { // after the read of the head
		if err := b.Journal.DeleteTo(t.Context(), thing, 2); err != nil {
			t.Error(err)
		}
	}
	if got, err := b.replay(thing, 1, annals.MaxSeqNr); err != nil || len(got) != 2 || got[0].SeqNr != 3 {
		t.Errorf("%v, %v", numbers(got), err)
	}
	b.Meanwhile = func() {
		if err := b.Journal.DeleteTo(t.Context(), thing, 4); err != nil {
			t.Error(err)
		}
	}
	if got, err := b.replay(thing, 1, annals.MaxSeqNr); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", numbers(got), err)
	}
}
