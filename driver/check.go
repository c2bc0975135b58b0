package driver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/valid"
)

// Auditor is an optional ability of a Driver, for Check.
type Auditor interface {
	// Audit returns what is wrong with the rows of id that no replay, recovery or state shows: rows in wrong places, indexes without them, and what
	// only another program on the same tables reads. It is called within Fetch.
	Audit(ctx context.Context, id annals.PersistenceID) ([]*ability.Damage, error)
}

// Check is ability.Checker.
func (s *store) Check(ctx context.Context, id annals.PersistenceID, see func(ability.Stored)) (found []*ability.Damage, err error) {
	k := s.start(ctx, annals.Call{Op: "check", ID: id}, &err)
	defer k.end(&err)
	fault := valid.ID("", id, s.caps.Limits)
	if fault == nil {
		_, fault = offered[ability.Checker](s, nil)
	}
	if err := k.streams(fault); err != nil {
		return nil, err
	}
	k.holes = new([]*ability.Damage)
	if see == nil {
		see = func(ability.Stored) {}
	}
	c := check{call: &k, id: id, see: see}
	for _, step := range []func() error{c.snapshots, c.events, c.numbers, c.recover, c.audit} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	for _, d := range *k.holes {
		c.add(d)
	}
	slices.SortStableFunc(c.found, (*ability.Damage).Compare)
	return slices.CompactFunc(c.found, func(d, e *ability.Damage) bool { return d.Compare(e) == 0 }), nil
}

// check is one Check. A number only grows, so what must not be above it is read before it.
type check struct {
	*call
	id    annals.PersistenceID
	see   func(ability.Stored)
	found []*ability.Damage

	saved []annals.SeqNr // the numbers of the snapshots, the greatest first
	last  annals.SeqNr   // of the last event that was read
}

// again is how often a read begins again because events were deleted meanwhile.
const again = 100

// mostOrphans is how many snapshots above the last number are noted on their own. The last is of all further ones.
const mostOrphans = 100

// add notes damage. There can be as much as an entity has numbers, so Check removes what it has twice at its end.
func (c *check) add(d *ability.Damage) {
	own := *d
	if own.ID == "" {
		own.ID = c.id
	}
	c.found = append(c.found, &own)
}

// damage notes err if it says that something is damaged, and returns it; nil and err otherwise. An id whose rows are at other keys is ErrInvalid, and a
// row of a later version ErrUnsupported.
func (c *check) damage(code ability.Code, err error) (*ability.Damage, error) {
	if err == nil {
		return nil, nil
	}
	err = c.s.named(c.Call, err)
	d := (*ability.Damage)(nil)
	switch {
	case errors.As(err, &d):
		if d.Code == "" {
			own := *d
			own.Code, d = code, &own
		}
	case errors.Is(err, annals.ErrCorrupt), errors.Is(err, annals.ErrUnsupported):
		d = &ability.Damage{Code: code, Err: err}
	case errors.Is(err, annals.ErrInvalid):
		d = &ability.Damage{Code: ability.Key, Err: err}
	default:
		return nil, err
	}
	c.add(d)
	return d, nil
}

// snapshots reads the snapshots, the newest first.
func (c *check) snapshots() error {
	most := annals.MaxSeqNr
	for most > 0 && c.s.caps.Snapshots {
		var snap annals.Snapshot
		var ok bool
		err := Fetch(c.in, func(ctx context.Context) (err error) {
			snap, ok, err = c.s.driver.Snapshots().Latest(ctx, c.id, annals.SnapshotCriteria{MaxSeqNr: most})
			if err == nil && ok && snap.SeqNr > most {
				err = &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("the newest snapshot up to number %d has number %d", most, snap.SeqNr)}
			}
			return err
		})
		if err != nil {
			_, err = c.damage(ability.Snapshot, err)
			return err
		}
		if !ok {
			break
		}
		c.transferred(snapshotSize(snap))
		c.caller(func() { c.see(ability.Stored{Kind: ability.StoredSnapshot, SeqNr: snap.SeqNr, Payload: snap.Payload}) })
		c.saved, most = append(c.saved, snap.SeqNr), snap.SeqNr-1
		if !c.s.caps.ManySnapshots {
			break
		}
	}
	return nil
}

// events reads all events that can be read: also those behind numbers that are lost.
func (c *check) events() error {
	from := annals.SeqNr(1)
	for try := 0; c.s.caps.Events; try++ {
		err := c.replay(from)
		if errors.Is(err, annals.ErrTruncated) && try < again {
			from, *c.holes = 1, nil
			continue
		}
		d, err := c.damage(ability.Unreadable, err)
		if err != nil || d == nil || d.Code == ability.Doubled || d.To < from || d.To == annals.MaxSeqNr || try == again {
			return err
		}
		from = d.To + 1
	}
	return nil
}

