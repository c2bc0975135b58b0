package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// costView is what cost tells.
type costView struct {
	Entities   int          `json:"entities,omitempty"` // that were looked at
	Events     int          `json:"events,omitempty"`   // of these
	Complete   bool         `json:"complete,omitempty"` // all were looked at
	Costs      []operation  `json:"costs"`              // empty where the store counts no units
	Stored     []storedView `json:"stored,omitempty"`   // by tables
	Fsyncs     int          `json:"fsyncs,omitempty"`   // of an append that is alone
	NotCounted []string     `json:"notCounted"`
	priced     bool
}

// notCounted is what cost leaves out, with units and without them.
var (
	notCounted = []string{"deletes", "queries of ids, tags and states", "leases, records and parked entities of projections", "timers", "items of change handlers", "failed and repeated requests", "transactions of several entities"}
	notStored  = []string{"the program's own tables", "logs", "backups"}
)

// operation is what an operation costs 1000 times.
type operation struct {
	Operation  string  `json:"operation"` // a key of whats
	Count      int     `json:"count"`     // of these, from which it was computed
	WriteUnits float64 `json:"writeUnits"`
	ReadUnits  float64 `json:"readUnits"`
	Price      float64 `json:"price,omitempty"` // where prices are given
}

// storedView is what a table takes.
type storedView struct {
	Table      string  `json:"table"`
	Rows       int64   `json:"rows"` // 0: they were not counted yet
	Bytes      int64   `json:"bytes"`
	IndexBytes int64   `json:"indexBytes"`
	Price      float64 `json:"price,omitempty"` // of a month
}

func (v *costView) print(w io.Writer) {
	if len(v.Costs) > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprint(t, "write units\tread units\t")
		if v.priced {
			fmt.Fprint(t, "price\t")
		}
		fmt.Fprint(t, "  for 1000\n")
		for _, c := range v.Costs {
			fmt.Fprintf(t, "%s\t%s\t", rounded(c.WriteUnits), rounded(c.ReadUnits))
			switch {
			case v.priced && c.Price > 0:
				fmt.Fprintf(t, "%s\t", rounded(c.Price))
			case v.priced:
				fmt.Fprint(t, "?\t")
			}
			fmt.Fprintf(t, "  %s, as %d take\n", whats[c.Operation], c.Count)
		}
		_ = t.Flush()
		fmt.Fprintf(w, "looked at: %s, %s\n", entities(v.Entities, !v.Complete), count(v.Events, "event"))
	}
	for _, s := range v.Stored {
		all := s.Bytes + s.IndexBytes
		fmt.Fprintf(w, "stored in %s: %s, of which %s in indexes", name(s.Table), count(all, "byte"), percent(shareOf(s.IndexBytes, all)))
		if s.Rows > 0 {
			fmt.Fprintf(w, "; %s of %d bytes", count(s.Rows, "row"), all/s.Rows)
		}
		if s.Price > 0 {
			fmt.Fprintf(w, "; %s a month", rounded(s.Price))
		}
		fmt.Fprintln(w)
	}
	if v.Fsyncs > 0 {
		fmt.Fprintf(w, "an append: %s, shared with those that wait at the same time\n", count(v.Fsyncs, "fsync"))
	}
	fmt.Fprintf(w, "not counted: %s\n", strings.Join(v.NotCounted, ", "))
}

// whats are the operations in words.
var whats = map[string]string{"append": "events that are appended", "replay": "events that are replayed", "recover": "recoveries of an entity", "follow": "events that a projection reads",
	"snapshot": "snapshots that are saved", "state": "states that are written", "load": "states that are read", "position": "saved steps of projections"}

// prices are those of the flags; 0: it is not known.
type prices struct{ write, read, storage float64 }

// mostPrice is the highest price: JSON has no infinite numbers.
const mostPrice = 1e12

