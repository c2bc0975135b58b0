package operate_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/sqlitestore"
)

type verified struct {
	Checked  int
	Skipped  int
	Holes    int
	Complete bool
	Findings []struct {
		ID    annals.PersistenceID
		Code  string
		Means string
	}
}

func verify(t *testing.T, o output) (verified, []string) {
	t.Helper()
	e, _ := parsed(t, o)
	var v verified
	if err := json.Unmarshal(*e.Data, &v); err != nil {
		t.Fatal(err)
	}
	var next []string
	for _, d := range *e.Diagnostics {
		next = append(next, d.Next)
	}
	return v, next
}

// A lost row is found, and the command says what it means and how to see it.
func TestVerifyFindsLostEvents(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/lost.db"
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, id := range []string{"a", "b", "c"} {
		metered(t, s, id, 3)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "DELETE FROM event_journal WHERE persistence_id = 'Meter|b' AND seq_nr = 2"); err != nil {
		t.Fatal(err)
	}
	c := operate.Config{Stores: annals.Openers{"sqlite": sqlitestore.Options{}.OpenURL}}
	for _, args := range []string{"", "--type Meter", "--since 1h", "--since " + began.UTC().Format(time.RFC3339), "--rate 100000", "--after Meter|a"} {
		o := runWith(t.Context(), c, append([]string{"--json", "verify", "--store", "sqlite:" + path}, strings.Fields(args)...)...)
		v, next := verify(t, o)
		if o.status != 1 || len(v.Findings) != 1 || v.Findings[0].ID != "Meter|b" || v.Findings[0].Code != "missing" || v.Findings[0].Means == "" || !v.Complete || next[0] != "annals show 'Meter|b' --after 0 --store sqlite:"+path {
			t.Errorf("%q: %s", args, o.text)
		}
	}
	// What can be read is shown.
	for after, want := range map[string]string{"0": "\n1  ", "2": "\n3  "} {
		o := runWith(t.Context(), c, "show", "--store", "sqlite:"+path, "Meter|b", "--after", after)
		if o.status != map[string]int{"0": 1, "2": 0}[after] || !strings.Contains(o.text, want) || strings.Contains(o.text, "--after 2") != (after == "0") {
			t.Errorf("after %s: %+v", after, o)
		}
	}
	if o := runWith(t.Context(), c, "verify", "--store", "sqlite:"+path, "Meter|a", "Meter|c"); o.status != 0 {
		t.Errorf("the others: %+v", o)
	}
}

// A run that is interrupted says how to go on, and keeps to its rate.
func TestVerifyGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		for i := range 10 {
			metered(t, s, fmt.Sprint(i), 1)
		}
		checked := 0
		args := []string{"verify", "--type", "Meter", "--rate", "2"}
		for range 4 {
			ctx, cancel := context.WithTimeout(t.Context(), 1400*time.Millisecond)
			began := time.Now()
			o := runWith(ctx, config(s), append([]string{"--store", "mem:", "--json"}, args...)...)
			cancel()
			v, next := verify(t, o)
			if v.Complete != (o.status == 0) || !v.Complete && o.status != 2 {
				t.Fatalf("status %d: %s", o.status, o.text)
			}
			if checked += v.Checked; v.Complete {
				break
			}
			if v.Checked != 3 || time.Since(began) != 1400*time.Millisecond {
				t.Errorf("%d in %s", v.Checked, time.Since(began))
			}
			args = append([]string{"verify", "--rate", "2"}, strings.Fields(strings.ReplaceAll(strings.TrimPrefix(next[0], "annals verify"), "'", ""))...)
		}
		if checked != 10 {
			t.Errorf("checked %d", checked)
		}
	})
}

// The command that goes on has no password.
func TestVerifyGoesOnWithoutPassword(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		metered(t, s, "a", 1)
		metered(t, s, "b", 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		for _, flag := range []string{"--json", "--hide-payloads"} {
			o := runWith(ctx, config(s), "--store", "mem:", flag, "verify", "--rate", "1", "--source", "totals=mem://ann:hunter2@host/x")
			if o.status != 2 || strings.Contains(o.text+o.errors, "hunter2") || !strings.Contains(o.text, "--source totals=URL") {
				t.Errorf("%+v", o)
			}
			ctx, cancel = context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
		}
	})
}

// Forgetting takes two runs, and a dry run of each changes nothing.
func TestForgetInTwoRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		metered(t, s, "a", 3)
		last := func() annals.SeqNr {
			n, err := s.Journal().LastSeqNr(t.Context(), "Meter|a")
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		for i, c := range []struct {
			code string
			want annals.SeqNr
			args []string
		}{
			{"dry-run", 3, nil},
			{"waiting", 4, []string{"--yes"}},
			{"waiting", 4, []string{"--yes"}},
			{"dry-run", 4, nil},
			{"", 0, []string{"--yes"}},
		} {
			if i == 3 {
				time.Sleep(16 * time.Minute)
			}
			o := run(t, config(s), append([]string{"forget", "Meter|a", "--json"}, c.args...)...)
			if _, code := parsed(t, o); o.status != 0 || code != c.code || last() != c.want {
				t.Errorf("run %d: last number %d, want %d: %s", i, last(), c.want, o.text)
			}
		}
	})
}