func (c *check) replay(from annals.SeqNr) error {
	c.last = from - 1
	for e, err := range c.s.driver.Journal().Replay(c.in, c.id, from, annals.MaxSeqNr) {
		if err != nil {
			return err
		}
		c.transferred(eventSize(e))
		c.caller(func() { c.see(ability.Stored{Kind: ability.StoredEvent, SeqNr: e.SeqNr, Payload: e.Payload}) })
		c.last = e.SeqNr
		if err := c.goesOn(); err != nil {
			return err
		}
	}
	return nil
}

// numbers compares the last number of the journal with the events, the newest snapshot and the state.
func (c *check) numbers() (err error) {
	var last annals.SeqNr
	var state annals.State
	there := false
	if c.s.caps.Events {
		err = Fetch(c.in, func(ctx context.Context) (err error) {
			last, err = c.s.driver.Journal().LastSeqNr(ctx, c.id)
			return err
		})
		if d, err := c.damage(ability.Head, err); err != nil {
			return err
		} else if d == nil {
			if last < c.last && len(c.found) == 0 {
				c.add(&ability.Damage{Code: ability.Head, From: last, To: c.last, Err: errors.New("the last number of the journal is lower than that of its last event")})
			}
			for i, n := range c.saved {
				switch {
				case n > last && i < mostOrphans:
					c.add(&ability.Damage{Code: ability.Orphan, From: n, To: n, Err: errors.New("a snapshot has a higher number than the journal")})
				case n > last:
					c.found[len(c.found)-1].From = n
				}
			}
		}
	}
	if !c.s.caps.States {
		return nil
	}
	err = Fetch(c.in, func(ctx context.Context) (err error) {
		state, there, err = c.s.driver.States().Get(ctx, c.id)
		return err
	})
	if d, err := c.damage(ability.State, err); d != nil || err != nil {
		return err
	}
	if there {
		c.transferred(stateSize(state))
		c.caller(func() {
			c.see(ability.Stored{Kind: ability.StoredState, SeqNr: state.Revision, Payload: state.Payload})
		})
	}
	if c.s.caps.StateEvents && 0 < state.Revision && state.Revision < last {
		c.add(&ability.Damage{Code: ability.State, From: state.Revision, To: last, Err: errors.New("the state is older than the events that were stored with it")})
	}
	return nil
}

// recover recovers the entity. What replay and snapshots have shown is not looked for again.
func (c *check) recover() (err error) {
	r, ok := c.s.driver.(ability.Recoverer)
	if !ok || len(c.found) > 0 || !c.s.caps.Events {
		return nil
	}
	known := c.holes
	defer func() { c.holes = known }()
	for range again {
		c.holes = new([]*ability.Damage) // the replay has found them
		_, err = r.Recover(c.in, c.id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
		if !errors.Is(err, annals.ErrTruncated) {
			break
		}
	}
	_, err = c.damage(ability.Unreadable, err)
	return err
}

// audit asks the Driver.
func (c *check) audit() error {
	a, ok := c.s.driver.(Auditor)
	if !ok {
		return nil
	}
	return Fetch(c.in, func(ctx context.Context) error {
		all, err := a.Audit(ctx, c.id)
		for _, d := range all {
			c.add(d)
		}
		return err
	})
}

// Scan is ability.Scanner. The ids of a Driver that has none are those of its Query.
func (s *store) Scan(ctx context.Context, entityType, after string) iter.Seq2[ability.Scanned, error] {
	_, fault := offered[ability.Scanner](s, valid.Filter("", annals.Filter{Type: entityType}))
	size := func(ability.Scanned) (events, bytes int) { return 0, 0 }
	return each(ctx, s, annals.Call{Op: "scan"}, fault, size, func(ctx context.Context) iter.Seq2[ability.Scanned, error] {
		if d, ok := s.driver.(ability.Scanner); ok {
			return d.Scan(ctx, entityType, after)
		}
		return ScanIDs(s.driver.Query().IDs(ctx, entityType, annals.PersistenceID(after)))
	})
}

// ScanIDs makes the steps of a Scan of ids that a store yields in one order: each goes on behind its id.
func ScanIDs(ids iter.Seq2[annals.PersistenceID, error]) iter.Seq2[ability.Scanned, error] {
	return func(yield func(ability.Scanned, error) bool) {
		for id, err := range ids {
			if !yield(ability.Scanned{ID: id, After: string(id)}, err) {
				return
			}
		}
	}
}