func (o *options) costCommand() *cobra.Command {
	c := &cobra.Command{Use: "cost [ID…]", Short: "Tell what events cost, in units and bytes",
		Long: "Tell what the tables take, and in DynamoDB how many write and read units 1000 events take, by operation, and 1000 snapshots, states and steps of projections:\n" +
			"it reads entities, as a program does, and computes what writing them takes. With the prices of the service, which are in no currency, it multiplies them.\n" +
			"The service counts what is stored every six hours. The output says what is not counted."}
	var p prices
	r := &reading{}
	f := c.Flags()
	limit := f.Int("limit", 1000, "look at so many entities at most; 0 is no limit")
	r.limits(c, o)
	f.Float64Var(&p.write, "write-price", 0, "of a million write units")
	f.Float64Var(&p.read, "read-price", 0, "of a million read units")
	f.Float64Var(&p.storage, "storage-price", 0, "of a GB in a month")
	return o.command(c, func(k *call) error {
		if *limit < 0 || !(min(p.write, p.read, p.storage) >= 0 && max(p.write, p.read, p.storage) <= mostPrice) {
			return usage("--limit is 0 or more, and prices are 0 to %.0e", mostPrice)
		}
		r.part = *limit > 0
		s, err := r.open(k)
		if err != nil {
			return err
		}
		n := costing{call: k, prices: p, view: &costView{Costs: []operation{}, priced: p.write+p.read > 0, NotCounted: notStored}}
		err = errors.Join(n.stored(s), n.costs(s, r, *limit))
		if len(n.view.Costs) > 0 || n.view.Stored != nil {
			k.view = n.view
		} else if err == nil {
			err = unsupported("", "the store does not know what its events cost")
		}
		return err
	})
}

// costing is one run of cost.
type costing struct {
	*call
	prices
	counter                  ability.UnitCounter
	view                     *costView
	snapshots, states, steps bill // that would be written
}

// stored asks for the sizes of the tables.
func (n *costing) stored(s annals.Store) error {
	sizer, err := ability.Of[ability.Sizer](s)
	if err != nil {
		return nil //nolint:nilerr // another store
	}
	sizes, err := sizer.Sizes(n.ctx)
	for _, size := range sizes {
		n.view.Stored = append(n.view.Stored, storedView{size.Table, size.Items, size.Bytes, size.IndexBytes, float64(size.Bytes+size.IndexBytes) / (1 << 30) * n.storage})
		n.view.Fsyncs += size.Fsyncs
	}
	return err
}

