package numbered

import (
	"context"
	"iter"
	"strconv"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Few is the highest number that ByFew can read. Sort keys of numbers up to it are between those of 1 and 99.
const Few = 199

// ByRange yields the rows of p by one query of the table, strongly consistent. It is for tables whose sort keys end in the number in decimal, and
// whose partition keys do not depend on the number. Such sort keys are in the order of the numbers if these have as many digits, so p.From and
// p.To must have as many. Rows of longer numbers are read, too, and left out: there are none if 10*p.From is above the last number.
func (t Table) ByRange(ctx context.Context, x plan.Executor, p Part) iter.Seq2[plan.Item, error] {
	return t.between(ctx, x, p, p)
}

// ByFew is ByRange for numbers up to Few, which may have one digit to three. It reads all rows up to Few, and has those of p in memory.
func (t Table) ByFew(ctx context.Context, x plan.Executor, p Part) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		rows := make([]plan.Item, min(p.To, Few)+1)
		for row, err := range t.between(ctx, x, p, Part{ID: p.ID, From: 1, To: 99}) {
			if err != nil {
				yield(nil, err)
				return
			}
			if n := t.NumberOf(row); int(n) < len(rows) {
				rows[n] = row
			}
		}
		for _, row := range rows {
			if row != nil && !yield(row, nil) {
				return
			}
		}
	}
}

// between yields those rows of p whose sort keys are between those of the bounds of read, in the order of sort keys.
func (t Table) between(ctx context.Context, x plan.Executor, p, read Part) iter.Seq2[plan.Item, error] {
	key, err := t.Key(read.ID, read.From)
	if err != nil {
		return func(yield func(plan.Item, error) bool) { yield(nil, err) }
	}
	id, prefix := t.Query(p).Hash, strings.TrimSuffix(plan.KeyText(key[t.Range]), decimal(read.From))
	q := plan.Query{Table: t.Name, Hash: plan.KeyText(key[t.Hash]), From: key[t.Range], To: plan.S(prefix + decimal(read.To)), Fields: t.Fields(p.Fields)}
	return plan.Picked(x.Query(ctx, q), func(row plan.Item) (plan.Item, bool, error) {
		number, begins := strings.CutPrefix(plan.KeyText(row[t.Range]), prefix)
		if of, _ := plan.Text(row, t.ID); !begins || of != id {
			return nil, false, nil // the sort key of another id can be between
		}
		n := t.NumberOf(row)
		if number != decimal(n) {
			return nil, false, t.notOfKey(row)
		}
		return row, p.From <= n && n <= p.To, nil
	})
}

func decimal(n annals.SeqNr) string { return strconv.FormatInt(int64(n), 10) }
