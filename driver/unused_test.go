package driver_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
)

// unused is rows in which what is missing was never used. Nothing proves it unless proven.
type unused struct {
	rows
	proven bool
}

func (u *unused) Gap(ctx context.Context, from, to annals.SeqNr) (driver.Part, error) {
	p, err := u.rows.Gap(ctx, from, to)
	p.Unused, p.Proven = to, u.proven
	return p, err
}

// Numbers that are taken for unused although nothing proves it are logged by each store, for the first of them. Not parallel: the log is that of
// the program.
func TestUnusedNumbersAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	open := func(name string, proven, strict bool) *driver.Store {
		r := &unused{rows{last: 9, events: map[annals.SeqNr]bool{1: true, 4: true, 9: true}, page: 2}, proven}
		return driver.New(&backend{journal: journal{replay: func(ctx context.Context) iter.Seq2[annals.Event, error] {
			return driver.Replay(ctx, r, 1, annals.MaxSeqNr)
		}}}, driver.Options{Name: name, Strict: strict})
	}
	replay := func(s *driver.Store) (events int, err error) {
		for _, err := range s.Journal().Replay(t.Context(), "T|1", 1, annals.MaxSeqNr) {
			if err != nil {
				return events, err
			}
			events++
		}
		return events, nil
	}
	for _, s := range []*driver.Store{open("first", false, false), open("second", false, false), open("proven", true, false)} {
		for range 3 {
			if n, err := replay(s); n != 3 || err != nil {
				t.Errorf("%d events, %v", n, err)
			}
		}
	}
	if _, err := replay(open("strict", false, true)); !errors.Is(err, annals.ErrCorrupt) {
		t.Errorf("a strict store: %v", err)
	}
	for line, want := range map[string]int{"WARN": 2, "store=first id=T|1 from=2 to=3": 1, "store=second id=T|1 from=2 to=3": 1} {
		if n := strings.Count(log.String(), line); n != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", line, n, want, log.String())
		}
	}
}

// The requests for an entity with very many unused numbers grow with their number, and not with its square.
func TestCheckOfManyUnusedNumbers(t *testing.T) {
	t.Parallel()
	const holes = 20_000
	r := &unused{rows: rows{last: 2*holes + 1, events: map[annals.SeqNr]bool{}, page: 500}}
	for n := annals.SeqNr(1); n <= r.last; n += 2 {
		r.events[n] = true
	}
	s := driver.New(&backend{journal: journal{
		last: func(context.Context) (annals.SeqNr, error) { return r.last, nil },
		replay: func(ctx context.Context) iter.Seq2[annals.Event, error] {
			return driver.Replay(ctx, r, 1, annals.MaxSeqNr)
		},
	}}, driver.Options{Name: "holes"})
	found, err := s.Unwrap().(ability.Checker).Check(t.Context(), "T|1", nil)
	if err != nil || len(found) != holes || r.requests > 2*holes {
		t.Errorf("%d holes after %d requests, %v", len(found), r.requests, err)
	}
}
