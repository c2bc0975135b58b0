package plantest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Guards sends transactions that check what was read, and looks, at the moment when one is executed, whether its guards hold exactly while the
// numbers are those that were read. A new offer of the layout reads the numbers of that moment.
type Guards struct {
	Ctx    context.Context
	Layout plan.Layout
	Fault  error // what a guard did wrong

	sent []sent
}

// sent is a transaction that stores a marker when its guards hold.
type sent struct {
	marker plan.Item
	of     []guarded
}

// guarded is what was read, and its guards.
type guarded struct {
	driver.Seen
	guards []plan.Guard
}

// NewGuards returns Guards for transactions on x.
func NewGuards(ctx context.Context, layout plan.Layout, x *Executor) *Guards {
	g := &Guards{Ctx: ctx, Layout: layout}
	x.Tried = func(ops []plan.Op, failed []plan.Item) { g.tried(x, ops, failed) }
	return g
}

// Read reads numbers; those in seen are only kinds and ids.
func (g *Guards) Read(x plan.Executor, offer plan.Offer, seen ...driver.Seen) (read []driver.Seen, err error) {
	for _, r := range seen {
		if r.State {
			var st annals.State
			st, _, err = offer.States.Get(g.Ctx, x, r.ID)
			r.Number = st.Revision
		} else {
			r.Number, err = offer.On(x).Journal.LastSeqNr(g.Ctx, r.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("number of %s: %w", r.ID, err)
		}
		read = append(read, r)
	}
	return read, nil
}

// Send sends a transaction that is guarded by what was read, and that stores a marker.
func (g *Guards) Send(x plan.Executor, offer plan.Offer, read []driver.Seen) error {
	if len(read) == 0 {
		return nil
	}
	var of []guarded
	w := plan.Write{}
	for _, r := range read {
		var guards []plan.Guard
		var err error
		if r.State {
			guards = make([]plan.Guard, 1)
			guards[0], err = offer.States.Guard(r.ID, r.Number)
		} else {
			guards, err = offer.On(x).Guard(r.ID, r.Number)
		}
		if err != nil {
			return err
		}
		for _, guard := range guards {
			w.Ops = append(w.Ops, guard.Op)
		}
		of = append(of, guarded{r, guards})
	}
	table, n := offer.Tables[0], strconv.Itoa(len(g.sent)+1)
	marker := plan.Item{table.Hash.Name: table.Hash.Value("marker" + n)}
	if table.Range.Name != "" {
		marker[table.Range.Name] = table.Range.Value(n)
	}
	store := plan.Create(table.Name, marker, table.Hash.Name)
	store.Ours = func(plan.Item) bool { return true }
	w.Ops = append(w.Ops, store)
	g.sent = append(g.sent, sent{marker, of})
	_, err := x.Write(g.Ctx, w)
	if g.Fault != nil || errors.Is(err, annals.ErrUnknown) || errors.Is(err, annals.ErrUnavailable) {
		return g.Fault
	}
	_, stored, failed := x.Get(g.Ctx, plan.Get{Table: table.Name, Key: marker})
	switch {
	case failed != nil:
		return failed
	case err != nil && !errors.Is(err, annals.ErrConflict), stored != (err == nil):
		return fmt.Errorf("a guarded transaction is stored: %t, with the error %w", stored, err)
	}
	return nil
}

// tried is Executor.Tried.
func (g *Guards) tried(x *Executor, ops []plan.Op, failed []plan.Item) {
	last := len(ops) - 1
	for _, one := range g.sent {
		if !plan.SameKey(one.marker, ops[last].Put) {
			continue
		}
		for _, of := range one.of {
			held := !slices.ContainsFunc(failed[:len(of.guards)], func(it plan.Item) bool { return it != nil })
			failed = failed[len(of.guards):]
			g.compare(x, of, held)
		}
	}
}

// compare compares what guards say with the number of this moment.
func (g *Guards) compare(x *Executor, one guarded, held bool) {
	offer, err := g.Layout.Plan()
	if err == nil {
		var now []driver.Seen
		if now, err = g.Read(x.Clone(), offer, one.Seen); err == nil && held != (now[0] == one.Seen) {
			err = fmt.Errorf("the guard of %s, state %t, number %d holds: %t, and the number is %d", one.ID, one.State, one.Number, held, now[0].Number)
		}
	}
	g.Fault = errors.Join(g.Fault, err)
}

// GuardsInEveryOrder runs a transaction that is guarded by a number beside writes of the same entity, in every order, and returns the first
// error. offer makes the offer of each run; it may have guards that are wrong.
func GuardsInEveryOrder(t testing.TB, layout plan.Layout, offer func() plan.Offer) error {
	t.Helper()
	for _, before := range []int{0, 3} {
		for name := range newBeside(t, offer()).writes() {
			err := inEveryOrder(t, Orders{}, func(*Run) Scenario {
				b := newBeside(t, offer())
				tables := New(b.Tables)
				if err := b.append(tables, before); err != nil {
					t.Fatal(err)
				}
				g := NewGuards(t.Context(), layout, tables)
				guarded := func(x plan.Executor) error {
					read, err := g.Read(x, b.Offer, driver.Seen{ID: b.id, State: name == "states"})
					return errors.Join(err, g.Send(x, b.Offer, read))
				}
				return Scenario{Tables: tables, Processes: []Process{guarded, InTurn(b.writes()[name]...)}}
			})
			if err != nil {
				return fmt.Errorf("%s, after %d events: %w", name, before, err)
			}
		}
	}
	return nil
}

// beside is an entity that is written to beside a guarded transaction.
type beside struct {
	plan.Offer
	ctx  context.Context
	id   annals.PersistenceID
	last annals.SeqNr
	by   byte // numbers the writes
}

func newBeside(t testing.TB, offer plan.Offer) *beside {
	return &beside{Offer: offer, ctx: t.Context(), id: "Thing|1"}
}

// writes returns what is written, in steps.
func (b *beside) writes() map[string][]Process {
	appends := func(size int) Process { return func(x plan.Executor) error { return b.append(x, size) } }
	deletes := func(x plan.Executor) error { return b.On(x).Journal.DeleteTo(b.ctx, b.id, annals.MaxSeqNr) }
	all := map[string][]Process{"appends and a delete": {appends(1), appends(2), deletes}, "a delete": {deletes, deletes}}
	c := b.On(New(b.Tables))
	if c.Skipper != nil {
		all["a skip"] = []Process{func(x plan.Executor) error {
			b.last += 3
			return b.On(x).SkipTo(b.ctx, b.id, b.last-3, b.last)
		}, appends(1)}
	}
	if b.Capabilities.Snapshots {
		all["snapshots"] = []Process{func(x plan.Executor) error {
			if b.last == 0 {
				return nil
			}
			return b.On(x).Snapshots.Save(b.ctx, annals.Snapshot{ID: b.id, SeqNr: b.last, Payload: object(1).Payload})
		}, deletes, func(x plan.Executor) error {
			return b.On(x).Snapshots.Delete(b.ctx, b.id, annals.SnapshotCriteria{})
		}}
	}
	if b.States != nil {
		put := func(after annals.SeqNr, deleted bool) Process {
			return func(x plan.Executor) error {
				w := plan.StateWrite{StateWrite: annals.StateWrite{ID: b.id, After: after, WriteID: WriteID(byte(after)), FirstTry: true}, Time: x.Now(), Deleted: deleted}
				if !deleted {
					w.Payload = object(1).Payload
				}
				_, err := b.States.Write(b.ctx, x, w)
				return err
			}
		}
		all["states"] = []Process{put(0, false), put(1, b.Capabilities.DeletesStates), put(2, false)}
	}
	return all
}

// append appends a commit of so many events, with a snapshot where the first one must have one.
func (b *beside) append(x plan.Executor, size int) error {
	if size == 0 {
		return nil
	}
	b.by++
	c := annals.Commit{ID: b.id, After: b.last, WriteID: WriteID(b.by), Events: slices.Repeat([]annals.NewEvent{object(b.by)}, size)}
	if b.last += annals.SeqNr(size); c.After == 0 && b.Capabilities.Limits.FirstSnapshot {
		c.Snapshot = &annals.Snapshot{ID: b.id, SeqNr: b.last, Payload: object(b.by).Payload}
	}
	_, err := b.On(x).Journal.Append(b.ctx, c)
	return err
}
