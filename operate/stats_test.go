package operate_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/memstore"
)

// data decodes the data of an output.
func data[T any](t *testing.T, o output) (v T) {
	t.Helper()
	e, _ := parsed(t, o)
	if e.Data == nil {
		t.Fatal(o.text)
	}
	if err := json.Unmarshal(*e.Data, &v); err != nil {
		t.Fatal(err, o.text)
	}
	return v
}

type statistics struct {
	Entities, Events, States int
	Bytes                    int64
	More, Complete           bool
	Types                    []struct {
		Type                     string
		Entities, Events, States int
		Bytes                    int64
	}
	Payloads []struct {
		Serializer            int
		Manifest              string
		State                 bool
		Count, Bytes, Largest int
	}
	Slice      struct{ Slice, Events int }
	WriteUnits *struct {
		Events      int
		PerThousand float64
	}
}

type ranked struct {
	Entities, Events int
	Bytes            int64
	Complete         bool
	Top              []struct {
		ID               string
		Events, Bytes    int
		Share, PerSecond float64
	}
	Slice struct{ Slice, Events int }
}

func TestStats(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	metered(t, s, "a", 12) // {"n":1} … {"n":12}: 7 bytes each, 8 from 10 on
	metered(t, s, "b", 1)
	limited(t, s, "c") // {"sum":7}: 9 bytes
	c := config(s)
	v := data[statistics](t, run(t, c, "stats", "--json"))
	if v.Entities != 3 || v.Events != 13 || v.States != 1 || v.Bytes != 12*7+3+7+9 || !v.Complete || v.More || v.WriteUnits != nil {
		t.Errorf("%+v", v)
	}
	if len(v.Types) != 2 || v.Types[0].Type != "Meter" || v.Types[0].Entities != 2 || v.Types[0].Bytes != 12*7+3+7 || v.Types[1].Type != "Limit" || v.Types[1].States != 1 {
		t.Errorf("%+v", v.Types)
	}
	if len(v.Payloads) != 2 || v.Payloads[0].Manifest != "added" || v.Payloads[0].Count != 13 || v.Payloads[0].Largest != 8 || !v.Payloads[1].State || v.Payloads[1].Manifest != "total" {
		t.Errorf("%+v", v.Payloads)
	}
	if want := meter.ID("a").Slice(); v.Slice.Slice != want || v.Slice.Events != 12 {
		t.Errorf("the hottest slice is %+v, want %d", v.Slice, want)
	}
	if v := data[statistics](t, run(t, c, "stats", "--json", "--limit", "2")); v.Entities != 2 || v.Complete || !v.More {
		t.Errorf("two entities: %+v", v)
	}
	if v := data[statistics](t, run(t, c, "stats", "--json", "Meter|b", "Limit|c", "Meter|b", "Meter|none")); v.Entities != 3 || v.Events != 1 || v.States != 1 {
		t.Errorf("entities that are named: %+v", v)
	}
	if v := data[statistics](t, run(t, c, "stats", "--json", "--since", "1h", "--type", "Meter")); v.Entities != 2 || v.Events != 13 || v.States != 0 {
		t.Errorf("events of the last hour: %+v", v)
	}
	if v := data[statistics](t, run(t, c, "stats", "--json", "--since", "1h", "--limit", "5")); v.Events != 5 || v.Complete || !v.More {
		t.Errorf("five events: %+v", v)
	}
}

