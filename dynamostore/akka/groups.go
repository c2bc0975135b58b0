package akka

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// span is a part of an entity's numbers.
type span struct {
	from, to annals.SeqNr
	// high is in the highest marked group. A read goes on behind it, up to the first empty group.
	high   annals.SeqNr
	most   int          // how many groups in a row may be empty before that of high; more are an error with errEmpty
	low    annals.SeqNr // events with lower numbers are deleted: groups of these may be empty
	fields []string     // attributes to return; nil is all
}

// mostEmpty is more groups in a row than writers leave empty. Deletes can leave more.
const mostEmpty = 100

// errEmpty says that more groups in a row are empty than a span allows.
var errEmpty = errors.New("a marker has a number far above that of the events before it")

// page is a part of the rows of a group.
type page struct {
	rows []row
	last bool // no page of the group follows
}

// read yields the rows of a span in ascending order, with at least one page for each group. The groups up to the one behind that of s.high
// are read ahead.
func (j *journal) read(ctx context.Context, id annals.PersistenceID, s span) iter.Seq2[page, error] {
	return func(yield func(page, error) bool) {
		if s.from > s.to {
			return
		}
		first, end := groupOf(s.from), groupOf(s.to)
		sure := min(max(groupOf(s.high)+1, first), end) // the groups up to here are read whatever is in them
		empty, filled := 0, false                       // how many groups in a row were empty; whether this one has had rows
		series := func(first, last int64) bool {
			for p, err := range j.x.Series(ctx, j.queries(id, s, first, last), int(min(last-first, int64(j.ahead)))) {
				group := first + int64(p.Query)
				var rows []row
				if err == nil {
					rows, err = j.rows(group, p.Items)
				}
				if filled = filled || len(rows) > 0; filled {
					empty = 0
				}
				if p.Last {
					if !filled && group >= groupOf(s.low) {
						empty++
					}
					filled = false
				}
				if err == nil && empty > s.most && group < groupOf(s.high) {
					err = &annals.Error{Kind: annals.ErrCorrupt, Err: &ability.Damage{Code: ability.Head, Err: fmt.Errorf("table %q, events of the numbers %d to %d: %w", j.Table, (group-int64(empty)+1)*perGroup, group*perGroup+perGroup-1, errEmpty)}}
				}
				if !yield(page{rows, p.Last}, err) || err != nil {
					return false
				}
			}
			return true
		}
		if !series(first, sure) {
			return
		}
		for g := sure + 1; g <= end && empty == 0; g++ {
			if !series(g, g) {
				return
			}
		}
	}
}

func (j *journal) rows(group int64, items []plan.Item) ([]row, error) {
	rows := make([]row, len(items))
	for i, it := range items {
		var err error
		if rows[i], err = j.row(group, it); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// queries yields the queries of the groups first … last.
func (j *journal) queries(id annals.PersistenceID, s span, first, last int64) iter.Seq[plan.Query] {
	return func(yield func(plan.Query) bool) {
		for g := first; g <= last; g++ {
			q := plan.Query{Table: j.Table, Hash: j.partition(id, g), Fields: s.fields}
			if g == groupOf(s.from) {
				q.From = plan.N(s.from % perGroup)
			}
			if g == groupOf(s.to) {
				q.To = plan.N(s.to % perGroup)
			}
			if !yield(q) {
				return
			}
		}
	}
}
