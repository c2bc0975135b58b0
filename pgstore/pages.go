package pgstore

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/position"
)

// pages yields what read finds after f.After, page by page until an unbounded page is not full. Each page is read whole, and its
// connection released, before the body sees any of it.
//
// The server sorts all rows that a query matches before it returns the first ones. In a long history that would be all the remaining
// rows, for every page. So a query has an upper bound in time: estimate for the first page, and for each further one twice the time span
// of the full page before. A bounded page that is not full is followed by an unbounded one. estimate is nil for tables with one row per entity.
func pages[T any](ctx context.Context, f annals.Filter, offset func(T) annals.Offset,
	estimate func(ctx context.Context, f annals.Filter, limit int) (time.Time, error),
	read func(ctx context.Context, f annals.Filter, until time.Time, limit int) (page []T, cut bool, err error)) iter.Seq2[T, error] {
	var until time.Time
	bounded, left := false, f.Limit // bounded: the page before was bounded, and not full
	size := pageSize(queryPage)
	return driver.Pages(ctx, func(ctx context.Context) (page []T, more bool, err error) {
		limit := int(size)
		if f.Limit > 0 {
			limit = min(left, limit)
		}
		if until.IsZero() && !bounded && estimate != nil {
			if until, err = estimate(ctx, f, limit); err != nil {
				return nil, false, err
			}
		}
		page, cut, err := read(ctx, f, until, limit)
		if err != nil {
			return nil, false, err
		}
		full := size.full(len(page), limit, cut)
		if left -= len(page); !full && until.IsZero() || f.Limit > 0 && left == 0 {
			return page, false, nil
		}
		bounded, until = !full, time.Time{}
		if len(page) > 0 {
			f.After = offset(page[len(page)-1])
		}
		if full {
			span := f.After.Time.Sub(offset(page[0]).Time)
			until = f.After.Time.Add(2*span + time.Millisecond)
		}
		return page, true, nil
	})
}

// pageSize is how many rows the next page of a query has at most. After a page that is cut it is smaller, because the server sends a page whole.
type pageSize int

// full reports whether rows may follow a page with n of at most limit rows, and prepares the next one.
func (s *pageSize) full(n, limit int, cut bool) bool {
	switch {
	case cut:
		*s = pageSize(max(n*pageBytes/keptBytes, 1))
	case n == limit:
		*s = min(2**s, queryPage)
	}
	return cut || n == limit
}

// recent is how old an offset may be for a query without a bound: little follows it.
const recent = time.Minute

// estimate is a time up to which a query over a type finds limit events, and not many more. It is zero where there are fewer events, or
// where a bound would not help. It merges the first events of every slice: event number limit of those is not earlier than
// event number limit of all.
func (q query) estimate(ctx context.Context, f annals.Filter, limit int) (time.Time, error) {
	from, to := f.Slices.Bounds() // their difference is the number of slices
	if f.Type == "" || f.Tag != "" || q.s.yugabyte || time.Since(f.After.Time) < recent {
		return time.Time{}, nil
	}
	for each := 2*limit/(to-from) + 1; ; each = limit { // events per slice: twice its share, then as many as there may be
		until, err := q.timeOf(ctx, f, limit, min(each, limit))
		if err != nil || !until.IsZero() || each >= limit {
			return until, err
		}
	}
}

// timeOf is the time of event number nr among the first events of each slice of f, zero if there are fewer.
func (q query) timeOf(ctx context.Context, f annals.Filter, nr, each int) (at time.Time, err error) {
	m := &condition{}
	m.match(f, time.Time{}, "seq_nr")
	sql := q.s.fill(`
		SELECT first.db_timestamp
		FROM unnest(` + m.arg(position.Slices(f.Slices)) + `::int[]) AS s (slice)
			CROSS JOIN LATERAL (SELECT db_timestamp FROM "event_journal" j WHERE j.slice = s.slice AND NOT deleted AND ` + m.where() + `
				ORDER BY db_timestamp, seq_nr LIMIT ` + m.arg(each) + `) first
		ORDER BY first.db_timestamp OFFSET ` + m.arg(nr-1) + ` LIMIT 1`)
	err = q.reader(ctx).QueryRow(ctx, sql, m.args...).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	return at, err
}
