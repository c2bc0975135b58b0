package operate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"os/signal"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/operate"
)

func TestMain(m *testing.M) {
	_ = os.Setenv("ANNALS_STORE", "mem:") // so that the next commands are without --store
	// For the DynamoDB of the tests.
	_ = os.Setenv("AWS_ACCESS_KEY_ID", "test")
	_ = os.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	// The first call of signal.Notify starts goroutines that never end. They must not be in a synctest bubble.
	_, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	stop()
	defer postgres.Stop()
	dynamo.Main(m)
}

// A meter adds what it is given. Events and states are JSON objects, as some tables demand.
type (
	added struct {
		N int `json:"n"`
	}
	total struct {
		Sum int `json:"sum"`
	}
)

var errNegative = errors.New("a meter never goes back")

var meter = behavior.EventSourced[int, added, total, int]{
	Type: "Meter",
	Decide: func(_ total, n int) ([]added, error) {
		if n < 0 {
			return nil, errNegative
		}
		return []added{{n}}, nil
	},
	Evolve: func(s total, e added) total { return total{s.Sum + e.N} },
	Events: codec.JSON[added]("added"),
	States: codec.JSON[total]("total"),
}

var limit = behavior.DurableState[int, total, int]{
	Type:   "Limit",
	Decide: func(_ total, n int) (behavior.Effect[total], error) { return behavior.Save(total{n}), nil },
	States: codec.JSON[total]("total"),
}

// kept is a store that its command does not close.
type kept struct{ annals.Store }

func (k kept) Close() error { return nil }

func (k kept) Unwrap() annals.Store { return k.Store }

// config is that of a program with both behaviors and the store s.
func config(s annals.Store) operate.Config {
	snapshots := meter
	snapshots.SnapshotEvery = 1000 // what is only read is shown on stores without snapshots, too
	return operate.Config{Entities: []operate.Entity{operate.Sourced(snapshots), operate.Durable(limit)}, Stores: annals.Openers{
		"mem": func(context.Context, *url.URL) (annals.Store, error) { return kept{s}, nil },
	}}
}

// output is what a command printed.
type output struct {
	text, errors string
	status       int
}

func run(t *testing.T, c operate.Config, args ...string) output {
	t.Helper()
	return runWith(t.Context(), c, append([]string{"--store", "mem:"}, args...)...)
}

func runWith(ctx context.Context, c operate.Config, args ...string) output {
	var out, errs bytes.Buffer
	command := operate.Command(c)
	command.SetOut(&out)
	command.SetErr(&errs)
	command.SetArgs(args)
	status := operate.ExitStatus(command.ExecuteContext(ctx))
	return output{out.String(), errs.String(), status}
}

// envelope is what every command prints with --json.
type envelope struct {
	Version     *int             `json:"version"`
	Status      *int             `json:"status"`
	Data        *json.RawMessage `json:"data"`
	Diagnostics *[]struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Next    string `json:"next"`
	} `json:"diagnostics"`
}