// A rate of more than one entity in a nanosecond is no limit.
func TestVerifyAtAnyRate(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	metered(t, s, "a", 1)
	for _, command := range []string{"verify", "forget"} {
		if o := run(t, config(s), command, "Meter|a", "--rate", "2000000000"); o.status != 0 {
			t.Errorf("%s: %+v", command, o)
		}
	}
}

// What is wrong with payloads, projections and numbers that readers accept is found and said, and where the program knows nothing it is not.
func TestVerifyKinds(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	metered(t, s, "a", 3)
	p := annals.Payload{SerializerID: 31, Manifest: "unknown", Data: []byte(`{}`)}
	for _, id := range []annals.PersistenceID{"Meter|unread", "Other|unread"} {
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, Events: []annals.NewEvent{{Payload: p}, {Payload: p}}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.States().Put(t.Context(), annals.StateWrite{ID: "annals.parked|7/gone\x1b[31m", Payload: p}); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { // the second look is later
		o := run(t, config(s), "verify")
		for _, want := range []string{"entities checked: 3, findings: 2\n", "codec: Meter|unread 1 to 2: event 1: ", "It means: hosts and projections fail", "next: annals show 'Meter|unread'\n", `unused: projection gone\u001b[31m: `} {
			if !strings.Contains(o.text, want) {
				t.Errorf("no %q in %+v", want, o)
			}
		}
		if o.status != 1 || strings.Contains(o.text, "Other|unread") {
			t.Errorf("%+v", o)
		}
		if o := run(t, config(s), "verify", "--hide-payloads"); !strings.Contains(o.text, "codec: Meter|unread 1 to 2: a payload cannot be decoded. It means: ") || strings.Contains(o.text, "event 1") {
			t.Errorf("%+v", o)
		}
		if o := run(t, config(s), "verify", "Meter|a", "--strict", "--running", "p,q"); o.status != 0 {
			t.Errorf("%+v", o)
		}
		v, _ := verify(t, run(t, config(s), "verify", "--json", "--type", "Meter", "--since", "2100-01-01T00:00:00Z"))
		if v.Checked != 0 || v.Skipped != 2 || !v.Complete {
			t.Errorf("%+v", v)
		}
	})
}

// holey is a store that has numbers which readers take for unused.
type holey struct{ annals.Store }

func (h holey) Unwrap() annals.Store { return h.Store }

func (holey) Check(_ context.Context, id annals.PersistenceID, _ func(ability.Stored)) ([]*ability.Damage, error) {
	return []*ability.Damage{{Code: ability.Hole, ID: id, From: 2, To: 3, Err: errors.New("there are no events 2 to 3")}}, nil
}

// Numbers that readers accept are no finding, unless the caller asks for them.
func TestVerifyAcceptsHoles(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	metered(t, s, "a", 1)
	synctest.Test(t, func(t *testing.T) {
		for args, status := range map[string]int{"verify": 0, "verify --strict": 1} {
			o := run(t, config(holey{s}), strings.Fields(args)...)
			if o.status != status || !strings.Contains(o.text, "entities checked: 1, findings: 0\nnumbers that readers take for unused: in 1 places\nhole: Meter|a 2 to 3: ") {
				t.Errorf("%s: %+v", args, o)
			}
		}
	})
}

// The program says what runs, and a flag which store has the events of a projection.
func TestVerifyOfWhatRuns(t *testing.T) {
	t.Parallel()
	s, source := memstore.New(), memstore.New()
	metered(t, s, "a", 1)
	metered(t, source, "a", 3)
	newest, err := source.Query().Newest(t.Context(), annals.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Offsets().Save(t.Context(), annals.Progress{Projection: "totals", Offsets: []annals.Offset{newest}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.States().Put(t.Context(), annals.StateWrite{ID: "annals.lease|reports\x1b[2J", Payload: annals.Payload{SerializerID: 31, Data: []byte(`{}`)}}); err != nil {
		t.Fatal(err)
	}
	c := config(s)
	c.Stores["events"] = func(context.Context, *url.URL) (annals.Store, error) { return kept{source}, nil }
	c.Running = []string{"totals"}
	synctest.Test(t, func(t *testing.T) { // the second look is later
		for args, want := range map[string][]string{
			"verify":                          {"position: projection totals 2 to 3: ", `unused: annals.lease|reports\u001b[2J: `},
			"verify --source totals=events:":  {`unused: annals.lease|reports\u001b[2J: `},
			"verify --running totals,reports": {"position: projection totals 2 to 3: ", `unused: annals.lease|reports\u001b[2J: `},
			"verify --source other=events: --running totals --rate 1000": {"position: projection totals 2 to 3: ", `unused: annals.lease|reports\u001b[2J: `},
		} {
			o := run(t, c, strings.Fields(args)...)
			if n := strings.Count(o.text, "To do: "); o.status != 1 || n != len(want) {
				t.Errorf("%s: %d findings: %+v", args, n, o)
			}
			for _, line := range want {
				if !strings.Contains(o.text, line) {
					t.Errorf("%s: no %q in %+v", args, line, o)
				}
			}
		}
		if o := run(t, c, "verify", "--source", "totals=events:", "--running", "totals,reports\x1b[2J"); o.status != 0 {
			t.Errorf("%+v", o)
		}
		for _, wrong := range []string{"totals", "=events:"} {
			if o := run(t, c, "verify", "--source", wrong); o.status != 3 {
				t.Errorf("--source %s: %+v", wrong, o)
			}
		}
	})
}