func TestTop(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	metered(t, s, "busy", 5)
	metered(t, s, "b", 1)
	p := annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "added", Data: []byte(`{"n":1,"x":"` + strings.Repeat("x", 1000) + `"}`)}
	old := annals.NewEvent{Payload: p, Time: time.Now().Add(-2 * time.Hour)}
	if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: meter.ID("large"), Events: []annals.NewEvent{old, old}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args     string
		first    string
		events   int
		entities int
	}{
		{"--by bytes", "Meter|large", 2, 3},
		{"", "Meter|large", 2, 3},
		{"--by events", "Meter|busy", 5, 3},
		{"--by rate", "Meter|busy", 5, 2},
		{"--by rate --since 3h --type Meter", "Meter|busy", 5, 3},
		{"--by bytes --since 3h", "Meter|large", 2, 3},
		{"--limit 1", "Meter|large", 2, 3},
		{"--rate 1000000", "Meter|large", 2, 3},
		{"Meter|b Meter|b", "Meter|b", 1, 1},
	} {
		v := data[ranked](t, run(t, config(s), append([]string{"top", "--json"}, strings.Fields(c.args)...)...))
		if len(v.Top) == 0 || v.Top[0].ID != c.first || v.Top[0].Events != c.events || v.Entities != c.entities || !v.Complete {
			t.Errorf("top %s: %+v", c.args, v)
		}
		if timed := strings.Contains(c.args, "--since") || strings.Contains(c.args, "--by rate"); timed != (v.Top[0].PerSecond > 0) {
			t.Errorf("top %s: %+v", c.args, v)
		}
		if strings.Contains(c.args, "--limit") && len(v.Top) != 1 {
			t.Errorf("top %s shows %d", c.args, len(v.Top))
		}
	}
}

// Since 0 is since the first event: that is no time of which there is a rate.
func TestSinceTheFirstEvent(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	metered(t, s, "a", 3)
	for _, args := range []string{"stats --since 0", "top --since 0", "top --by rate --since 0"} {
		o := run(t, config(s), append(strings.Fields(args), "--json")...)
		if v := data[map[string]any](t, o); v["events"] != 3.0 || v["since"] != nil || v["seconds"] != nil || strings.Contains(o.text, "perSecond") {
			t.Errorf("%s: %+v", args, o)
		}
	}
}

// An interrupt shows what was counted so far.
func TestTopInterrupted(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	for i := range 20 {
		metered(t, s, fmt.Sprint(i), 1)
	}
	for _, command := range []string{"top", "stats"} {
		ctx, cancel := context.WithCancel(t.Context())
		broken := &cut{Store: s, after: 10, end: cancel}
		o := runWith(ctx, config(broken), "--store", "mem:", command, "--json")
		if v := data[ranked](t, o); o.status != 2 || v.Entities != 10 || v.Complete {
			t.Errorf("%s: %+v", command, o)
		}
	}
}

// An interrupt in the first entity, which can have most of the events, shows what was read of it.
func TestTopInterruptedWithin(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	metered(t, s, "a", 5)
	for _, command := range []string{"top", "stats"} {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		broken := &faulty.Store{Store: s, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
			if c.Op == "replay" {
				c.Each = func(any) error {
					if n++; n > 3 {
						cancel()
					}
					return ctx.Err()
				}
			}
			return run()
		}}
		o := runWith(ctx, config(broken), "--store", "mem:", command, "--json")
		if v := data[ranked](t, o); o.status != 2 || v.Events != 3 || v.Complete {
			t.Errorf("%s: %+v", command, o)
		}
	}
}

// cut is a store whose user interrupts the command after some replays.
type cut struct {
	annals.Store
	after int
	end   func()
}

func (c *cut) Journal() annals.Journal { return cutJournal{c.Store.Journal(), c} }

type cutJournal struct {
	annals.Journal
	c *cut
}

func (j cutJournal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	if j.c.after--; j.c.after < 0 {
		j.c.end()
	}
	return j.Journal.Replay(ctx, id, from, to)
}

// units is an Observer that adds up the write units of appends.
type units struct {
	mu    sync.Mutex
	sum   float64
	reads float64 // of all calls
	wrote float64 // by all calls
}

// read are the units of what fn reads, for each of n.
func (u *units) read(t *testing.T, n int, fn func() error) float64 {
	t.Helper()
	before := u.reads
	if err := fn(); err != nil {
		t.Fatal(err)
	}
	return 1000 * (u.reads - before) / float64(n)
}

func (u *units) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (u *units) End(_ context.Context, c annals.Call, r annals.Result) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.Op == "append" {
		u.sum += r.WriteUnits
	}
	u.reads += r.ReadUnits
	u.wrote += r.WriteUnits
}

