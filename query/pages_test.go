package query_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/query"
)

// paged notes how many events each read of a store has returned.
func paged(s annals.Store, pages *[]int) annals.Store {
	return &faulty.Store{Store: s, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		if c.Op != "query events" {
			return run()
		}
		n := 0
		defer func() { *pages = append(*pages, n) }()
		c.Each = func(any) error { n++; return nil }
		return run()
	}}
}

// The pages of a feed that catches up grow, and have a bound in bytes.
func TestPages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events, bytes int
		want          []int
	}{
		"small": {4000, 1, []int{1000, 2000, 1000}},
		"large": {20, 1 << 20, []int{8, 8, 4}},
	} {
		var pages []int
		s := paged(memstore.New(), &pages)
		batch := slices.Repeat([]annals.NewEvent{{Payload: annals.Payload{SerializerID: 1, Data: make([]byte, c.bytes)}}}, c.events/4)
		for n := 0; n < c.events; n += len(batch) {
			if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", After: annals.SeqNr(n), Events: batch}); err != nil {
				t.Fatal(err)
			}
		}
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{Current: true})
		n := 0
		for {
			b, err := feed.Next(t.Context(), 100)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			n += len(b.Items)
		}
		if n != c.events || !slices.Equal(pages, c.want) {
			t.Errorf("%s: %d events in pages of %v, want %d in pages of %v", name, n, pages, c.events, c.want)
		}
	}
}
