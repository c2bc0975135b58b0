package operate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/examples/checkout/flow"
	"github.com/annals-go/annals/examples/checkout/item"
	checkout "github.com/annals-go/annals/examples/checkout/order"
	"github.com/annals-go/annals/examples/orders/audit"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/process"
	"github.com/annals-go/annals/projection"
)

// traced is the tree that trace prints, without times and what comes in a line of its own.
func traced(t *testing.T, c operate.Config, args ...string) string {
	t.Helper()
	o := run(t, c, append([]string{"trace"}, args...)...)
	if o.status != 0 {
		t.Fatalf("%q: %+v", args, o)
	}
	tree, _, _ := strings.Cut(o.text, "searched: ")
	tree = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`).ReplaceAllString(tree, "TIME")
	return regexp.MustCompile(`(?m)^ *(metadata|writer) .*\n`).ReplaceAllString(tree, "")
}

// settled runs a process until nothing is left to do.
func settled[E, S any](t *testing.T, s annals.Store, p process.Process[E, S], from []process.Source, to []process.Recipients) {
	t.Helper()
	r, err := process.New(s, p, from, to, process.Options{Ranges: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Of each event the tree says whether the projections that follow it have handled it.
func TestTraceHandledBy(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	parkAll(t, s, "parks", "broken") // Meter|a, with 2 events
	limited(t, s, "a")
	caughtUp := func(name string, source projection.Source[added], stops annals.PersistenceID) {
		t.Helper()
		r, err := projection.AtLeastOnce(name, source, s, func(_ context.Context, e projection.Envelope[added]) error {
			if e.ID == stops {
				return errors.New("stops")
			}
			return nil
		}, projection.Options{Ranges: 1, Logger: slog.New(slog.DiscardHandler), OnError: func(context.Context, projection.Failure) projection.Verdict { return projection.Stop }})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.CatchUp(t.Context()); (err != nil) != (stops != "") {
			t.Fatal(err)
		}
	}
	source := projection.Source[added]{Store: s, Type: "Meter", Codec: meter.Events}
	caughtUp("all", source, "")
	caughtUp("stopped", source, "Meter|a")
	other, tagged := source, source
	other.Type, tagged.Tag = "Other", "x"
	caughtUp("other", other, "")
	caughtUp("tagged", tagged, "")
	metered(t, s, "a", 1)
	limits, err := projection.AtLeastOnce("limits", projection.Source[total]{Store: s, Type: "Limit", Codec: meter.States, States: true}, s,
		func(context.Context, projection.Envelope[total]) error { return nil }, projection.Options{Ranges: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := limits.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := config(s)
	c.Trace = func(annals.Event) (string, string) { return "request", "" }
	c.Projections = []string{"stopped", "parks", "never run", "all"}
	got := traced(t, c, "request", "--projections", "tagged,other,all,limits")
	if want := `Meter|a  1  TIME  added {"n":1}
    handled by: all (yes), parks (parked), stopped (not yet)
Meter|a  2  TIME  added {"n":2}
    handled by: all (yes), parks (parked), stopped (not yet)
Meter|a  3  TIME  added {"n":1}
    handled by: all (not yet), parks (not yet), stopped (not yet)
Limit|a  state 1  TIME  total {"sum":7}
    handled by: limits (yes)
`; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if w := visit(t, s, c, operate.PageOptions{}).get("trace?correlation=request"); strings.Count(w.Body.String(), `handled by: <a href="projection?name=all">all (`) != 3 {
		t.Error(w.Body)
	}
	if err := projection.NewControl(s, "parks").Discard(t.Context(), "Meter|a", 1); err != nil {
		t.Fatal(err)
	}
	if got := traced(t, c, "Meter|a/1"); !strings.Contains(got, "parks (parked)") { // until a runner has carried it out
		t.Error(got)
	}
}

// An event of which there is a state with the same id and number is handled, too.
func TestTraceHandledByBesideState(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	p := annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "added", Data: []byte(`{"n":1}`)}
	if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "Meter|a", Events: []annals.NewEvent{{Payload: p}, {Payload: p}}, WriteID: annals.NewWriteID()}); err != nil {
		t.Fatal(err)
	}
	for n := range annals.SeqNr(2) {
		if _, err := s.States().Put(t.Context(), annals.StateWrite{ID: "Meter|a", After: n, Payload: p, WriteID: annals.NewWriteID()}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := projection.AtLeastOnce("all", projection.Source[added]{Store: s, Type: "Meter", Codec: meter.Events}, s,
		func(context.Context, projection.Envelope[added]) error { return nil }, projection.Options{Ranges: 1, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = r.CatchUp(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	c := config(s)
	c.Trace, c.Projections = func(annals.Event) (string, string) { return "request", "" }, []string{"all"}
	if got := traced(t, c, "request"); strings.Count(got, "handled by: all (yes)\n") != 2 || !strings.Contains(got, "state 2") {
		t.Error(got)
	}
	// One that cannot be read hides neither the tree nor the others.
	if _, err := s.States().Put(t.Context(), annals.StateWrite{ID: "annals.projection|a broken one", Payload: annals.Payload{SerializerID: 31, Data: []byte("{")}}); err != nil {
		t.Fatal(err)
	}
	c.Projections = append(c.Projections, "a broken one")
	if o := run(t, c, "trace", "request"); o.status != 1 || strings.Count(o.text, "handled by: all (yes)\n") != 2 || !strings.Contains(o.text, "projection a broken one: ") {
		t.Errorf("%+v", o)
	}
	if body := visit(t, s, c, operate.PageOptions{}).get("trace?correlation=request").Body.String(); strings.Count(body, "all (yes)") != 2 {
		t.Error(body)
	}
}

// The tree of a request goes through a process: its steps, commands and timers, and the events of the entities that got the commands, which have the ids of
// the commands in their payloads.
func TestTraceProcess(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	orders, err := aggregate.New(s, checkout.Behavior, aggregate.Options{Metadata: audit.Metadata})
	if err != nil {
		t.Fatal(err)
	}
	items, err := aggregate.New(s, item.Behavior, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := items.Ask(t.Context(), "pen", item.Add{ID: "stock", Pieces: 5}); err != nil {
		t.Fatal(err)
	}
	for i, pieces := range []int{2, 9} {
		ctx := audit.With(t.Context(), audit.Record{Correlation: fmt.Sprintf("request-%d", i+1)})
		if _, err := orders.Ask(ctx, fmt.Sprint(i+1), checkout.Place{ID: "c", Item: "pen", Pieces: pieces}); err != nil {
			t.Fatal(err)
		}
		from := []process.Source{
			process.From(projection.Source[checkout.Event]{Store: s, Type: "Order", Codec: codec.Union[checkout.Event](checkout.Events...)},
				func(e projection.Envelope[checkout.Event]) string { return e.ID.EntityID() }),
			process.From(projection.Source[item.Event]{Store: s, Type: "Item", Codec: codec.Union[item.Event](item.Events...)},
				func(e projection.Envelope[item.Event]) string { return flow.OrderOf(e.Value) }),
		}
		settled(t, s, flow.New(time.Hour), from, []process.Recipients{
			process.To(flow.Orders, func(ctx context.Context, key, id string, c checkout.Command) (checkout.Order, error) {
				return orders.Ask(ctx, id, c.Named(key))
			}),
			process.To(flow.Items, func(ctx context.Context, key, id string, c item.Command) (int, error) {
				return items.Ask(ctx, id, c.Named(key))
			}),
		})
	}
	want := `Order|1  1  TIME  order.placed {"command":"c","item":"pen","pieces":2}
  Checkout|1  1  TIME  handles event 1 of Order|1
    timer deadline, due TIME
    command Checkout|1/1/1 to pen of items: item.reserve {"id":"","order":"1","pieces":2}
      Item|pen  2  TIME  item.reserved {"command":"Checkout|1/1/1","order":"1","pieces":2}
        Checkout|1  2  TIME  handles event 2 of Item|pen
          command Checkout|1/2/1 to 1 of orders: order.confirm {"id":""}
            Order|1  2  TIME  order.confirmed {"command":"Checkout|1/2/1"}
`
	if got := traced(t, config(s), "request-1"); got != want {
		t.Errorf("request-1:\n%s\nwant\n%s", got, want)
	}
	if got := traced(t, config(s), "request-2"); !strings.Contains(got, "order.cancelled") || strings.Contains(got, "Order|1") || strings.Count(got, "command ") != 3 {
		t.Errorf("request-2:\n%s", got)
	}
	// It can begin in the middle.
	_, below, _ := strings.Cut(want, "      Item|pen")
	if got := traced(t, config(s), "Item|pen/2"); got != regexp.MustCompile(`(?m)^      `).ReplaceAllString("      Item|pen"+below, "") {
		t.Errorf("an event:\n%s", got)
	}
	hidden := config(s)
	hidden.HidePayloads = true
	if got := traced(t, hidden, "request-1"); strings.Contains(got, `"pieces"`) || strings.Count(got, "\n") != strings.Count(want, "\n") {
		t.Errorf("with payloads hidden:\n%s", got)
	}
}

// The events of a command that AskOnce has executed are found by its key.
func TestTraceKeys(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	meters, err := aggregate.New(s, meter, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	metered(t, s, "sum", 1)
	metered(t, s, "a", 2)
	sums := process.NewTarget("sums", codec.JSON[int]("add"))
	p := process.Process[struct{}, struct{}]{Type: "Summing"}
	p.React = func(_ struct{}, in process.Input) (step process.Step[struct{}], err error) {
		switch v := in.Value.(type) {
		case added:
			step.Commands = append(step.Commands, sums.Ask("sum", v.N+10))
		case process.Answer:
			step.End = true
		}
		return step, nil
	}
	from := process.From(projection.Source[added]{Store: s, Type: "Meter", Codec: meter.Events}, func(e projection.Envelope[added]) string {
		if e.ID == meter.ID("a") {
			return fmt.Sprint(e.SeqNr)
		}
		return ""
	})
	settled(t, s, p, []process.Source{from}, []process.Recipients{process.To(sums, meters.AskOnce)})
	want := `Meter|a  2  TIME  added {"n":2}
  Summing|2  1  TIME  handles event 2 of Meter|a
    command Summing|2/1/1 to sum of sums: add 12
      Meter|sum  3  TIME  added {"n":12}
      Summing|2  2  TIME  handles the answer to command Summing|2/1/1
`
	got := traced(t, config(s), "Meter|a/2")
	if got = strings.Replace(got, "Meter|sum  2  TIME  added {\"n\":12}", "Meter|sum  3  TIME  added {\"n\":12}", 1); got != want { // both instances send at the same time
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// An answer that waits is in the tree. What was executed beside a command that fails is noted in an event without a cause.
func TestTraceFailures(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	metered(t, s, "a", 1)
	sums := process.NewTarget("sums", codec.JSON[int]("add"))
	broken := true
	p := process.Process[struct{}, struct{}]{Type: "Summing"}
	p.React = func(_ struct{}, in process.Input) (step process.Step[struct{}], err error) {
		if _, ok := in.Value.(process.Answer); ok {
			if step.End = true; broken {
				err = errors.New("on purpose")
			}
			return step, err
		}
		step.Commands = append(step.Commands, sums.Ask("good", 1), sums.Tell("bad", 2))
		return step, nil
	}
	from := process.From(projection.Source[added]{Store: s, Type: "Meter", Codec: meter.Events}, func(projection.Envelope[added]) string { return "s" })
	to := process.To(sums, func(_ context.Context, _, recipient string, _ int) (int, error) {
		if broken && recipient == "bad" {
			return 0, &annals.Error{Op: "ask", Kind: annals.ErrUnavailable}
		}
		return 0, nil
	})
	settled(t, s, p, []process.Source{from}, []process.Recipients{to})
	broken = false
	if err := projection.NewControl(s, "Summing/steps").Retry(t.Context(), "Summing|s"); err != nil {
		t.Fatal(err)
	}
	settled(t, s, p, []process.Source{from}, []process.Recipients{to})
	want := `Meter|a  1  TIME  added {"n":1}
  Summing|s  1  TIME  handles event 1 of Meter|a
    command Summing|s/1/1 to good of sums: add 1
      Summing|s  2  TIME  handles the answer to command Summing|s/1/1, which waits
        Summing|s  4  TIME  handles the answer to command Summing|s/1/1, which had waited since number 2
    command Summing|s/1/2 to bad of sums: add 2
`
	if got := traced(t, config(s), "Meter|a/1"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := traced(t, config(s), "Summing|s/3"), "Summing|s  3  TIME  handles no input, and notes as executed: 1 command\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Metadata says to which correlation an event belongs and what caused it, also when the cause has a later time.
func TestTraceMetadata(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	now := time.Now()
	add := func(id string, after annals.SeqNr, ago time.Duration, metadata string) {
		t.Helper()
		e := annals.NewEvent{Payload: annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "added", Data: []byte("{}")}, Time: now.Add(-ago)}
		if metadata != "" {
			e.Metadata = annals.Payload{SerializerID: codec.JSONSerializer, Data: []byte(metadata)}
		}
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: annals.PersistenceID(id), After: after, Events: []annals.NewEvent{e}}); err != nil {
			t.Fatal(err)
		}
	}
	add("A|1", 0, 9*time.Minute, `{"correlationId":"x","causation_id":"click"}`)
	add("A|2", 0, 10*time.Minute, `{"Correlation":"other","Causation":"A|1/1"}`) // its clock is behind
	add("A|3", 0, 11*time.Minute, `{"CAUSATION":"A|2/1"}`)
	add("A|4", 0, 8*time.Minute, `{"correlation":7,"causation":null}`)
	add("A|5", 0, 7*time.Minute, `["x"]`)
	add("A|6", 0, 26*time.Hour, `{"correlation":"x"}`)
	add("A|7", 0, time.Minute, "")
	stocks := annals.StateWrite{ID: "S|1", Payload: annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "total", Data: []byte("{}")},
		Metadata: annals.Payload{SerializerID: codec.JSONSerializer, Data: []byte(`{"correlation":"x","causation":"A|1/1"}`)}}
	if _, err := s.States().Put(t.Context(), stocks); err != nil {
		t.Fatal(err)
	}
	const tree = "A|1  1  TIME  added {}\n    caused by click\n  A|2  1  TIME  added {}\n    A|3  1  TIME  added {}\n  S|1  state 1  TIME  total {}\n"
	for args, want := range map[string]string{
		"x":           tree,
		"click":       tree,
		"x --since 0": "A|6  1  TIME  added {}\n" + tree,
		"other":       "A|2  1  TIME  added {}\n    caused by A|1/1\n  A|3  1  TIME  added {}\n",
		"7":           "A|4  1  TIME  added {}\n",
		"none":        "",
		"x --limit 1": "A|1  1  TIME  added {}\n    caused by click\n",
		"x --type S":  "S|1  state 1  TIME  total {}\n    caused by A|1/1\n",
	} {
		if got := traced(t, config(s), strings.Fields(args)...); got != want {
			t.Errorf("trace %s:\n%s\nwant\n%s", args, got, want)
		}
	}
	own := config(s)
	own.Trace = func(e annals.Event) (correlation, causation string) {
		if e.ID == "A|6" {
			panic("it has a defect")
		}
		return string(e.ID), "A|1/1"
	}
	if got := traced(t, own, "A|7"); got != "A|7  1  TIME  added {}\n    caused by A|1/1\n" {
		t.Errorf("with a function of the program: %s", got)
	}
	for args, code := range map[string]string{"x": "next", "none": "nothing", "none --since 0": "nothing", "x --limit 1": "more"} {
		if _, got := parsed(t, run(t, config(s), append([]string{"--json", "trace"}, strings.Fields(args)...)...)); got != code {
			t.Errorf("trace %s: code %q, want %q", args, got, code)
		}
	}
	if o := run(t, config(s), "trace", "x", "--limit", "1", "--since", "1h"); !regexp.MustCompile(`next: annals trace x --since 20\S+Z --limit 10\n`).MatchString(o.text) {
		t.Errorf("a longer search begins at another time: %s", o.text)
	}
}

// A chain that is long stays a tree that can be read.
func TestTraceDepth(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	c := annals.Commit{ID: "A|1"}
	for i := range 3000 {
		metadata := annals.Payload{SerializerID: codec.JSONSerializer, Data: fmt.Appendf(nil, `{"correlation":"x","causation":"A|1/%d"}`, i)}
		c.Events = append(c.Events, annals.NewEvent{Payload: annals.Payload{SerializerID: 1}, Metadata: metadata})
	}
	if _, err := s.Journal().Append(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	o := run(t, config(s), "--json", "trace", "x", "--limit", "10000")
	if v := data[struct{ Found int }](t, o); v.Found != 3000 || o.status != 0 {
		t.Errorf("%d of 3000 events are found", v.Found)
	}
}
