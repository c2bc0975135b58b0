package numbered_test

import (
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Sort keys in the order of text are read as ranges, and yielded in the order of numbers. Rows of other ids between them are left out.
func TestRanges(t *testing.T) {
	t.Parallel()
	tb := table()
	var all []annals.SeqNr
	for n := annals.SeqNr(1); n <= 230; n++ {
		all = append(all, n)
	}
	x := filled(t, tb, all...)
	other := row(t, tb, 11)
	other["skey"], other["aid"] = plan.S("11-1"), plan.S("Thing|1|11")
	put(t, x, other)
	numbers := func(rows iter.Seq2[plan.Item, error]) (found []annals.SeqNr, err error) {
		for it, err := range rows {
			if err != nil {
				return nil, err
			}
			found = append(found, tb.NumberOf(it))
		}
		return found, nil
	}
	for _, p := range []numbered.Part{{From: 1, To: 9}, {From: 14, To: 99}, {From: 10, To: 10}, {From: 100, To: 230}, {From: 231, To: 240}} {
		p.ID = id
		found, err := numbers(tb.ByRange(t.Context(), x, p))
		if want := all[min(p.From, 231)-1 : min(p.To, 230)]; fmt.Sprint(found) != fmt.Sprint(want) || err != nil {
			t.Errorf("by range %d to %d: got %v, %v", p.From, p.To, found, err)
		}
	}
	for _, p := range []numbered.Part{{From: 1, To: numbered.Few}, {From: 3, To: 20}, {From: 9, To: 9}, {From: 90, To: 140}} {
		p.ID = id
		found, err := numbers(tb.ByFew(t.Context(), x, p))
		if want := all[p.From-1 : p.To]; fmt.Sprint(found) != fmt.Sprint(want) || err != nil {
			t.Errorf("by few %d to %d: got %v, %v", p.From, p.To, found, err)
		}
	}
	wrong := row(t, tb, 15)
	wrong["seq"] = plan.N(16)
	put(t, x, wrong)
	if _, err := numbers(tb.ByRange(t.Context(), x, numbered.Part{ID: id, From: 14, To: 17})); !errors.Is(err, annals.ErrCorrupt) {
		t.Errorf("a row with the number of another: %v", err)
	}
}
