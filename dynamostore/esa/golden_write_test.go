package esa_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/internal/valid"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// refused are the steps that the layout refuses and a library accepts, by scenario. Rust replaces the event of step 16.
var refused = map[string]map[int]error{
	"conflicts": {
		20: annals.ErrConflict, // event 5 after event 1
		21: annals.ErrConflict, // event 3 after event 5
		22: annals.ErrInvalid,  // event 0
		26: annals.ErrInvalid,  // the state has the number 50
		29: annals.ErrInvalid,  // the state is of another aggregate
	},
	"esa-rust/conflicts":   {16: annals.ErrConflict, 20: annals.ErrConflict, 21: annals.ErrConflict, 22: annals.ErrInvalid, 26: annals.ErrInvalid, 29: annals.ErrInvalid},
	"esa-rust-3/conflicts": {16: annals.ErrConflict, 20: annals.ErrConflict, 21: annals.ErrConflict, 22: annals.ErrInvalid}, // its states have no number and no id
	"ids":                  {36: annals.ErrInvalid, 38: annals.ErrInvalid},                                                  // order|item-1, whose aid is that of order-item|1
	"shard-count-changed":  {5: annals.ErrInvalid, 6: annals.ErrInvalid, 9: annals.ErrInvalid},                              // the aggregate exists, under another shard count
}

// oldest are the rows that differ because Go and Rust keep the oldest copies.
var oldest = map[string][]string{
	"retention-delete": {
		"more snapshot UserAccount-every-event-7", "more snapshot UserAccount-every-third-12",
		"no snapshot UserAccount-every-event-1", "no snapshot UserAccount-every-third-1",
	},
	"retention-delete-3": {
		"more snapshot UserAccount-every-event-5…7", "more snapshot UserAccount-every-third-9 12",
		"no snapshot UserAccount-every-event-1…3", "no snapshot UserAccount-every-third-1 3",
	},
	"retention-ttl":      {"ttl of snapshot UserAccount-every-event-1 7", "ttl of snapshot UserAccount-every-third-1 12"},
	"retention-ttl-3":    {"ttl of snapshot UserAccount-every-event-1…3 5…7", "ttl of snapshot UserAccount-every-third-1 3 9 12"},
	"keep-enabled-later": {"more snapshot UserAccount-late-6", "no snapshot UserAccount-late-5 7…8"}, // and Keep 0 is no copies, not all
	"purge-over-25":      tooMany,
}

// tooMany are the copies that stay because the library's request has too many deletes.
var tooMany = []string{"no snapshot UserAccount-many-1…36"}

// mended are the rows that differ, by system and scenario, or by scenario. No other rows do.
var mended = map[string][]string{
	"ids":                 {"no journal order-item-1-1…2", "no snapshot order-item-1-0"}, // those of order|item-1
	"shard-count-changed": {"no journal UserAccount-01H42K4ABWQ5V2XQEP3A48VE0Z-1…2", "no snapshot UserAccount-01H42K4ABWQ5V2XQEP3A48VE0Z-0"},

	"esa-js-3/keep-enabled-later":   {"more snapshot UserAccount-late-6"},                                   // with 0 it deletes all copies
	"esa-rust-3/keep-enabled-later": {"more snapshot UserAccount-late-6", "no snapshot UserAccount-late-8"}, // it refuses 0, and goes on with 1
	"esa-rust-3/purge-over-25":      tooMany,

	// The rows of the steps that are refused.
	"esa-go/conflicts": {
		"no journal UserAccount-gap-0 3 5", "no journal UserAccount-other-2", "no journal UserAccount-snapshot-ahead-2",
		"payload, version of snapshot UserAccount-other-0", "payload, version of snapshot UserAccount-snapshot-ahead-0", "version of snapshot UserAccount-gap-0",
	},
	"esa-js/conflicts":   conflictsOfJS,
	"esa-js-3/conflicts": conflictsOfJS,
	"esa-rust/conflicts": {
		"last_updated_at, payload, version of snapshot UserAccount-other-0", "last_updated_at, payload, version of snapshot UserAccount-snapshot-ahead-0",
		"last_updated_at, version of snapshot UserAccount-gap-0", "last_updated_at, version of snapshot UserAccount-taken-number-0",
		"no journal UserAccount-gap-0 3 5", "no journal UserAccount-other-2", "no journal UserAccount-snapshot-ahead-2",
		"occurred_at, payload of journal UserAccount-taken-number-2",
	},
	"esa-rust-3/conflicts": {
		"last_updated_at, version of snapshot UserAccount-gap-0", "last_updated_at, version of snapshot UserAccount-taken-number-0",
		"no journal UserAccount-gap-3 5", "occurred_at, payload of journal UserAccount-taken-number-2",
	},
}

var conflictsOfJS = []string{
	"last_updated_at, payload, version of snapshot UserAccount-snapshot-ahead-0", "last_updated_at, version of snapshot UserAccount-gap-0",
	"no journal UserAccount-gap-0 3 5", "no journal UserAccount-snapshot-ahead-2",
}

// by returns the entry for a system and a scenario, or else that for the scenario.
func by[T any](m map[string]T, s *scenario) T {
	if v, ok := m[s.system+"/"+s.name]; ok {
		return v
	}
	return m[s.name]
}

