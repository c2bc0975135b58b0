package pgstore_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/pgstore"
)

// warnings counts the calls that ended with a warning.
type warnings struct {
	mu sync.Mutex
	n  int
}

func (w *warnings) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (w *warnings) End(_ context.Context, c annals.Call, r annals.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Warning != nil && c.Op == "query watermark" {
		w.n++
	}
}

// While a transaction is older than Lateness, each watermark warns the Observer. The log has one line for the first, and one more when it
// happens again. Not parallel: the log is that of the program.
func TestTransactionsOlderThanLateness(t *testing.T) {
	var out bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))

	const lateness = 200 * time.Millisecond
	seen := &warnings{}
	h := newWatermarks(t, pgstore.Options{WriteTimeout: lateness / 2, Lateness: lateness, Observer: seen})
	conn, other := h.session(), h.session()
	wantWarnings := func(when string, observed, logged int) {
		t.Helper()
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if lines := strings.Count(out.String(), "longer than Options.Lateness"); seen.n != observed || lines != logged {
			t.Errorf("%s: %d warnings to the Observer and %d in the log, want %d and %d", when, seen.n, lines, observed, logged)
		}
	}
	watermark := func() {
		t.Helper()
		if _, err := h.s.Query().Watermark(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 2 {
		watermark()
		wantWarnings("without a transaction", 3*round, round)
		h.exec(conn, "BEGIN")
		h.exec(other, "SELECT pg_sleep(0.3)")
		for i := range 3 {
			watermark()
			wantWarnings("with an old transaction", 3*round+i+1, round+1)
		}
		h.exec(conn, "ROLLBACK")
	}
}
