package subscription

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/stream"
)

// reader reads a shard that a loop holds, makes deliveries of it, and stores its item. It is one goroutine.
type reader struct {
	*loop
	shard  shard     // as it is stored
	stored time.Time // when it was stored last
	tried  struct {  // what store was called with last
		shard shard
		marks map[annals.PersistenceID]known
		write string
	}
	position string        // of the last record that was read completely
	returned chan struct{} // closed when the goroutine has ended

	holding context.Context    // ends when another loop has the shard, or the loop ends
	writing context.Context    // ends some time later: then the item is not written any more
	drop    context.CancelFunc // ends holding
	release context.CancelFunc // ends reading: the shard is free when no delivery is open

	building  *delivery
	marks     plan.Recent[annals.PersistenceID, known] // of entities that were read
	parked    map[annals.PersistenceID]annals.SeqNr    // the first numbers that this reader could not read, or others, if the filter has a tag
	unstored  map[annals.PersistenceID]bool            // entities whose marks are stored with the position
	truncated map[annals.PersistenceID]int             // how often replays of entities that are not parked were ErrTruncated since the last call of reached
}

// start begins to read s, which is of the stream name, and which this loop holds.
func (l *loop) start(ctx context.Context, name string, s shard) {
	r := &reader{loop: l, shard: s, position: s.position, returned: make(chan struct{}), parked: map[annals.PersistenceID]annals.SeqNr{}, truncated: map[annals.PersistenceID]int{},
		unstored: map[annals.PersistenceID]bool{}}
	r.holding, r.drop = context.WithCancel(context.WithoutCancel(ctx)) // ctx is that of a look
	reading, release := context.WithCancel(r.holding)
	writing, cease := context.WithCancel(context.WithoutCancel(ctx))
	r.writing, r.release = writing, release
	context.AfterFunc(r.holding, func() { time.AfterFunc(r.last(), cease) })
	l.held = append(l.held, r)
	go func() {
		defer signal(l.look)
		defer close(r.returned)
		defer r.drop()
		err := r.run(reading, name)
		if err != nil && reading.Err() == nil {
			r.stopped(err)
			<-r.holding.Done()
		}
		r.free(err == nil)
	}()
}

// stopped notes that the shard cannot be read because of err: a new round begins where records were removed, otherwise the loop ends.
func (r *reader) stopped(err error) {
	if errors.Is(err, stream.ErrTrimmed) {
		err = repeated(r.holding, func() error { return r.order(r.holding, r.name, r.shard.round) })
		signal(r.look)
	}
	if err != nil && r.holding.Err() == nil {
		r.fail(err)
	}
}

// run reads until nothing follows.
func (r *reader) run(ctx context.Context, name string) error {
	if r.filter.Tag != "" { // otherwise each event that waits is delivered, and its acknowledgement stores the mark
		if err := repeated(ctx, func() error { return r.waiting(ctx) }); err != nil {
			return err
		}
	}
	if n, ok := r.shard.part(); ok {
		return repeated(ctx, func() error { return r.catchUp(ctx, n) })
	}
	from := r.Stream.Reader(name, r.shard.id, r.position)
	for {
		var records []stream.Record
		var end bool
		err := repeated(ctx, func() (err error) {
			if err = r.tooOld(); err == nil { // a shard without records may have lost them
				records, end, err = from.Next(ctx)
			}
			return cmp.Or(err, r.tooOld())
		})
		if err != nil || len(records) == 0 {
			return err
		}
		if err := repeated(ctx, func() error { return r.records(ctx, records) }); err != nil || end {
			return err
		}
	}
}

// tooOld is ErrTrimmed when the reader begins with the oldest record that is left, and others may have been removed before.
func (r *reader) tooOld() error {
	if r.position == "" && time.Since(r.shard.since) > memory {
		return stream.ErrTrimmed
	}
	return nil
}

// fits reports whether the events of id can be in deliveries.
func (r *reader) fits(id annals.PersistenceID) bool {
	return (r.filter.Type == "" || r.filter.Type == id.Type()) && r.filter.Slices.Contains(id.Slice())
}

// pieces are the steps of a part of the catch-up. The position in the part is how many of them have been taken.
const pieces = 32

