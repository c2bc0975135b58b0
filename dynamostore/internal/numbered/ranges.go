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
		var rows [Few + 1]plan.Item
		for row, err := range t.between(ctx, x, p, Part{ID: p.ID, From: 1, To: 99}) {
			if err != nil {
				yield(nil, err)
				return
			}
			if n := t.NumberOf(row); n <= Few {
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
	return func(yield func(plan.Item, error) bool) {
		from, err := t.Key(read.ID, read.From)
		if err != nil {
			yield(nil, err)
			return
		}
		to, err := t.Key(read.ID, read.To)
		if err != nil {
			yield(nil, err)
			return
		}
		id, prefix := t.Query(p).Hash, strings.TrimSuffix(plan.KeyText(from[t.Range]), decimal(read.From))
		q := plan.Query{Table: t.Name, Hash: plan.KeyText(from[t.Hash]), From: from[t.Range], To: to[t.Range], Fields: t.Fields(p.Fields)}
		for row, err := range x.Query(ctx, q) {
			if err == nil {
				number, begins := strings.CutPrefix(plan.KeyText(row[t.Range]), prefix)
				if of, _ := plan.Text(row, t.ID); !begins || of != id {
					continue // the sort key of another id can be between
				}
				if n := t.NumberOf(row); number != decimal(n) {
					err = t.notOfKey(row)
				} else if n < p.From || n > p.To {
					continue
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

func decimal(n annals.SeqNr) string { return strconv.FormatInt(int64(n), 10) }
