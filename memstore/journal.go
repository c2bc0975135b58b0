package memstore

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
)

// stream is the journal of one entity. Events are deleted, commits never: a late retry still finds its own.
type stream struct {
	last    annals.SeqNr
	events  []annals.Event
	commits []commit
	deleted time.Time // when DeleteTo last removed events
}

type commit struct {
	after, last annals.SeqNr
	writeID     annals.WriteID
	time        time.Time // of its last event
}

// Append is annals.Journal.
func (v view) Append(ctx context.Context, c annals.Commit) (r annals.Receipt, err error) {
	err = v.write(ctx, func(d *data) error {
		st := d.streams.get(c.ID)
		if st.last != c.After {
			old, ok := st.find(c.After, c.WriteID)
			if !ok {
				return &annals.Error{After: c.After, Last: st.last, Kind: annals.ErrConflict}
			}
			r = annals.Receipt{SeqNr: old.last, Time: old.time, Repeated: true}
			return nil
		}
		now := d.now(c.ID)
		stored := d.append(c.ID, c.Events, c.WriteID, now)
		if c.Snapshot != nil {
			d.save(*c.Snapshot, now)
		}
		r = annals.Receipt{SeqNr: stored.last, Time: stored.time}
		return nil
	})
	return r, err
}

// find is the commit of a write that comes again.
func (st stream) find(after annals.SeqNr, w annals.WriteID) (commit, bool) {
	i, ok := slices.BinarySearchFunc(st.commits, after, func(c commit, n annals.SeqNr) int { return cmp.Compare(c.after, n) })
	if !ok || st.commits[i].writeID != w {
		return commit{}, false
	}
	return st.commits[i], true
}

// append stores events, with the time now where they have none of their own.
func (d *data) append(id annals.PersistenceID, events []annals.NewEvent, w annals.WriteID, now time.Time) commit {
	st := d.streams.get(id)
	c := commit{after: st.last, writeID: w}
	for _, e := range events {
		st.last++
		c.time = now
		if !e.Time.IsZero() {
			c.time = e.Time.UTC().Truncate(time.Microsecond)
		}
		st.events = append(st.events, annals.Event{ID: id, SeqNr: st.last, Time: c.time, Payload: e.Payload,
			Tags: slices.Clone(e.Tags), Metadata: e.Metadata, Adapter: e.Adapter, WriteID: w})
	}
	c.last = st.last
	st.commits = append(st.commits, c)
	d.streams.set(id, st)
	return c
}

// Replay is annals.Journal: events as of its beginning. What is written or deleted later does not show in them.
func (v view) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return fetched(ctx, v, func(d *data) []annals.Event {
		st := d.streams.get(id)
		end := upTo(st.events, to)
		return st.events[min(index(st.events, from), end):end]
	})
}

// LastSeqNr is annals.Journal.
func (v view) LastSeqNr(_ context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	d, unlock := v.read()
	defer unlock()
	return d.streams.get(id).last, nil
}

// DeleteTo is annals.Journal.
func (v view) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	return v.write(ctx, func(d *data) error {
		if st, ok := d.streams.find(id); ok {
			i := upTo(st.events, to)
			if i > 0 {
				st.deleted = d.now(id)
			}
			st.events = slices.Clone(st.events[i:])
			d.streams.set(id, st)
		}
		return nil
	})
}

// index is that of the first event whose number is n or more.
func index(events []annals.Event, n annals.SeqNr) int {
	i, _ := slices.BinarySearchFunc(events, n, func(e annals.Event, n annals.SeqNr) int { return cmp.Compare(e.SeqNr, n) })
	return i
}

// upTo is how many of events have numbers up to n, which may be the highest there can be.
func upTo(events []annals.Event, n annals.SeqNr) int {
	i := index(events, n)
	if i < len(events) && events[i].SeqNr == n {
		i++
	}
	return i
}

// fetched yields what read returns, which has the lock.
func fetched[T any](ctx context.Context, v view, read func(d *data) []T) iter.Seq2[T, error] {
	return driver.Pages(ctx, func(context.Context) ([]T, bool, error) {
		d, unlock := v.read()
		defer unlock()
		return read(d), false, nil
	})
}

// Recover is ability.Recoverer.
func (v view) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	return ability.Recover(ctx, struct{ annals.Store }{v}, id, snapshot, event)
}
