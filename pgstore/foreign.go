package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/position"
)

// pluginWindow is how far before its newest offset a projection of the plugins begins when it starts again: the backtracking window of the
// query and its distance from the current time, 2 minutes and 10 seconds by default. What is older, the projection has handled.
const pluginWindow = 130 * time.Second

// withForeign returns ranges with what the rows of the plugins tell of their slices and of those of r.
func (v offsets) withForeign(ctx context.Context, q querier, projection string, r annals.SliceRange, ranges position.Ranges) (position.Ranges, error) {
	from, to := ranges.Bounds(r)
	if n := len(ranges); n > 0 {
		from, to = min(from, ranges[0].From), max(to, ranges[n-1].To)
	}
	if to > annals.SliceCount { // the plugins have other ranges
		return ranges, nil
	}
	foreign, err := v.foreignRanges(ctx, q, projection)
	for _, x := range foreign.Within(annals.SliceRange{From: from, To: to}) {
		ranges = ranges.Add(x)
	}
	return ranges, err
}

// foreignRanges returns what the rows of the plugins tell, where there are newer ones than this store has written. It reads by q, or with nil
// where v reads. The worker of a plugin writes its key into its rows, by convention its slices as "min-max". The newest row of each slice is
// looked at, as the plugins do.
func (v offsets) foreignRanges(ctx context.Context, q querier, projection string) (all position.Ranges, err error) {
	known := "NULL::timestamptz"
	if v.s.epoch.exists() {
		known = `(SELECT max(newest_time) FROM "annals_projection_epoch" WHERE projection_name = $1 AND slice_from <= newest.slice AND slice_to > newest.slice)`
	}
	if q == nil {
		q = v.reader(ctx)
	}
	rows, err := q.Query(ctx, v.s.fill(`
		SELECT newest.projection_key, max(newest.timestamp_offset), min(newest.slice), max(newest.slice)
		FROM (SELECT slices.slice, o.projection_key, o.timestamp_offset
			FROM generate_series(0, $2::int - 1) AS slices (slice), LATERAL (SELECT o.projection_key, o.timestamp_offset FROM "akka_projection_timestamp_offset_store" o
				WHERE o.slice = slices.slice AND o.projection_name = $1 ORDER BY o.timestamp_offset DESC LIMIT 1) o) newest
		WHERE timestamp_offset > coalesce(`+known+`, '-infinity')
		GROUP BY newest.projection_key`), projection, annals.SliceCount)
	if err != nil {
		return nil, err
	}
	var earliest annals.Offset // of the newest of each key
	convention := true
	var key string
	var at time.Time
	var lowest, highest int
	_, err = pgx.ForEachRow(rows, []any{&key, &at, &lowest, &highest}, func() error {
		x := position.Range{Through: annals.Offset{Time: at.UTC().Add(-pluginWindow)}}
		if n, err := fmt.Sscanf(key, "%d-%d", &x.From, &x.To); n != 2 || err != nil || x.From < 0 || lowest < x.From || highest > x.To || x.To >= annals.SliceCount {
			convention = false
		}
		x.To++
		if earliest.Time.IsZero() || x.Through.Time.Before(earliest.Time) {
			earliest = x.Through
		}
		if convention {
			all = all.Add(x)
		}
		return nil
	})
	if !convention {
		return position.Ranges{{From: 0, To: annals.SliceCount, Through: earliest}}, err
	}
	return all, err
}