// priced is what cost tells.
type priced struct {
	Entities, Events int
	Complete         bool
	Costs            []struct {
		Operation                    string
		Count                        int
		WriteUnits, ReadUnits, Price float64
	}
	Stored []struct {
		Table                   string
		Rows, Bytes, IndexBytes int
		Price                   float64
	}
	NotCounted []string
}

// The units of stats and cost are those that the service counted for the same events.
func TestWriteUnits(t *testing.T) {
	t.Parallel()
	client, err := dynamostore.NewClient(t.Context(), dynamostore.ClientOptions{Region: "us-east-1", Endpoint: dynamo.Endpoint(t)})
	if err != nil {
		t.Fatal(err)
	}
	own := "units" + rand.Text()
	for name, layout := range map[string]dynamostore.Layout{
		"commit": commit.Layout{Table: own, Index: "slices"},
		"esa":    esa.Layout{Shards: 8, WriteIDs: true, Format: esa.Plain(), Journal: esa.Journal{Table: own + "j"}, Snapshot: esa.Snapshot{Table: own + "s"}},
		"j5ik2o": j5ik2o.Layout{ShardCount: 1 << 40, Journal: j5ik2o.Journal{Table: own + "5"}, Snapshot: j5ik2o.Snapshot{Off: true}, State: j5ik2o.State{Off: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := &units{}
			s, err := dynamostore.Open(t.Context(), client, layout, dynamostore.Options{CreateTables: true, Observer: seen})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			events := 0
			args := []string{"stats", "--json"}
			for entity := range 4 {
				id := meter.ID(fmt.Sprint(entity))
				args = append(args, string(id))
				after := annals.SeqNr(0)
				for n := range 6 {
					c := annals.Commit{ID: id, After: after}
					for range 1 + n%3 {
						p := annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "added", Data: []byte(`{"n":1,"x":"` + strings.Repeat("x", 500*(entity+n)) + `"}`)}
						c.Events = append(c.Events, annals.NewEvent{Payload: p})
					}
					if after == 0 && s.Capabilities().Limits.FirstSnapshot {
						c.Snapshot = &annals.Snapshot{ID: id, SeqNr: 1, Payload: annals.Payload{SerializerID: 1}}
					}
					r, err := s.Journal().Append(t.Context(), c)
					if err != nil {
						t.Fatal(err)
					}
					after, events = r.SeqNr, events+len(c.Events)
				}
			}
			v := data[statistics](t, run(t, config(s), args...))
			want := 1000 * seen.sum / float64(events)
			// With an index the first append has also written the entity type, once.
			if v.WriteUnits == nil || v.WriteUnits.Events != events || math.Abs(v.WriteUnits.PerThousand-want) > 1000/float64(events)+0.001 || name != "commit" && math.Abs(v.WriteUnits.PerThousand-want) > 0.001 {
				t.Errorf("stats says %+v, the service counted %v for 1000 of %d events", v.WriteUnits, want, events)
			}
			p := data[priced](t, run(t, config(s), append([]string{"cost", "--write-price", "0.625", "--read-price", "0.125"}, args[1:]...)...))
			ids := args[2:]
			each := func(read func(id annals.PersistenceID) error) func() error {
				return func() error {
					for _, id := range ids {
						if err := read(annals.PersistenceID(id)); err != nil {
							return err
						}
					}
					return nil
				}
			}
			reads := map[string]float64{
				"replay": seen.read(t, events, each(func(id annals.PersistenceID) error {
					for _, err := range s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr) {
						if err != nil {
							return err
						}
					}
					return nil
				})),
				"recover": seen.read(t, len(ids), each(func(id annals.PersistenceID) error {
					_, err := ability.Recover(t.Context(), s, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
					return err
				})),
			}
			if s.Capabilities().EventQueries {
				reads["follow"] = seen.read(t, events, func() error {
					for _, err := range s.Query().Events(t.Context(), annals.Filter{Limit: 1000}) {
						if err != nil {
							return err
						}
					}
					return nil
				})
			}
			// What has no price is not free.
			unpriced := 1
			if s.Capabilities().Limits.FirstSnapshot {
				unpriced = 2
			}
			if o := run(t, config(s), append([]string{"cost", "--read-price", "0.125"}, ids...)...); strings.Count(o.text, "?") != unpriced || !regexp.MustCompile(`\?\s+events that are appended`).MatchString(o.text) {
				t.Errorf("%+v", o)
			}
			if p.Entities != len(ids) || p.Events != events || !p.Complete || len(p.Stored) == 0 || len(p.NotCounted) < 5 {
				t.Errorf("cost says %+v", p)
			}
			for _, c := range p.Costs {
				write := 0.0
				switch c.Operation {
				case "append":
					write = v.WriteUnits.PerThousand
				case "snapshot":
					continue // those that the layout demands with the first events
				}
				read := reads[c.Operation]
				if price := (write*0.625 + read*0.125) / 1e6; c.WriteUnits != write || math.Abs(c.ReadUnits-read) > 1e-9 || math.Abs(c.Price-price) > 1e-12 || read+write == 0 {
					t.Errorf("cost says %+v, want %v and %v units for %v", c, write, read, price)
				}
			}
			costsOfOthers(t, s, seen)
		})
	}
}