// costs adds up units: those that the service counts for reads, and those that the store computes for writes.
func (n *costing) costs(s annals.Store, r *reading, limit int) error {
	counter, noCounter := ability.Of[ability.UnitCounter](s)
	observable, notObservable := ability.Of[ability.Observable](s)
	if noCounter != nil || notObservable != nil {
		return nil
	}
	n.counter, n.view.NotCounted = counter, slices.Concat(notCounted, notStored)
	var replays, recovers, loads, follows bill
	recoveries, caps := 0, s.Capabilities()
	replayed, recovered, loaded := observable.Observed(&replays), observable.Observed(&recovers), observable.Observed(&loads)
	units := sample{counter: counter}
	look := func(id annals.PersistenceID) error {
		events, before := n.view.Events, replays
		if caps.Events {
			for e, err := range replayed.Journal().Replay(n.ctx, id, 1, annals.MaxSeqNr) {
				if err == nil {
					n.view.Events++
					err = units.add(n.ctx, e)
				}
				if err != nil {
					return err
				}
			}
		}
		if n.view.Events > events {
			recoveries++
			_, err := ability.Recover(n.ctx, recovered, id, func(snap annals.Snapshot) error {
				return n.would(&n.snapshots, func(s annals.Store) error { return s.Snapshots().Save(n.ctx, snap) })
			}, func(annals.Event) error { return nil })
			return errors.Join(err, units.end(n.ctx))
		}
		replays = before // it has a durable state, or nothing
		if !caps.States {
			return nil
		}
		unread := loads
		st, ok, err := loaded.States().Get(n.ctx, id)
		if loads.events = unread.events + 1; err != nil || !ok {
			loads = unread
			return err
		}
		return n.would(&n.states, func(s annals.Store) error {
			_, err := s.States().Put(n.ctx, annals.StateWrite{ID: id, After: st.Revision - 1, Payload: st.Payload, Tags: st.Tags, Metadata: st.Metadata})
			return err
		})
	}
	var err error
	n.view.Complete, err = each(r.ids(n.call, s), limit, func(id annals.PersistenceID) error {
		// What cannot be read is left out: verify tells of it.
		if err := look(id); err != nil && !errors.Is(err, annals.ErrCorrupt) && !errors.Is(err, annals.ErrTruncated) {
			return err
		}
		n.view.Entities++
		n.progress("%s, %s", entities(n.view.Entities, false), count(n.view.Events, "event"))
		return nil
	})
	if err == nil && caps.EventQueries {
		for _, queryErr := range observable.Observed(&follows).Query().Events(n.ctx, annals.Filter{Type: r.kind, Limit: mostFollowed}) {
			err = errors.Join(err, queryErr)
		}
	}
	if err == nil && len(n.args) == 0 {
		err = n.positions(s)
	}
	n.add("append", units.looked, units.sum/max(units.counted, 1), 0)
	n.add("replay", n.view.Events, 0, replays.each(n.view.Events))
	n.add("recover", recoveries, 0, recovers.each(recoveries))
	n.add("follow", follows.events, 0, follows.each(follows.events))
	n.add("snapshot", n.snapshots.events, n.snapshots.each(n.snapshots.events), 0)
	n.add("state", n.states.events, n.states.each(n.states.events), 0)
	n.add("load", loads.events, 0, loads.each(loads.events))
	n.add("position", n.steps.events, n.steps.each(n.steps.events), 0)
	return err
}

// mostFollowed is how many events are read as a projection reads them.
const mostFollowed = 1000

// would adds to b what one write takes, unless the store would not write it.
func (n *costing) would(b *bill, write func(s annals.Store) error) error {
	units, err := n.counter.WriteUnits(n.ctx, write)
	if foreign(err) {
		return nil
	}
	b.units, b.events = b.units+units, b.events+1
	return err
}

// positions adds what the next steps of all projections take.
func (n *costing) positions(s annals.Store) error {
	if !s.Capabilities().Offsets {
		return nil
	}
	known, err := n.names(s)
	if errors.Is(err, annals.ErrUnsupported) {
		return nil
	}
	for i := 0; i < len(known.Names) && err == nil; i++ {
		var all []annals.Position
		all, err = s.Offsets().Load(n.ctx, known.Names[i], annals.SliceRange{})
		for _, p := range all {
			if p.Through.Time.IsZero() {
				continue
			}
			p.Through.Time = p.Through.Time.Add(time.Microsecond)
			err = errors.Join(err, n.would(&n.steps, func(s annals.Store) error {
				return s.Offsets().Save(n.ctx, annals.Progress{Projection: known.Names[i], Slices: p.Slices, Epoch: p.Epoch, Through: p.Through})
			}))
		}
	}
	return err
}

// add adds an operation, with the units of one.
func (n *costing) add(what string, by int, write, read float64) {
	if by > 0 {
		n.view.Costs = append(n.view.Costs, operation{what, by, 1000 * write, 1000 * read, (write*n.write + read*n.read) / 1000})
	}
}

// bill is an Observer that adds up what is read. It is used by one goroutine at a time.
type bill struct {
	units  float64
	events int // or states, snapshots, steps
}

// each are the units of one of n.
func (b *bill) each(n int) float64 { return b.units / float64(max(n, 1)) }

// AlwaysReturns is a promise of an annals.Observer.
func (*bill) AlwaysReturns() {}

// Start is annals.Observer.
func (*bill) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

// End is annals.Observer.
func (b *bill) End(_ context.Context, _ annals.Call, r annals.Result) {
	b.units, b.events = b.units+r.ReadUnits, b.events+r.Events
}