// The calls of the libraries, made by the layout, write the rows of the libraries, attribute by attribute.
func TestGoldenWrite(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(t) {
		t.Run(s.system+"/"+s.name, func(t *testing.T) {
			t.Parallel()
			w := &writer{s: s}
			for i, step := range s.inputs.Steps {
				w.do(t, i, step)
			}
			want := by(mended, s)
			if p := systems[s.system]; p == esa.Go || p == esa.Rust {
				want = slices.Concat(want, oldest[s.name])
			}
			w.compare(s.tables, want)
		})
	}
}

// writer makes the calls of a scenario.
type writer struct {
	*bench
	s *scenario
}

func (w *writer) do(t *testing.T, i int, s step) {
	t.Helper()
	switch s.Op {
	case "open":
		if w.s.system == "esa-js" {
			s.Settings.KeepSnapshotCount, s.Settings.DeleteTTLSeconds = 0, 0 // 2.2.94 does not write copies
		}
		var x *plantest.Executor
		if w.bench != nil {
			x = w.Executor
		}
		w.bench = on(t, s.Settings.layout(systems[w.s.system]), x)
	case "persistEvent", "persistEventAndSnapshot":
		err, want := w.persist(s), by(refused, w.s)[i]
		switch theirs := w.s.expected.Results[i]; {
		case want != nil || theirs.OK:
		case len(s.Event.AggregateID.Value) > 1000 || s.Op == "persistEvent" && s.Event.IsCreated:
			want = annals.ErrInvalid
		case !theirs.stored():
			want = annals.ErrConflict
		}
		if !errors.Is(err, want) {
			t.Errorf("step %d, event %d of %q: %v, want %v", i, s.Event.SeqNr, s.Event.AggregateID, err, want)
		}
	}
}

// persist makes one append. The number of the event and the version are one number here, After: if they are not, the append has the one that
// is not the last number, because the other one is right.
func (w *writer) persist(s step) error {
	version := s.Version
	if s.Aggregate != nil {
		version = s.Aggregate.Version
	}
	if s.Event.IsCreated {
		version = 0
	}
	number := s.Event.SeqNr
	c := annals.Commit{ID: s.Event.AggregateID.pid(), After: number - 1, WriteID: annals.NewWriteID()}
	if last, err := w.Journal.LastSeqNr(w.Context(), c.ID); err != nil {
		return err
	} else if c.After == last && version != last {
		c.After, s.Event.SeqNr = version, version+1
	}
	c.Events = []annals.NewEvent{{Payload: w.s.event(s.Event)}}
	if s.Aggregate != nil {
		a := *s.Aggregate
		a.SeqNr += s.Event.SeqNr - number
		c.Snapshot = &annals.Snapshot{ID: c.ID, SeqNr: s.Event.SeqNr, Payload: w.s.payload(a)}
	}
	if err := valid.Commit(c, w.offer.Capabilities.Limits); err != nil {
		return err
	}
	w.Time = at(s.Event.OccurredAt).Add(-time.Second)
	_, err := w.Journal.Append(w.Context(), c)
	return err
}

// compare compares the tables with want, and lists the rows that differ: how, the table, the sort keys up to the number, and the numbers.
func (w *writer) compare(want []plantest.Dump, differences []string) {
	w.Helper()
	found := map[string][]annals.SeqNr{}
	differs := func(how, table string, it plan.Item) {
		key := plan.KeyText(it["skey"])
		at := strings.LastIndexByte(key, '-') + 1
		n, err := strconv.ParseInt(key[at:], 10, 64)
		if err != nil {
			w.Fatal(err)
		}
		text := fmt.Sprintf("%s %s %s", how, table, key[:at])
		found[text] = append(found[text], annals.SeqNr(n))
	}
	for _, dump := range want {
		table, have := dump.Table.TableName, map[string]plan.Item{}
		for _, it := range w.Items(table) {
			have[key(it)] = it
		}
		for _, d := range dump.Items {
			it := plan.Item(d)
			if got, ok := have[key(it)]; !ok {
				differs("no", table, it)
			} else if names := different(got, it); names != "" {
				differs(names+" of", table, it)
			}
			delete(have, key(it))
		}
		for _, it := range have {
			differs("more", table, it)
		}
	}
	var all []string
	for text, numbers := range found {
		slices.Sort(numbers)
		all = append(all, text+show(numbers))
	}
	slices.Sort(all)
	if !slices.Equal(all, differences) {
		w.Errorf("the tables differ:\n%s\nwant\n%s", strings.Join(all, "\n"), strings.Join(differences, "\n"))
	}
}

// show returns numbers as ranges.
func show(numbers []annals.SeqNr) string {
	var text []string
	for i := 0; i < len(numbers); {
		first := i
		for i++; i < len(numbers) && numbers[i] == numbers[i-1]+1; i++ {
		}
		if i == first+1 {
			text = append(text, fmt.Sprint(numbers[first]))
		} else {
			text = append(text, fmt.Sprintf("%d…%d", numbers[first], numbers[i-1]))
		}
	}
	return strings.Join(text, " ")
}

// key shows the key of a row.
func key(it plan.Item) string { return plan.KeyText(it["pkey"]) + " " + plan.KeyText(it["skey"]) }

// different returns the attributes in which two rows differ; "" when there are none. The time at which a copy expires is that of the run.
func different(got, want plan.Item) string {
	var names []string
	for name, w := range want {
		g := got[name]
		if name == "ttl" && expires(g) && expires(w) {
			continue
		}
		if !reflect.DeepEqual(g, w) {
			names = append(names, name)
		}
	}
	for name := range got {
		if want[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func expires(v types.AttributeValue) bool {
	n, ok := v.(*types.AttributeValueMemberN)
	return ok && n.Value != "0"
}
