package memstore

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/annals-go/annals"
)

// stream is the journal of one entity. Events are deleted, commits never: a late retry still finds its own.
type stream struct {
	last    annals.SeqNr
	events  []annals.Event
	commits []commit
	deleted time.Time // when DeleteTo last took events
}

type commit struct {
	after, last annals.SeqNr
	writeID     annals.WriteID
	time        time.Time
}

func (v view) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	if err := c.Validate(annals.Limits{}); err != nil {
		return annals.Receipt{}, err
	}
	d, unlock, err := v.beginWrite(ctx, "append", c.ID)
	if err != nil {
		return annals.Receipt{}, err
	}
	defer unlock()
	st := d.streams[c.ID]
	if st.last != c.After {
		if old, ok := st.find(c.After, c.WriteID); ok {
			return annals.Receipt{SeqNr: old.last, Time: old.time, Repeated: true}, nil
		}
		return annals.Receipt{}, &annals.Error{Op: "append", ID: c.ID, After: c.After, Last: st.last, Kind: annals.ErrConflict}
	}
	now := d.now()
	d.append(c.ID, c.Events, c.WriteID, now)
	if c.Snapshot != nil {
		d.save(*c.Snapshot, now)
	}
	return annals.Receipt{SeqNr: d.streams[c.ID].last, Time: now}, nil
}

// find is the commit of a write that comes again.
func (st stream) find(after annals.SeqNr, w annals.WriteID) (commit, bool) {
	i, ok := slices.BinarySearchFunc(st.commits, after, func(c commit, n annals.SeqNr) int { return cmp.Compare(c.after, n) })
	if !ok || w.IsZero() || st.commits[i].writeID != w {
		return commit{}, false
	}
	return st.commits[i], true
}

func (d *data) append(id annals.PersistenceID, events []annals.NewEvent, w annals.WriteID, now time.Time) {
	st := d.streams[id]
	after := st.last
	for _, e := range events {
		st.last++
		st.events = append(st.events, annals.Event{ID: id, SeqNr: st.last, Time: now, Payload: e.Payload,
			Tags: slices.Clone(e.Tags), Metadata: e.Metadata, Adapter: e.Adapter, WriteID: w})
	}
	st.commits = append(st.commits, commit{after, st.last, w, now})
	if d.streams == nil {
		d.streams = map[annals.PersistenceID]stream{}
	}
	d.streams[id] = st
}

func (v view) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		events, err := v.events(ctx, id)
		if err != nil {
			yield(annals.Event{}, err)
			return
		}
		i, _ := slices.BinarySearchFunc(events, from, bySeqNr)
		for ; i < len(events) && events[i].SeqNr <= to; i++ {
			if err := ctx.Err(); err != nil {
				yield(annals.Event{}, &annals.Error{Op: "replay", ID: id, Kind: annals.ErrUnavailable, Err: err})
				return
			}
			if !yield(events[i], nil) {
				return
			}
		}
	}
}

// events are those of id as of now: what is written or deleted later does not show in them.
func (v view) events(ctx context.Context, id annals.PersistenceID) ([]annals.Event, error) {
	if err := id.ValidateRead("replay", annals.Limits{}); err != nil {
		return nil, err
	}
	d, unlock, err := v.begin(ctx, "replay", id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return d.streams[id].events, nil
}

func (v view) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	if err := id.ValidateRead("last number", annals.Limits{}); err != nil {
		return 0, err
	}
	d, unlock, err := v.begin(ctx, "last number", id)
	if err != nil {
		return 0, err
	}
	defer unlock()
	return d.streams[id].last, nil
}

func (v view) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	if err := id.ValidateRead("delete events", annals.Limits{}); err != nil {
		return err
	}
	d, unlock, err := v.beginWrite(ctx, "delete events", id)
	if err != nil {
		return err
	}
	defer unlock()
	if st, ok := d.streams[id]; ok {
		i, found := slices.BinarySearchFunc(st.events, to, bySeqNr)
		if found {
			i++
		}
		if i > 0 {
			st.deleted = d.now()
		}
		st.events = slices.Clone(st.events[i:])
		d.streams[id] = st
	}
	return nil
}

func bySeqNr(e annals.Event, n annals.SeqNr) int { return cmp.Compare(e.SeqNr, n) }
