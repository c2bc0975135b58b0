package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// costView is what cost tells.
type costView struct {
	Entities int         `json:"entities,omitempty"` // that were looked at
	Events   int         `json:"events,omitempty"`   // of these
	Complete bool        `json:"complete,omitempty"` // all were looked at
	Costs    []operation `json:"costs"`              // empty where the store counts no units
	Stored   *storedView `json:"stored,omitempty"`
	priced   bool
}

// operation is what an operation costs 1000 times.
type operation struct {
	Operation  string  `json:"operation"` // "append", "replay" or "follow" of an event, or "recover" of an entity
	Count      int     `json:"count"`     // of these, from which it was computed
	WriteUnits float64 `json:"writeUnits"`
	ReadUnits  float64 `json:"readUnits"`
	Price      float64 `json:"price,omitempty"` // where prices are given
}

// storedView is what the table with events takes.
type storedView struct {
	Rows       int64   `json:"rows"` // 0: they were not counted yet
	Bytes      int64   `json:"bytes"`
	IndexBytes int64   `json:"indexBytes"`
	Fsyncs     int     `json:"fsyncs,omitempty"` // of an append that is alone
	Price      float64 `json:"price,omitempty"`  // of a month
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
	if s := v.Stored; s != nil {
		all := s.Bytes + s.IndexBytes
		fmt.Fprintf(w, "stored: %s, of which %s in indexes", count(all, "byte"), percent(shareOf(s.IndexBytes, all)))
		if s.Rows > 0 {
			fmt.Fprintf(w, "; %s of %d bytes", count(s.Rows, "row"), all/s.Rows)
		}
		if s.Price > 0 {
			fmt.Fprintf(w, "; %s a month", rounded(s.Price))
		}
		fmt.Fprintln(w)
		if s.Fsyncs > 0 {
			fmt.Fprintf(w, "an append: %s, shared with those that wait at the same time\n", count(s.Fsyncs, "fsync"))
		}
	}
}

// whats are the operations in words.
var whats = map[string]string{"append": "events that are appended", "replay": "events that are replayed", "recover": "recoveries of an entity", "follow": "events that a projection reads"}

// prices are those of the flags; 0: it is not known.
type prices struct{ write, read, storage float64 }

// mostPrice is the highest price: JSON has no infinite numbers.
const mostPrice = 1e12

func (o *options) costCommand() *cobra.Command {
	c := &cobra.Command{Use: "cost [ID…]", Short: "Tell what events cost, in units and bytes",
		Long: "Tell what the table with events takes, and in DynamoDB how many write and read units 1000 events take, by operation: it reads entities, as a program does, and\n" +
			"computes what appending their events takes. With the prices of the service, which are in no currency, it multiplies them. The service counts what is stored\n" +
			"every six hours. Durable states, snapshots and the positions of projections are left out."}
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
		if _, err := r.begins(k.args); err != nil {
			return err
		}
		s, err := k.store()
		if err != nil {
			return err
		}
		n := costing{call: k, prices: p, view: &costView{Costs: []operation{}, priced: p.write+p.read > 0}}
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
	view *costView
}

// stored asks for the size of the table.
func (n *costing) stored(s annals.Store) error {
	sizer, err := ability.Of[ability.EventSizer](s)
	if err != nil {
		return nil //nolint:nilerr // another store
	}
	size, err := sizer.EventsSize(n.ctx)
	if err == nil {
		n.view.Stored = &storedView{size.Items, size.Bytes, size.IndexBytes, size.Fsyncs, float64(size.Bytes+size.IndexBytes) / (1 << 30) * n.storage}
	}
	return err
}

// costs adds up units: those that the service counts for reads, and those that the store computes for appends.
func (n *costing) costs(s annals.Store, r *reading, limit int) error {
	counter, noCounter := ability.Of[ability.UnitCounter](s)
	observable, notObservable := ability.Of[ability.Observable](s)
	if noCounter != nil || notObservable != nil || !s.Capabilities().Events {
		return nil
	}
	var replays, recovers, follows bill
	recoveries := 0
	replayed, recovered := observable.Observed(&replays), observable.Observed(&recovers)
	units := sample{counter: counter}
	err := n.each(s, r, limit, func(id annals.PersistenceID) error {
		events, before := n.view.Events, replays
		for e, err := range replayed.Journal().Replay(n.ctx, id, 1, annals.MaxSeqNr) {
			if err == nil {
				n.view.Events++
				err = units.add(n.ctx, e)
			}
			if err != nil {
				return err
			}
		}
		if n.view.Events == events {
			replays = before // it has a durable state, or nothing
			return nil
		}
		recoveries++
		_, err := ability.Recover(n.ctx, recovered, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
		return errors.Join(err, units.end(n.ctx))
	})
	if err == nil && s.Capabilities().EventQueries {
		for _, queryErr := range observable.Observed(&follows).Query().Events(n.ctx, annals.Filter{Type: r.kind, Limit: mostFollowed}) {
			err = errors.Join(err, queryErr)
		}
	}
	n.add("append", units.looked, units.sum/max(units.counted, 1), 0)
	n.add("replay", n.view.Events, 0, replays.units/float64(max(n.view.Events, 1)))
	n.add("recover", recoveries, 0, recovers.units/float64(max(recoveries, 1)))
	n.add("follow", follows.events, 0, follows.units/float64(max(follows.events, 1)))
	return err
}

// mostFollowed is how many events are read as a projection reads them.
const mostFollowed = 1000

// each calls look for the entities to look at.
func (n *costing) each(s annals.Store, r *reading, limit int, look func(id annals.PersistenceID) error) error {
	for id, err := range r.ids(n.call, s) {
		if err != nil {
			return err
		}
		if limit > 0 && n.view.Entities == limit {
			return nil
		}
		// What cannot be read is left out: verify tells of it.
		if err := look(id); err != nil && !errors.Is(err, annals.ErrCorrupt) && !errors.Is(err, annals.ErrTruncated) {
			return err
		}
		n.view.Entities++
		n.progress("%s, %s", entities(n.view.Entities, false), count(n.view.Events, "event"))
	}
	n.view.Complete = true
	return nil
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
	events int
}

// AlwaysReturns is a promise of an annals.Observer.
func (*bill) AlwaysReturns() {}

// Start is annals.Observer.
func (*bill) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

// End is annals.Observer.
func (b *bill) End(_ context.Context, _ annals.Call, r annals.Result) {
	b.units, b.events = b.units+r.ReadUnits, b.events+r.Events
}
