package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/examples/orders/audit"
	"github.com/annals-go/annals/examples/orders/order"
	"github.com/annals-go/annals/examples/orders/stock"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
)

// TestMain names the store as the guide does: there each command reads a file that filled has made.
func TestMain(m *testing.M) {
	_ = os.Setenv("ANNALS_STORE", "sqlite:orders.db")
	m.Run()
}

var update = flag.Bool("update", false, "write what the commands print into the documents")

// The outputs in the guide, and those in JSON in testdata, are what the commands print.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"../../docs/guide/operating.md", "testdata/json.txt", "testdata/rest.txt"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			after := transcript(t, string(before), &url.URL{Scheme: "sqlite", Opaque: filled(t)})
			if *update {
				err = os.WriteFile(name, []byte(after), 0o644)
			} else if after != string(before) {
				err = fmt.Errorf("%s\nrun go test ./orders -update, and look at the differences", difference(string(before), after))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// difference is the first line in which two texts differ.
func difference(before, after string) string {
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	for i := range min(len(was), len(is)) {
		if was[i] != is[i] {
			return fmt.Sprintf("line %d is\n%s\nwant\n%s", i+1, is[i], was[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(is), len(was))
}

// transcript runs the commands of a document, indented lines that begin with "$ orders", and replaces the indented lines after each by what it
// prints and its exit status if that is not 0.
func transcript(t *testing.T, document string, store *url.URL) string {
	t.Helper()
	var out strings.Builder
	printed := false
	commands := 0
	for text := range strings.Lines(document) {
		line, indented := strings.CutPrefix(strings.TrimSuffix(text, "\n"), "    ")
		command, ok := strings.CutPrefix(line, "$ orders ")
		switch {
		case indented && ok:
			commands++
			out.WriteString(text)
			for line := range strings.Lines(steady(execute(t, store, words(command)))) {
				out.WriteString("    " + line)
			}
			printed = true
		case indented && printed:
		default:
			out.WriteString(text)
			printed = false
		}
	}
	if commands < 5 {
		t.Errorf("the document has %d commands", commands)
	}
	return out.String()
}

// words are the words of a command; some are in single quotes.
func words(command string) (all []string) {
	for _, m := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(command, -1) {
		all = append(all, m[1]+m[2])
	}
	return all
}

func execute(t *testing.T, store *url.URL, args []string) string {
	t.Helper()
	var out bytes.Buffer
	stored := config
	stored.Stores, stored.Setups = maps.Clone(config.Stores), maps.Clone(config.Setups)
	stored.Stores["sqlite"] = func(ctx context.Context, _ *url.URL) (annals.Store, error) {
		return config.Stores["sqlite"](ctx, store)
	}
	stored.Setups["sqlite"] = func(ctx context.Context, _ *url.URL) (ability.Setup, error) {
		return config.Setups["sqlite"](ctx, store)
	}
	c := operate.Command(stored)
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(args)
	if status := operate.ExitStatus(c.ExecuteContext(t.Context())); status != 0 {
		fmt.Fprintf(&out, "exit status %d\n", status)
	}
	return out.String()
}

// steady replaces what differs from run to run: times that are not those of filled, durations, rates, and ids of runners.
func steady(text string) string {
	text = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:[\d.]+Z`).ReplaceAllStringFunc(text, func(at string) string {
		if strings.HasPrefix(at, "2026-03-14") {
			return at
		}
		return "2026-11-27T18:00:00Z"
	})
	text = regexp.MustCompile(`time\.Date\(([^)]*)\)`).ReplaceAllStringFunc(text, func(at string) string {
		if strings.HasPrefix(at, "time.Date(2026, 3, 14,") {
			return at
		}
		return "time.Date(2026, 11, 27, 18, 0, 0, 0, time.UTC)"
	})
	text = regexp.MustCompile(`(waits|lag \d+,) \d*[1-9][\dhms.]*`).ReplaceAllString(text, "$1 5m0s")
	text = regexp.MustCompile(`\d\.?\d*e-\d\d`).ReplaceAllString(text, "4.5e-08") // events in a second
	text = regexp.MustCompile(`free space: \d+ GiB`).ReplaceAllString(text, "free space: 120 GiB")
	return regexp.MustCompile(`"lagTime":[1-9]\d*`).ReplaceAllString(text, `"lagTime":300000000000`)
}

// filled is the path of a file with two orders, a stock, and a projection whose handler has failed once.
func filled(t *testing.T) string {
	t.Helper()
	ctx, path := t.Context(), t.TempDir()+"/orders.db"
	s, err := sqlitestore.Open(ctx, path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	add := func(id string, after annals.SeqNr, by string, events ...order.Event) {
		t.Helper()
		metadata, err := audit.Records.Encode(audit.Record{User: by, Correlation: "request-" + id})
		if err != nil {
			t.Fatal(err)
		}
		c := annals.Commit{ID: order.Behavior.ID(id), After: after, WriteID: annals.WriteID{15: byte(after) + 1}}
		for _, e := range events {
			p, err := order.Events.Encode(e)
			if err != nil {
				t.Fatal(err)
			}
			began = began.Add(time.Minute)
			c.Events = append(c.Events, annals.NewEvent{Payload: p, Metadata: metadata, Time: began})
		}
		if _, err := s.Journal().Append(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	add("1001", 0, "ann", order.Placed{Customer: "bob", Item: "pen", Pieces: 2})
	add("1002", 0, "ann", order.Placed{Customer: "eve", Item: "ink", Pieces: 1})
	add("1001", 1, "bob", order.Paid{})
	add("1002", 1, "eve", order.Cancelled{Reason: "by mistake"})
	snapshot, err := order.Snapshots.Encode(order.Order{Status: order.IsPaid, Customer: "bob", Item: "pen", Pieces: 2, PlacedAt: began.Add(-3 * time.Minute),
		History: []order.Change{{Status: order.IsPlaced, At: began.Add(-3 * time.Minute), By: "ann"}, {Status: order.IsPaid, At: began.Add(-time.Minute), By: "bob"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Snapshots().Save(ctx, annals.Snapshot{ID: order.Behavior.ID("1001"), SeqNr: 2, Time: began, Payload: snapshot}); err != nil {
		t.Fatal(err)
	}
	stocks, err := aggregate.NewState(s, stock.Behavior, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stocks.Ask(ctx, "pen", 8); err != nil {
		t.Fatal(err)
	}
	parkOne(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// parkOne runs a projection once, which parks order 1002.
func parkOne(t *testing.T, s annals.Store) {
	t.Helper()
	source := projection.Source[order.Event]{Store: s, Type: order.Behavior.Type, Codec: order.Events}
	handle := func(_ context.Context, e projection.Envelope[order.Event]) error {
		if _, ok := e.Value.(order.Cancelled); ok {
			return errors.New("no rule for it")
		}
		return nil
	}
	r, err := projection.AtLeastOnce("sales", source, s, handle, projection.Options{
		Ranges:    2,
		OnError:   func(context.Context, projection.Failure) projection.Verdict { return projection.Park },
		ErrorText: error.Error,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
}
