package numbered_test

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

const id annals.PersistenceID = "Thing|1"

// table has the rows of an id in one partition.
func table() numbered.Table {
	return numbered.Table{Name: "t", Index: "by-id", Hash: "pkey", Range: "skey", ID: "aid", Number: "seq", Deleted: "deleted", IDs: numbered.NewIDs(), Advice: ". See Advice",
		Key: func(id annals.PersistenceID, n annals.SeqNr) (plan.Item, error) {
			if n > 1000 {
				return nil, errors.New("no key")
			}
			return plan.Item{"pkey": plan.S(string(id)), "skey": plan.S(fmt.Sprint(n))}, nil
		}}
}

// filled returns an executor whose table has rows with these numbers.
func filled(t *testing.T, tb numbered.Table, numbers ...annals.SeqNr) *plantest.Executor {
	t.Helper()
	x := plantest.New([]plan.Table{{Name: "t", Hash: plan.Key{Name: "pkey"}, Range: plan.Key{Name: "skey"},
		Indexes: []plan.Index{{Name: "by-id", Hash: plan.Key{Name: "aid"}, Range: plan.Key{Name: "seq", Number: true}}}}})
	for _, n := range numbers {
		put(t, x, row(t, tb, n))
	}
	return x
}

func row(t *testing.T, tb numbered.Table, n annals.SeqNr) plan.Item {
	t.Helper()
	it, err := tb.Key(id, n)
	if err != nil {
		t.Fatal(err)
	}
	it["aid"], it["seq"] = plan.S(string(id)), plan.N(n)
	return it
}

func put(t *testing.T, x plan.Executor, it plan.Item) {
	t.Helper()
	if _, err := x.Write(t.Context(), plan.Write{Ops: []plan.Op{{Table: "t", Put: it}}}); err != nil {
		t.Fatal(err)
	}
}

// behind yields the rows that an index has which lags behind.
func behind(t *testing.T, tb numbered.Table, numbers ...annals.SeqNr) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		for _, n := range numbers {
			if !yield(row(t, tb, n), nil) {
				return
			}
		}
	}
}

// Rows that the index does not have are read by key, those of other ids not.
func TestComplete(t *testing.T) {
	t.Parallel()
	tb := table()
	x := filled(t, tb, 1, 2, 3, 4, 5, 6)
	other := row(t, tb, 7)
	other["aid"] = plan.S("Thing|2")
	put(t, x, other)
	for _, c := range []struct {
		indexed  []annals.SeqNr
		from, to annals.SeqNr
		behind   bool
		want     string
	}{
		{[]annals.SeqNr{1, 2, 3, 4, 5, 6}, 1, annals.MaxSeqNr, true, "[1 2 3 4 5 6]"},
		{[]annals.SeqNr{1, 4}, 1, annals.MaxSeqNr, true, "[1 2 3 4 5 6]"},
		{[]annals.SeqNr{1, 4}, 1, annals.MaxSeqNr, false, "[1 2 3 4]"},
		{[]annals.SeqNr{3, 3}, 2, 5, true, "[2 3 4 5]"},
		{nil, 2, annals.MaxSeqNr, true, "[2 3 4 5 6]"},
		{nil, 7, annals.MaxSeqNr, true, "[]"},
	} {
		numbers := []annals.SeqNr{}
		p := numbered.Part{ID: id, From: c.from, To: c.to}
		for it, err := range tb.Ordered(p, tb.Complete(t.Context(), x, p, behind(t, tb, c.indexed...), c.behind)) {
			if err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, tb.NumberOf(it))
		}
		if fmt.Sprint(numbers) != c.want {
			t.Errorf("%+v: got %v", c, numbers)
		}
	}
	if last, err := tb.Newest(t.Context(), x, id, 2, 1); last != 6 || err != nil {
		t.Errorf("newest %d, %v, want 6", last, err)
	}
	wrong := row(t, tb, 6)
	wrong["seq"] = plan.N(9)
	put(t, x, wrong)
	if _, err := tb.ByKey(t.Context(), x, id, 5, 6); !errors.Is(err, annals.ErrCorrupt) {
		t.Errorf("a row with the number of another: %v", err)
	}
}

// Rows that are out of order, or that were not asked for, are ErrCorrupt.
func TestOrdered(t *testing.T) {
	t.Parallel()
	tb := table()
	for want, numbers := range map[string][]annals.SeqNr{"[2 2 3]": {2, 2, 3}, "[4] corrupt": {4, 3}, "[] corrupt": {1, 2}, "[3] corrupt": {3, 7}} {
		var got []annals.SeqNr
		text := ""
		for it, err := range tb.Ordered(numbered.Part{ID: id, From: 2, To: 6}, behind(t, tb, numbers...)) {
			if errors.Is(err, annals.ErrCorrupt) {
				text = " corrupt"
				break
			}
			got = append(got, tb.NumberOf(it))
		}
		if got := fmt.Sprint(got) + text; got != want {
			t.Errorf("%v: got %s, want %s", numbers, got, want)
		}
	}
}

// Fits refuses an id that has a row at another key than the computed one, and looks each id up once.
func TestFits(t *testing.T) {
	t.Parallel()
	tb := table()
	x := filled(t, tb, 1)
	for range 2 {
		if err := tb.Fits(t.Context(), x, id); err != nil {
			t.Error(err)
		}
	}
	if log := x.Log(); strings.Count(log, "query") != 1 {
		t.Errorf("the requests are\n%s", log)
	}
	it := row(t, tb, 1)
	it["aid"], it["skey"] = plan.S("Thing|3"), plan.S("01")
	put(t, x, it)
	if err := tb.Fits(t.Context(), x, "Thing|3"); !errors.Is(err, annals.ErrInvalid) || !strings.HasSuffix(err.Error(), "See Advice") {
		t.Errorf("a row at another key: %v", err)
	}
	tb.IDs = nil
	if err := tb.Fits(t.Context(), x, "Thing|3"); err != nil {
		t.Errorf("without an index: %v", err)
	}
}
