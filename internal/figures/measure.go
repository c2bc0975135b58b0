package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// result is the outcome of one figure.
type result struct {
	Name  string    `json:"name"`
	About string    `json:"about"`
	Value float64   `json:"value"` // the median of Runs; 0 when there is an error
	Runs  []float64 `json:"runs"`  // in the order they were taken
	Goal  string    `json:"goal"`
	State string    `json:"state"` // "ok", "short" or "error"
	Error string    `json:"error,omitempty"`

	text string // of Value
}

// measure runs f count times. Progress goes to log.
func measure(ctx context.Context, f Figure, count int, log io.Writer) result {
	r := result{Name: f.Name, About: f.About, Goal: f.Goal.String(), Runs: []float64{}}
	for i := range count {
		value, err := f.Run(ctx)
		if err == nil && (math.IsNaN(value) || math.IsInf(value, 0)) {
			err = fmt.Errorf("measured %v", value)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(log, "%s: run %d of %d: %v\n", f.Name, i+1, count, err)
			r.State, r.Error = "error", err.Error()
			return r
		}
		fmt.Fprintf(log, "%s: run %d of %d: %s\n", f.Name, i+1, count, f.Goal.text(value))
		r.Runs = append(r.Runs, value)
	}
	r.Value = median(r.Runs)
	r.text = f.Goal.text(r.Value)
	return r.judged(f.Goal)
}

// judged is r, which has a value, beside goal.
func (r result) judged(goal Goal) result {
	r.Goal, r.State = goal.String(), "short"
	if goal.Reached(r.Value) {
		r.State = "ok"
	}
	return r
}

// line is the result in the form "figure NAME VALUE GOAL ok|short"; one that could not be taken has the value "-" and the
// state "error".
func (r result) line() string {
	text := r.text
	if r.State == "error" {
		text = "-"
	}
	return fmt.Sprintf("figure %s %s %s %s", r.Name, text, r.Goal, r.State)
}

// median is the middle of values, the mean of the middle two of an even number. values must not be empty.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// reading is a side of a ratio that reads so many events.
func reading(events int, read func() (n int, err error)) func() error {
	return func() error {
		n, err := read()
		if err == nil && n != events {
			err = fmt.Errorf("read %d events, not %d", n, events)
		}
		return err
	}
}

// replayed counts the events of id that a replay yields, and the bytes of their payloads.
func replayed(ctx context.Context, s annals.Store, id annals.PersistenceID) (events, bytes int, err error) {
	for e, err := range s.Journal().Replay(ctx, id, 1, annals.MaxSeqNr) {
		if err != nil {
			return events, bytes, err
		}
		events, bytes = events+1, bytes+len(e.Data)
	}
	return events, bytes, nil
}

// recovered counts the events of id that a recovery hands over.
func recovered(ctx context.Context, s annals.Store, id annals.PersistenceID) (events int, err error) {
	_, err = ability.Recover(ctx, s, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { events++; return nil })
	return events, err
}

// appendEqual appends count events with the same payload to a new entity, in commits of batch.
func appendEqual(ctx context.Context, s annals.Store, id annals.PersistenceID, count, batch int, p annals.Payload) error {
	for n := 0; n < count; n += batch {
		c := annals.Commit{ID: id, After: annals.SeqNr(n), Events: slices.Repeat([]annals.NewEvent{{Payload: p}}, min(batch, count-n))}
		if _, err := s.Journal().Append(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// times is fn so many times, as one side of a ratio.
func times(n int, fn func() error) func() error {
	return func() (err error) {
		for i := 0; i < n && err == nil; i++ {
			err = fn()
		}
		return err
	}
}

// writing is a side of a ratio that writes so many events to a new entity.
func writing(name string, events int, write func(id annals.PersistenceID, n annals.SeqNr) error) func() error {
	turn := 0
	return func() error {
		turn++
		id := annals.NewPersistenceID("Figure", fmt.Sprintf("%s-%06d", name, turn))
		for n := range annals.SeqNr(events) {
			if err := write(id, n+1); err != nil {
				return err
			}
		}
		return nil
	}
}

var start = time.Now()

// clock is the time in seconds.
func clock() float64 { return time.Since(start).Seconds() }

// medians runs sides in turns, and returns the median of what each has spent.
func medians(turns int, spent func() float64, sides ...func() error) ([]float64, error) {
	return summed(turns, spent, median, sides...)
}

// shortest is ratio for times that are the shortest of all turns: others may use the machine.
func shortest(turns int, spent func() float64, a, b func() error) (float64, error) {
	least, err := summed(turns, spent, slices.Min[[]float64], a, b)
	if err != nil {
		return 0, err
	}
	return least[0] / least[1], nil
}

// summed runs sides in turns, and returns what of makes of what each has spent.
func summed(turns int, spent func() float64, of func([]float64) float64, sides ...func() error) ([]float64, error) {
	all := make([][]float64, len(sides))
	for turn := range turns + 1 {
		for i, run := range sides {
			cost, err := costing(spent, run)()
			if err != nil {
				return nil, err
			}
			if turn > 0 { // the first warms up
				all[i] = append(all[i], cost)
			}
		}
	}
	spentBy := make([]float64, len(sides))
	for i, costs := range all {
		spentBy[i] = of(costs)
	}
	return spentBy, nil
}

// ratio runs two sides in turns. It returns the median of the ratios of what they spend, as spent counts it: a's divided by b's.
func ratio(turns int, spent func() float64, a, b func() error) (float64, error) {
	return costRatio(turns, costing(spent, a), costing(spent, b))
}

// costing is side as one that returns what it spends.
func costing(spent func() float64, side func() error) func() (float64, error) {
	return func() (float64, error) {
		before := spent()
		err := side()
		return spent() - before, err
	}
}

// costRatio is ratio for sides that return what they spend.
func costRatio(turns int, a, b func() (float64, error)) (float64, error) {
	sides := [2]func() (float64, error){a, b}
	var ratios []float64 // of one turn each: the load of the machine changes less within a turn than between turns
	for turn := range turns + 1 {
		var cost [len(sides)]float64
		for i := range sides {
			side := (turn + i) % len(sides) // each side is as often first as second
			var err error
			if cost[side], err = sides[side](); err != nil {
				return 0, err
			}
		}
		if turn > 0 { // the first warms up
			ratios = append(ratios, cost[0]/cost[1])
		}
	}
	return median(ratios), nil
}