// parsed is the one envelope of an output that must hold nothing else.
func parsed(t *testing.T, o output) (envelope, string) {
	t.Helper()
	var e envelope
	d := json.NewDecoder(bytes.NewReader([]byte(o.text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil || d.More() || o.errors != "" || e.Version == nil || *e.Version != 1 || e.Status == nil || *e.Status != o.status || e.Diagnostics == nil {
		t.Fatalf("status %d, %v: %s%s", o.status, err, o.text, o.errors)
	}
	code := ""
	if n := len(*e.Diagnostics); n > 0 {
		code = (*e.Diagnostics)[n-1].Code
	}
	return e, code
}

// metered is a store with a meter that has n events.
func metered(t *testing.T, s annals.Store, id string, n int) {
	t.Helper()
	meters, err := aggregate.New(s, meter, aggregate.Options{MayDrop: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := meters.Ask(t.Context(), id, i+1); err != nil {
			t.Fatal(err)
		}
	}
}

// limited has a durable state be written.
func limited(t *testing.T, s annals.Store, id string) {
	t.Helper()
	limits, err := aggregate.NewState(s, limit, aggregate.Options{MayDrop: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := limits.Ask(t.Context(), id, 7); err != nil {
		t.Fatal(err)
	}
}

// The exit status and the code of each kind of end.
func TestExitStatus(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	metered(t, s, "a", 3)
	limited(t, s, "a")
	for _, c := range []struct {
		status int
		code   string
		args   []string
	}{
		{0, "end", []string{"ids"}},
		{0, "end", []string{"show", "Meter|a"}},
		{0, "nothing", []string{"show", "Meter|b"}},
		{0, "end", []string{"show", "Limit|a"}},
		{0, "next", []string{"show", "Meter|a", "--at", "3", "--try", "-1"}},
		{0, "", []string{"verify"}},
		{0, "next", []string{"stats"}},
		{4, "unsupported", []string{"cost"}},
		{3, "usage", []string{"cost", "--limit", "-1"}},
		{3, "usage", []string{"cost", "--read-price", "NaN"}},
		{3, "usage", []string{"cost", "--read-price", "Inf"}},
		{3, "usage", []string{"cost", "--write-price", "1e300"}},
		{3, "usage", []string{"cost", "--rate", "-1"}},
		{3, "usage", []string{"cost", "--type", "Meter", "Meter|a"}},
		{0, "next", []string{"top"}},
		{0, "nothing", []string{"projection", "list"}},
		{0, "nothing", []string{"projection", "parked", "p"}},
		{0, "dry-run", []string{"prune", "--type", "Meter"}},
		{1, "never-run", []string{"projection", "status", "p"}},
		{2, "timeout", []string{"projection", "await", "p", "Meter|a", "3", "--timeout", "1ms"}},
		{3, "usage", nil},
		{3, "usage", []string{"none"}},
		{3, "usage", []string{"ids", "x"}},
		{3, "usage", []string{"ids", "--limit", "many"}},
		{3, "usage", []string{"show"}},
		{3, "usage", []string{"show", "Meter|a", "--diff"}},
		{3, "usage", []string{"show", "Meter|a", "--at", "yesterday"}},
		{3, "usage", []string{"show", "Meter|a", "--try", "no JSON"}},
		{3, "usage", []string{"show", "Meter|a", "--try", "1 2"}},
		{3, "invalid", []string{"show", "Meter|a", "--at", "4"}},
		{3, "usage", []string{"show", "Other|a", "--at", "4"}},
		{3, "usage", []string{"tail", "--after", "soon"}},
		{0, "next", []string{"trace", "Meter|a/1"}},
		{0, "nothing", []string{"trace", "x", "--since", "1m"}},
		{3, "usage", []string{"trace"}},
		{3, "usage", []string{"trace", "x", "--limit", "0"}},
		{3, "usage", []string{"trace", "x", "--since", "soon"}},
		{0, "", []string{"test", "Meter|a", "--to", "2"}},
		{3, "usage", []string{"test"}},
		{3, "usage", []string{"test", "Meter|a", "--to", "-1"}},
		{3, "usage", []string{"test", "Meter|a", "--hide-payloads"}},
		{3, "usage", []string{"test", "Meter|a", "--behavior", "a b"}},
		{3, "usage", []string{"test", "Meter|a", "--behavior", "a\"b.B"}},
		{3, "usage", []string{"test", "Meter|a", "--package", "a-b"}},
		{3, "nothing", []string{"test", "Meter|b"}},
		{3, "invalid", []string{"test", "Meter|a", "--to", "9"}},
		{4, "unsupported", []string{"test", "Other|a"}},
		{4, "unsupported", []string{"test", "Limit|a", "--to", "1"}},
		{3, "usage", []string{"stats", "--limit", "-1"}},
		{3, "usage", []string{"stats", "Meter|a", "--since", "1h"}},
		{3, "usage", []string{"top", "--by", "size"}},
		{3, "usage", []string{"top", "--limit", "0"}},
		{3, "usage", []string{"top", "--since", "soon"}},
		{3, "usage", []string{"top", "--by", "rate", "Meter|a"}},
		{3, "usage", []string{"verify", "--rate", "-1"}},
		{3, "usage", []string{"verify", "Meter|a", "--type", "Meter"}},
		{3, "usage", []string{"prune"}},
		{3, "usage", []string{"forget"}},
		{3, "usage", []string{"projection", "none"}},
		{3, "usage", []string{"projection", "await", "p", "Meter|a", "x"}},
		{3, "usage", []string{"projection", "retry", "p"}},
		{3, "usage", []string{"projection", "discard", "p", "Meter|a"}},
		{4, "unsupported", []string{"show", "Other|a", "--try", "1"}},
		{4, "unsupported", []string{"show", "Limit|a", "--at", "1"}},
		{3, "never-run", []string{"projection", "reset", "p", "--yes"}},
		{3, "never-run", []string{"projection", "retry", "p", "Meter|a"}},
	} {
		o := run(t, config(s), append([]string{"--json"}, c.args...)...)
		if _, code := parsed(t, o); o.status != c.status || code != c.code {
			t.Errorf("%q: status %d, code %q, want %d, %q: %s", c.args, o.status, code, c.status, c.code, o.text)
		}
		plain := run(t, config(s), c.args...)
		if failed := c.status > 1; c.args != nil && (plain.status != c.status || failed != (plain.errors != "")) {
			t.Errorf("%q without --json: status %d: %q, %q", c.args, plain.status, plain.text, plain.errors)
		}
	}
	if o := runWith(t.Context(), operate.Config{Stores: annals.Openers{}}, "--json", "ids", "--store", "file:x"); o.status != 4 {
		t.Errorf("a scheme that is not there: %+v", o)
	}
}

// Numbers keep their digits, and pages follow each other.
func TestPages(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	metered(t, s, "a", 5)
	p := annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "added", Data: []byte(`{"n": 9007199254740993, "x": 12345678901234567890123}`)}
	if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: meter.ID("a"), After: 5, Events: []annals.NewEvent{{Payload: p}}}); err != nil {
		t.Fatal(err)
	}
	var numbers []int64
	for after := "0"; after != ""; {
		o := run(t, config(s), "--json", "show", "Meter|a", "--limit", "2", "--after", after)
		e, code := parsed(t, o)
		var page struct {
			Events []struct {
				Number int64
			}
			More bool
		}
		if err := json.Unmarshal(*e.Data, &page); err != nil || len(page.Events) > 2 {
			t.Fatal(err, o.text)
		}
		for _, e := range page.Events {
			numbers = append(numbers, e.Number)
		}
		after = ""
		if code == "more" {
			last := (*e.Diagnostics)[0].Next
			after = last[len(last)-1:]
		}
		if page.More != (after != "") {
			t.Errorf("more: %v, next after %q", page.More, after)
		}
		if after == "" && !bytes.Contains([]byte(o.text), []byte(`"value":{"n":9007199254740993,"x":12345678901234567890123}`)) {
			t.Errorf("digits are lost: %s", o.text)
		}
	}
	if len(numbers) != 6 || numbers[0] != 1 || numbers[5] != 6 {
		t.Errorf("the pages have %v", numbers)
	}
}

// A store that fails while an entity is shown.
func TestShowFails(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	metered(t, s, "a", 1)
	for _, args := range [][]string{{"show", "Meter|a"}, {"show", "Meter|a", "--at", "1"}} {
		ctx, cancel := context.WithCancel(t.Context())
		c := config(s)
		c.Stores["mem"] = func(context.Context, *url.URL) (annals.Store, error) { cancel(); return kept{s}, nil }
		if o := runWith(ctx, c, append(args, "--store", "mem:")...); o.status == 0 || o.text != "" {
			t.Errorf("%q: %+v", args, o)
		}
	}
}
