package esa

import (
	"context"
	"iter"
	"strconv"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// byKey is how many numbers are read by key at once, where they cannot be read as ranges. The service counts each row that is read by key
// as at least 4 KB. So no more than fewByKey are read by key where two ranges have them.
const (
	byKey    = 100
	fewByKey = 16
)

// between yields the rows of p, where no number is expected above end. All of them that were stored before are found: they are read from the
// table, or through the index and then by key. In the order of the libraries' sort keys 10 is before 2. So one query reads consecutive
// numbers only if they have as many digits, and no number exists that has one of them in front. Those above end/10 are such numbers.
func (j *journal) between(ctx context.Context, p numbered.Part, end annals.SeqNr) iter.Seq2[plan.Item, error] {
	ranged := p.From > end/10
	switch {
	case j.formula && ranged && digits(p.From) == digits(p.To):
		return j.events.ByRange(ctx, j.x, p)
	case j.formula && end <= numbered.Few && p.To-p.From >= end/2-1:
		return j.events.ByFew(ctx, j.x, p) // it reads at most about twice as many rows as there are in p
	case j.formula && ranged && p.To-p.From >= fewByKey:
		return j.inParts(ctx, p, lowest(digits(p.To)), end)
	case p.To-p.From < byKey:
		return j.byKey(ctx, p)
	case j.formula && p.To > end/10:
		return j.inParts(ctx, p, end/10+1, end)
	}
	return j.complete(ctx, p, j.found(ctx, p))
}

// inParts yields the rows of p, first those below a number.
func (j *journal) inParts(ctx context.Context, p numbered.Part, at, end annals.SeqNr) iter.Seq2[plan.Item, error] {
	below, above := p, p
	below.To, above.From = at-1, at
	return func(yield func(plan.Item, error) bool) {
		for _, part := range []numbered.Part{below, above} {
			for it, err := range j.between(ctx, part, end) {
				if !yield(it, err) || err != nil {
					return
				}
			}
		}
	}
}

// byKey yields the rows of p by their keys, in one request for each 100.
func (j *journal) byKey(ctx context.Context, p numbered.Part) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		found, err := j.events.ByKey(ctx, j.x, p.ID, p.From, p.To)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, it := range found {
			if !yield(it, nil) {
				return
			}
		}
	}
}

// complete yields the rows of p that were found in the index, and by key those that it does not have yet. Rust5 has no index.
func (j *journal) complete(ctx context.Context, p numbered.Part, found iter.Seq2[plan.Item, error]) iter.Seq2[plan.Item, error] {
	if j.apart {
		return found
	}
	return j.events.Complete(ctx, j.x, p, found, true)
}

// digits returns how many decimal digits n has.
func digits(n annals.SeqNr) int { return len(strconv.FormatInt(int64(n), 10)) }

// lowest returns the lowest number with so many digits.
func lowest(digits int) annals.SeqNr {
	n := annals.SeqNr(1)
	for range digits - 1 {
		n *= 10
	}
	return n
}