// costsOfOthers fails t unless cost says of snapshots, states and steps of projections what the service counts for others of the same sizes.
func costsOfOthers(t *testing.T, s annals.Store, seen *units) {
	t.Helper()
	const id, state = "Meter|snapshots", "Stock|pen"
	caps, payload := s.Capabilities(), annals.Payload{SerializerID: 1, Data: make([]byte, 2500)}
	writes := map[string]func(n annals.SeqNr) error{}
	if caps.Snapshots {
		writes["snapshot"] = func(n annals.SeqNr) error {
			c := annals.Commit{ID: id, After: n, Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1}}}}
			if n == 0 && caps.Limits.FirstSnapshot {
				c.Snapshot = &annals.Snapshot{ID: id, SeqNr: 1, Payload: payload}
			}
			_, err := s.Journal().Append(t.Context(), c)
			seen.wrote = 0
			return errors.Join(err, s.Snapshots().Save(t.Context(), annals.Snapshot{ID: id, SeqNr: 1 + n, Payload: payload}))
		}
	}
	if caps.States {
		writes["state"] = func(n annals.SeqNr) error {
			_, err := s.States().Put(t.Context(), annals.StateWrite{ID: state, After: n, Payload: payload})
			return err
		}
	}
	if caps.Offsets {
		writes["position"] = func(n annals.SeqNr) error {
			p := annals.Progress{Projection: "p", Slices: annals.SliceRanges(1)[0], Through: annals.Offset{Time: time.Unix(int64(1764303512+n), 0)}}
			return s.Offsets().Save(t.Context(), p)
		}
	}
	for n := range annals.SeqNr(2) { // the first state of a type writes the type, too
		for what, write := range writes {
			if err := write(n); err != nil {
				t.Fatal(what, err)
			}
		}
	}
	c := config(s)
	c.Projections = []string{"p"}
	costs := data[priced](t, run(t, c, "cost", "--json", id, state)).Costs
	if caps.IDQueries {
		all := data[priced](t, run(t, c, "cost", "--json")).Costs
		costs = append(costs, all[len(all)-1])
	}
	counts := map[string]int{}
	for _, c := range costs {
		counts[c.Operation] += c.Count
		switch write := writes[c.Operation]; {
		case c.Operation == "load":
			if got := seen.read(t, 1, func() error {
				_, _, err := s.States().Get(t.Context(), state)
				return err
			}); got != c.ReadUnits || got == 0 {
				t.Errorf("a read of the state takes %v units, cost says %+v", got, c)
			}
		case write != nil:
			if seen.wrote = 0; write(2) != nil || c.WriteUnits != 1000*seen.wrote || c.WriteUnits == 0 {
				t.Errorf("1000 take %v units, cost says %+v", 1000*seen.wrote, c)
			}
		}
	}
	for what := range writes {
		if counts[what] != 1 {
			t.Errorf("%s: %d are counted", what, counts[what])
		}
	}
	if caps.States != (counts["load"] == 1) {
		t.Errorf("%+v", counts)
	}
}
