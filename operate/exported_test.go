package operate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/examples/checkout/item"
	checkout "github.com/annals-go/annals/examples/checkout/order"
	"github.com/annals-go/annals/examples/groupchat/chat"
	users "github.com/annals-go/annals/examples/groupchat/profile"
	"github.com/annals-go/annals/examples/orders/audit"
	"github.com/annals-go/annals/examples/orders/order"
	"github.com/annals-go/annals/examples/orders/stock"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/operate"
)

// The tests that are written for random histories of the examples compile and pass.
func TestExportedTests(t *testing.T) {
	t.Parallel()
	r, files := random.New(t), map[string]string{}
	write := func(name string, sources map[string]string) { // of a behavior
		for i, source := range sources {
			files[name+i+"_test.go"] = source
		}
	}
	user := func(ctx context.Context) context.Context {
		return audit.With(ctx, audit.Record{User: random.OneOf(r, "ann", "bob", "`\"\\\x00ä")})
	}
	audited := aggregate.Options{Metadata: audit.Metadata}
	texts := append([]string{"a", "b", "it's `quoted`", `"`, "ä€😀", "<b>"}, hostile...)
	write("order", exported(t, r, order.Behavior, user, audited, func() order.Command {
		return random.OneOf[order.Command](r, order.Place{Customer: random.OneOf(r, texts...), Item: "pen", Pieces: r.IntN(100)}, order.Pay{},
			order.Cancel{Reason: random.OneOf(r, texts...), Now: time.Now()})
	}))
	write("checkout", exported(t, r, checkout.Behavior, nil, aggregate.Options{}, func() checkout.Command {
		id := fmt.Sprint(r.IntN(1000))
		return random.OneOf[checkout.Command](r, checkout.Place{ID: id, Item: "pen", Pieces: 1 + r.IntN(9)}, checkout.Confirm{ID: id}, checkout.Pay{ID: id},
			checkout.Cancel{ID: id, Reason: random.OneOf(r, texts...)})
	}))
	write("item", exported(t, r, item.Behavior, nil, aggregate.Options{}, func() item.Command {
		id, of := fmt.Sprint(r.IntN(1000)), fmt.Sprint(r.IntN(4))
		return random.OneOf[item.Command](r, item.Add{ID: id, Pieces: 1 + r.IntN(9)}, item.Reserve{ID: id, Order: of, Pieces: 1 + r.IntN(9)},
			item.Ship{ID: id, Order: of}, item.Release{ID: id, Order: of})
	}))
	write("chat", exported(t, r, chat.Behavior, nil, aggregate.Options{}, func() chat.Command {
		by, other, message := random.OneOf(r, "ann", "bob"), random.OneOf(r, "ann", "bob", "eve"), fmt.Sprint(r.IntN(5))
		return random.OneOf[chat.Command](r, chat.Create{Executor: "ann", Name: "chat"}, chat.Rename{Executor: by, Name: message},
			chat.AddMember{Executor: by, Account: other, Role: random.OneOf(r, chat.Member, chat.Admin)}, chat.RemoveMember{Executor: by, Account: other},
			chat.Post{Executor: by, ID: message, Text: random.OneOf(r, texts...)}, chat.Edit{Executor: by, ID: message, Text: random.OneOf(r, texts...)},
			chat.DeleteMessage{Executor: by, ID: message}, chat.MarkRead{Executor: by, Position: r.IntN(4)})
	}))
	write("stock", exportedStates(t, r, stock.Behavior, user, audited, func() stock.Add { return stock.Add(r.IntN(20) - 5) }))
	write("profile", exportedStates(t, r, users.Behavior, nil, aggregate.Options{}, func() users.Command {
		return random.OneOf[users.Command](r, users.SetName{Name: random.OneOf(r, "ann", "bob")}, users.SetStatus{Status: random.OneOf(r, users.Statuses...)})
	}))
	if len(files) != 6*histories {
		t.Fatalf("%d tests were written", len(files))
	}
	passes(t, files)
}

// histories is how many each behavior gets.
const histories = 20