// catchUp delivers the events of all ids in a part of the table, from the journal.
func (r *reader) catchUp(ctx context.Context, part int) error {
	taken, _ := strconv.Atoi(r.position)
	for n := taken; n < pieces; n++ {
		if err := r.piece(ctx, plan.Part{N: part*pieces + n, Of: parts * pieces}); err != nil {
			return err
		}
		r.position = strconv.Itoa(n + 1)
		if err := r.reached(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) piece(ctx context.Context, p plan.Part) error {
	fitting := plan.Picked(r.Feed.Scan(ctx, r.Executor, p), func(f plan.Found) (plan.Found, bool, error) { return f, r.fits(f.ID), nil })
	return plan.Batches(fitting, func(all []plan.Found) error { // the marks of a batch are read in one request
		ids := make([]annals.PersistenceID, len(all))
		for i, f := range all {
			ids[i] = f.ID
		}
		if err := r.remember(ctx, ids); err != nil {
			return err
		}
		for _, f := range all {
			if r.has(f) {
				continue
			}
			if err := r.deliverAfterMark(ctx, f.ID); err != nil {
				return err
			}
			if err := r.storeMarks(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// has reports whether the events that a scan found are delivered.
func (r *reader) has(f plan.Found) bool {
	m := r.mark(f.ID)
	return m.seq > 0 && m.seq == f.Last && !m.gaps && (f.Time.IsZero() || f.Time.Equal(m.time))
}

// deliverAfterMark delivers the events of id after its mark.
func (r *reader) deliverAfterMark(ctx context.Context, id annals.PersistenceID) error {
	_, err := r.replay(ctx, id, annals.MaxSeqNr)
	return r.park(ctx, id, err)
}

// reached hands over what was read up to the position, and stores at times that all of that is acknowledged.
func (r *reader) reached(ctx context.Context) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	clear(r.truncated)
	if r.shard.position = r.position; time.Since(r.stored) < r.Lease {
		return nil
	}
	return r.store(ctx, r.shard, nil)
}

// records delivers the events that records tell of. The journal is asked for those of an image that cannot be read.
func (r *reader) records(ctx context.Context, records []stream.Record) error {
	told, broken := make([][]annals.Event, len(records)), make([]annals.PersistenceID, len(records))
	var ids []annals.PersistenceID
	for i, rec := range records {
		if rec.Removed {
			continue
		}
		events, err := r.Feed.Events(rec.Image, rec.Created)
		switch {
		case err != nil:
			if id := r.Feed.Owner(rec.Image); r.fits(id) {
				broken[i] = id
				ids = append(ids, id)
			}
		case len(events) > 0 && r.fits(events[0].ID):
			told[i] = events
			ids = append(ids, events[0].ID)
		}
	}
	if err := r.remember(ctx, ids); err != nil {
		return err
	}
	for i, rec := range records {
		if id := broken[i]; id != "" {
			if err := r.deliverAfterMark(ctx, id); err != nil {
				return err
			}
		}
		for _, e := range told[i] {
			if err := r.park(ctx, e.ID, r.event(ctx, e)); err != nil {
				return err
			}
		}
		r.position = rec.Sequence
		if err := r.storeMarks(ctx); err != nil {
			return err
		}
	}
	return r.reached(ctx)
}

// keep has the mark of id stored with the position: id was forgotten and has begun again, and the stored mark may be of before, or id is not parked any
// more. If its events do not have the tag of the filter, no acknowledgement stores it.
func (r *reader) keep(id annals.PersistenceID) {
	if r.filter.Tag != "" {
		r.unstored[id] = true
	}
}

// storeMarks stores the marks that are to be kept, and the position.
func (r *reader) storeMarks(ctx context.Context) error {
	for id := range r.unstored {
		if err := r.flush(ctx); err != nil { // then all events up to the mark are acknowledged
			return err
		}
		s := r.shard
		s.position = r.position
		if err := r.store(ctx, s, r.markOf(id)); err != nil {
			return err
		}
		delete(r.unstored, id)
	}
	return nil
}

// restart sets the mark of id, which was forgotten and has begun again, before number 1.
func (r *reader) restart(id annals.PersistenceID) {
	r.set(id, mark{})
	r.keep(id)
}

// event delivers e, and first the events before it that are not delivered.
func (r *reader) event(ctx context.Context, e annals.Event) error {
	m := r.mark(e.ID)
	switch {
	case e.SeqNr == 1 && !m.born.IsZero() && e.Time.After(m.born): // it has begun again, and later events may have come before
		r.restart(e.ID)
	case e.SeqNr <= m.seq && !e.Time.After(m.time): // delivered before
		return nil
	case e.SeqNr > m.seq && e.Time.Before(m.time): // from before the entity was forgotten, or its times go back: the journal tells
		_, err := r.replay(ctx, e.ID, e.SeqNr)
		return err
	}
	if e.SeqNr != m.seq+1 { // events are missing, or the entity was forgotten and has begun again
		if err := r.unchanged(ctx, e.ID); err != nil {
			return err
		}
		again, err := r.replay(ctx, e.ID, max(e.SeqNr-1, m.seq))
		m = r.mark(e.ID)
		if err != nil || e.SeqNr <= m.seq || again && e.Time.Before(m.time) { // e is delivered, or from before the entity was forgotten
			return err
		}
	}
	return r.deliver(ctx, e)
}

// replay delivers the events of id after its mark, up to number to, as the journal has them. again says that the entity was forgotten and
// has begun again: then replay begins with number 1.
func (r *reader) replay(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) (again bool, err error) {
	m, found := r.mark(id), false
	for e, err := range r.Journal.Replay(ctx, id, max(m.seq, 1), to) {
		if err != nil {
			return false, err
		}
		found = true
		if e.SeqNr > m.seq {
			err = r.deliver(ctx, e)
		} else if again = !e.Time.Equal(m.time); again {
			break
		}
		if err != nil {
			return false, err
		}
	}
	if !found && m.seq > 0 {
		last, err := r.Journal.LastSeqNr(ctx, id)
		if err != nil {
			return false, err
		}
		again = last < m.seq
	}
	if again {
		r.restart(id)
		_, err = r.replay(ctx, id, to)
	}
	return again, err
}

// deliver adds e to the delivery that is being built, if it fits the filter.
func (r *reader) deliver(ctx context.Context, e annals.Event) error {
	before := r.mark(e.ID)
	m := mark{seq: e.SeqNr, time: e.Time, born: before.born}
	if e.SeqNr == 1 {
		m.born = e.Time
	}
	m.gaps = r.Feed.Counts && (before.gaps || e.SeqNr != before.seq+1)
	fits := r.filter.Tag == "" || slices.Contains(e.Tags, r.filter.Tag)
	if fits {
		if d := r.building; d != nil && (len(d.events) == maxEvents || len(d.upTo) == maxEntities) {
			if err := r.flush(ctx); err != nil {
				return err
			}
		}
		if r.building == nil {
			r.building = &delivery{shard: r, upTo: map[annals.PersistenceID]known{}, acks: make(chan acknowledgement), done: make(chan struct{})}
		}
		r.building.events = append(r.building.events, e)
	}
	if r.set(e.ID, m); fits {
		r.building.upTo[e.ID], _ = r.marks.Get(e.ID)
	}
	return nil
}

// flush hands over the delivery that is being built.
func (r *reader) flush(ctx context.Context) error {
	if r.building == nil {
		return nil
	}
	if err := r.handOver(ctx, r.building); err != nil {
		return err
	}
	r.building = nil
	return nil
}

// mark is that of id, which remember has been called for.
func (r *reader) mark(id annals.PersistenceID) mark {
	k, _ := r.marks.Get(id)
	return k.mark
}

func (r *reader) learn(id annals.PersistenceID, k known) {
	r.marks.Change(id, func(known, bool) known { return k })
}

func (r *reader) set(id annals.PersistenceID, m mark) {
	r.marks.Change(id, func(k known, _ bool) known { return known{m, k.stored} })
}

// remember makes the marks of ids known.
func (r *reader) remember(ctx context.Context, ids []annals.PersistenceID) error {
	var unknown []annals.PersistenceID
	for _, id := range ids {
		k, ok := r.marks.Get(id)
		if !ok && r.building != nil {
			k, ok = r.building.upTo[id]
		}
		switch {
		case ok:
			r.learn(id, k) // also one that is known: otherwise it may be dropped when others are set
		case !slices.Contains(unknown, id):
			unknown = append(unknown, id)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	marks, err := loadMarks(ctx, r.Executor, r.Table, r.name, unknown)
	if err != nil {
		return err
	}
	for _, id := range unknown {
		r.learn(id, known{marks[id], marks[id]})
	}
	return nil
}

// unchanged is ErrFenced when the mark of id is not stored any more as it was when this reader read or stored it: other events of the entity are in a shard
// of another reader, which has acknowledged them. Then this reader ends, and the next one of the shard begins with the marks that are stored.
func (r *reader) unchanged(ctx context.Context, id annals.PersistenceID) error {
	marks, err := loadMarks(ctx, r.Executor, r.Table, r.name, []annals.PersistenceID{id})
	if k, _ := r.marks.Get(id); err == nil && !marks[id].same(k.stored) {
		r.drop()
		return errLost
	}
	return err
}
