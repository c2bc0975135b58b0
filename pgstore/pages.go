package pgstore

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// pages yields what read finds behind f.After, page after page until one is not full. Each is read whole, and its
// connection given back, before the body sees any of it.
//
// The server sorts all that it finds and gives the first of it: over a long history that would be the whole rest for every
// page. So a page that is full says how far in time the next one looks, and horizon how far the first does; one that is not full is
// followed by an unbounded one.
func pages[T any](ctx context.Context, f annals.Filter, offset func(T) annals.Offset,
	horizon func(ctx context.Context, f annals.Filter, limit int) (time.Time, error),
	read func(ctx context.Context, f annals.Filter, until time.Time, limit int) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var until time.Time
		bounded := false // the page before was, and not full
		for left := f.Limit; ; {
			limit := queryPage
			if f.Limit > 0 {
				limit = min(left, queryPage)
			}
			var page []T
			if err := driver.Fetch(ctx, func(ctx context.Context) (err error) {
				if until.IsZero() && !bounded {
					until, err = horizon(ctx, f, limit)
				}
				if err == nil {
					page, err = read(ctx, f, until, limit)
				}
				return err
			}); err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, v := range page {
				if !yield(v, nil) {
					return
				}
			}
			full := len(page) == limit
			if left -= len(page); !full && until.IsZero() || f.Limit > 0 && left == 0 {
				return
			}
			bounded, until = !full, time.Time{}
			if len(page) > 0 {
				f.After = offset(page[len(page)-1])
			}
			if full {
				span := f.After.Time.Sub(offset(page[0]).Time)
				until = f.After.Time.Add(2*span + time.Millisecond)
			}
		}
	}
}

// recent is how old an offset is at most for a query to look at all behind it: there is little.
const recent = time.Minute

// horizon is a time up to which a query over a type finds limit events, and not many more; zero where there are fewer, or where it
// would not help. It merges the first events of every slice: the time of the last that the page takes of those is not
// before the time of the last that it takes of all.
func (q query) horizon(ctx context.Context, f annals.Filter, limit int) (time.Time, error) {
	from, to := f.Slices.Bounds()
	if f.Type == "" || f.Tag != "" || q.s.yugabyte || time.Since(f.After.Time) < recent {
		return time.Time{}, nil
	}
	for each := 2*limit/(to-from) + 1; ; each = limit { // of a slice: twice its share, then as many as there may be
		until, err := q.timeOf(ctx, f, limit, min(each, limit))
		if err != nil || !until.IsZero() || each >= limit {
			return until, err
		}
	}
}

// timeOf is the time of event number nr of those that come first in each slice of f.
func (q query) timeOf(ctx context.Context, f annals.Filter, nr, each int) (at time.Time, err error) {
	m := &condition{}
	m.match(f, time.Time{}, "seq_nr")
	sql := q.s.fill(`
		SELECT first.db_timestamp
		FROM unnest({slices}::int[]) AS s (slice)
			CROSS JOIN LATERAL (SELECT db_timestamp FROM {journal} j WHERE j.slice = s.slice AND NOT deleted AND {condition}
				ORDER BY db_timestamp, seq_nr LIMIT {each}) first
		ORDER BY first.db_timestamp OFFSET {offset rows} LIMIT 1`, "{condition}", m.where(),
		"{slices}", m.arg(numbers(f.Slices.Bounds())), "{each}", m.arg(each), "{offset rows}", m.arg(nr-1))
	driver.Count(ctx, annals.Result{Requests: 1})
	err = q.reader().QueryRow(ctx, sql, m.args...).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	return at, err
}