// exported writes tests of random histories of b, up to a random number.
func exported[C, E, S, R any](t *testing.T, r *random.Source, b behavior.EventSourced[C, E, S, R], by func(context.Context) context.Context, o aggregate.Options, command func() C) map[string]string {
	t.Helper()
	s := memstore.New()
	entities, err := aggregate.New(s, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return tests(t, r, s, operate.Sourced(b), b.ID, by, true, func(ctx context.Context, id string) {
		_, _ = entities.Ask(ctx, id, command()) // some are rejected
	})
}

// exportedStates writes tests of random durable states of b.
func exportedStates[C, S, R any](t *testing.T, r *random.Source, b behavior.DurableState[C, S, R], by func(context.Context) context.Context, o aggregate.Options, command func() C) map[string]string {
	t.Helper()
	s := memstore.New()
	entities, err := aggregate.NewState(s, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return tests(t, r, s, operate.Durable(b), b.ID, by, false, func(ctx context.Context, id string) {
		_, _ = entities.Ask(ctx, id, command())
	})
}

// tests has ask called for some entities until each has something stored, and writes their tests.
func tests(t *testing.T, r *random.Source, s annals.Store, e operate.Entity, named func(string) annals.PersistenceID, by func(context.Context) context.Context, sourced bool, ask func(ctx context.Context, id string)) map[string]string {
	t.Helper()
	all, c := map[string]string{}, config(s)
	c.Entities = []operate.Entity{e}
	last := func(id annals.PersistenceID) annals.SeqNr {
		if sourced {
			n, err := s.Journal().LastSeqNr(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		st, _, err := s.States().Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return st.Revision
	}
	for i := range histories {
		id := fmt.Sprintf("%d-%d%s", r.IntN(1e9), i, random.OneOf(r, "x", "it's", "`", "\u202eä"))
		for n := r.IntN(40); n > 0 || last(named(id)) == 0; n-- {
			ctx := t.Context()
			if by != nil {
				ctx = by(ctx)
			}
			ask(ctx, id)
		}
		args := []string{"test", string(named(id)), "--package", "exported_test"}
		if sourced && r.OneIn(2) {
			args = append(args, "--to", fmt.Sprint(1+r.IntN(int(last(named(id))))))
		}
		o := run(t, c, args...)
		if o.status != 0 || !strings.Contains(o.text, "package exported_test") {
			t.Fatalf("%q: %+v", args, o)
		}
		all[fmt.Sprint(i)] = o.text
	}
	return all
}

// exportedDir is a directory without Go files, which go vet and the tests are run in.
const exportedDir = "orders/testdata"

// passes compiles files as one package and runs its tests.
func passes(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, source := range files {
		overlay.Replace[filepath.Join(here, exportedDir, name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(overlay)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	// Compiled as make test does, so that it uses what that has made.
	command := exec.CommandContext(t.Context(), "go", "test", "-v", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"),
		"-gcflags=all=-dwarf=false -l", "-gcflags=std=-dwarf=false", "-gcflags=modernc.org/...=-dwarf=false", "-ldflags=-s", "./"+exportedDir)
	said, err := command.CombinedOutput()
	if passed := strings.Count(string(said), "--- PASS: Test"); err != nil || passed != len(files) {
		t.Fatalf("%d of %d tests pass: %v\n%s", passed, len(files), err, said)
	}
}

// A durable state that is written while it is read is in no test: its payload would be that of another revision than the state that the test demands.
func TestExportedOfTwoRevisions(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	limited(t, s, "c")
	reads := 0
	between := &faulty.Store{Store: s, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		if c.Op == "get state" {
			if reads++; reads == 2 {
				limited(t, s, "c")
			}
		}
		return run()
	}}
	if o := run(t, config(between), "test", "Limit|c", "--behavior=Limit"); o.status != 4 || reads != 2 || !strings.Contains(o.errors, "has changed") {
		t.Errorf("%d reads, %+v", reads, o)
	}
}

// What a test has of an entity whose first events are deleted, of a durable state, and of what names the program has.
func TestExportedParts(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	metered(t, s, "a", 5)
	metered(t, s, "b", 3)
	limited(t, s, "c")
	state, err := meter.States.Encode(total{6})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: meter.ID("a"), SeqNr: 3, Payload: state}); err != nil {
		t.Fatal(err)
	}
	for id, to := range map[string]annals.SeqNr{"a": 2, "b": 1} {
		if err := s.Journal().DeleteTo(t.Context(), meter.ID(id), to); err != nil {
			t.Fatal(err)
		}
	}
	const named = "--behavior=example.com/x/v2.Meter"
	for args, parts := range map[string][]string{
		"Meter|a " + named:            {`"example.com/x/v2"`, "package x_test", "entitytest.New(t, x.Meter, \"a\")", "Snapshot: &annals.Snapshot{SeqNr: 3,", "{SeqNr: 4,", "{SeqNr: 5,", "`{\"sum\":15}`"},
		"Meter|a --to 4 " + named:     {"Snapshot: &annals.Snapshot{SeqNr: 3,", "{SeqNr: 4,", "`{\"sum\":10}`", "func TestMeter_a_at_4("},
		"Meter|b " + named:            {"{SeqNr: 2,", "{SeqNr: 3,", "`{\"sum\":5}`"},
		"Limit|c --behavior=Limit":    {"package main", "entitytest.NewState(t, Limit, \"c\")", "`{\"sum\":7}`"},
		"Meter|a --package=operate":   {"package operate\n", `"github.com/annals-go/annals/operate_test"`, "operate_test.Behavior"},
		"Meter|a --behavior=m/time.B": {`timedomain "m/time"`, "timedomain.B"},
		"Meter|a --behavior=m/t.B":    {`tdomain "m/t"`, "entitytest.New(t, tdomain.B, "},
	} {
		o := run(t, config(s), append([]string{"test"}, strings.Fields(args)...)...)
		for _, part := range parts {
			if !strings.Contains(o.text, part) || o.status != 0 {
				t.Errorf("test %s has no %s: %+v", args, part, o)
			}
		}
		if strings.Contains(o.text, "{SeqNr: 1,") && !strings.HasPrefix(args, "Limit") || strings.Contains(o.text, "Snapshot") != strings.HasPrefix(args, "Meter|a") {
			t.Errorf("test %s: %s", args, o.text)
		}
	}
}
