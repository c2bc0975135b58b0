package headed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/quote"
)

// journal is the journal table with the heads. It is an annals.Journal and an ability.Skipper.
type journal struct {
	rows
	events    numbered.Table
	heads     string // the snapshot table
	gaps      bool
	snapshots *snapshots
	times     *plan.Times
	tried     *plan.Recent[annals.WriteID, time.Time]          // the times of commits whose outcome is not known
	ahead     *plan.Recent[annals.PersistenceID, annals.SeqNr] // how far last numbers are ahead of versions, where a library has left numbers unused
	x         plan.Executor                                    // runs the requests; set by plan.Offer.On
}

// Append is annals.Journal. The events are put, each on condition that there is none at its key, and the head is put or updated, on condition that it
// has the version of After. All of that is one transaction.
func (j *journal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	if c.After == 0 {
		if err := j.events.Fits(ctx, j.x, c.ID); err != nil {
			return annals.Receipt{}, err
		}
	}
	w := write{journal: j, Commit: c, version: c.After, at: j.time(c)}
	if ahead, ok := j.ahead.Get(c.ID); ok && ahead < c.After {
		w.version -= ahead
	}
	r, err := w.send(ctx)
	if off, ok := errors.AsType[miscount](err); ok {
		if err = w.recount(ctx, off.head); err == nil {
			r, err = w.send(ctx)
		}
	}
	if errors.Is(err, annals.ErrUnknown) {
		j.tried.Change(c.WriteID, func(time.Time, bool) time.Time { return w.at })
	}
	return r, err
}

// time returns the time to store with the events of c. A commit that is sent again has the time of its first try, so that the request is the same.
func (j *journal) time(c annals.Commit) time.Time {
	if at, ok := j.tried.Get(c.WriteID); ok {
		return at
	}
	return j.times.NotBefore(c.ID, j.x.Now())
}

// write is an append in progress.
type write struct {
	*journal
	annals.Commit
	version annals.SeqNr // that the head must have
	exists  bool         // there is a head although After is 0: that of a snapshot without events
	at      time.Time    // of the events without a NewEvent.Time
}

// miscount is the cause of a conflict with the head, although the number after Commit.After is free and not deleted.
type miscount struct{ head }

func (m miscount) Error() string { return fmt.Sprintf("the head has version %d", m.version) }

// send sends the transaction.
func (w *write) send(ctx context.Context) (annals.Receipt, error) {
	request, err := w.request()
	if err != nil {
		return annals.Receipt{}, err
	}
	out, err := w.x.Write(ctx, request)
	if err != nil {
		return annals.Receipt{}, err
	}
	if w.Snapshot != nil && !out.Repeated {
		w.snapshots.written(ctx, *w.Snapshot)
	}
	r := annals.Receipt{SeqNr: w.After + annals.SeqNr(len(w.Events)), Time: inTime(inUnit(w.timeOf(len(w.Events)-1), w.unit), w.unit), Repeated: out.Repeated}
	if out.Repeated {
		n, _ := plan.Number(out.Old[len(w.Events)-1], attrOccurred)
		r.Time = inTime(n, w.unit)
	}
	return r, nil
}

// timeOf returns the time of an event.
func (w *write) timeOf(i int) time.Time {
	if t := w.Events[i].Time; !t.IsZero() {
		return t.UTC()
	}
	return w.at
}

// request returns the transaction. Its last event tells whether an earlier try was stored: deletes remove it after the others.
func (w *write) request() (plan.Write, error) {
	request := plan.Write{Refused: w.refused}
	if !w.writeIDs {
		request.Token = plan.TokenOf(w.events.Name, string(w.ID), strconv.FormatInt(int64(w.After), 10), w.WriteID.String(), strconv.FormatInt(int64(w.version), 10), strconv.FormatBool(w.exists))
	}
	for i := range w.Events {
		it, err := w.eventItem(w.Commit, w.After+1+annals.SeqNr(i), &w.Events[i], w.timeOf(i))
		if err != nil {
			return plan.Write{}, err
		}
		request.Ops = append(request.Ops, plan.Op{Table: w.events.Name, Put: it, Condition: absent, Names: absentNames})
	}
	if w.writeIDs {
		request.Ops[len(w.Events)-1].Ours = w.ours
	}
	set, more, err := w.snapshots.with(w.Snapshot, w.version, w.version+annals.SeqNr(len(w.Events)), w.timeOf(len(w.Events)-1))
	if err != nil {
		return plan.Write{}, err
	}
	head, err := w.headOp(set)
	request.Ops = append(append(request.Ops, head), more...)
	return request, err
}

// The condition that there is no row at the key.
const absent = "attribute_not_exists(#pkey)"

var absentNames = map[string]string{"#pkey": attrPartition}

// headOp returns the put of a new head, or the update of an existing one. set are the attributes of its new state; nil for none.
func (w *write) headOp(set plan.Item) (plan.Op, error) {
	after := w.version + annals.SeqNr(len(w.Events))
	if w.After == 0 && !w.exists {
		it, err := w.headItem(w.ID, after, set)
		return plan.Op{Table: w.heads, Put: it, Condition: absent, Names: absentNames}, err
	}
	key, err := w.key(w.ID, 0)
	u := plan.NewUpdate()
	u.SetTo(attrVersion, u.Value(plan.N(after)))
	u.SetAll(set)
	if set == nil && !w.lean && !w.peer.noUpdated {
		u.SetAll(plan.Item{attrUpdated: w.updated(w.timeOf(len(w.Events) - 1))})
	}
	op := plan.Op{Table: w.heads, Key: key, Update: u.Expression(), Names: u.Names, Values: u.Values}
	op.Condition = u.Name(attrVersion) + " = " + u.Value(plan.N(w.version))
	return op, err
}

// ours reports whether the row at the key of an event is of an earlier try.
func (w *write) ours(old plan.Item) bool {
	id, _ := plan.Text(old, attrWriteID)
	return id == w.WriteID.String()
}

// refused is plan.Write.Refused.
func (w *write) refused(old []plan.Item, _ bool) error {
	conflict := &annals.Error{Kind: annals.ErrConflict, After: w.After}
	for i, it := range old[:len(w.Events)] {
		n := w.After + 1 + annals.SeqNr(i)
		if it == nil {
			continue
		}
		if owner := w.owner(it, n); owner != "" && owner != w.ID {
			return w.collision(owner)
		}
		return conflict
	}
	h, err := w.rows.head(old[len(w.Events)])
	switch {
	case err != nil:
		return err
	case h.item == nil:
		return conflict
	}
	if owner := w.owner(h.item, 0); owner != "" && owner != w.ID {
		return w.collision(owner)
	}
	conflict.Last = max(h.version, h.deleted)
	if h.deleted <= w.After && (w.After > 0 || h.version == 0) {
		conflict.Err = miscount{h}
	}
	return conflict
}

func (w *write) collision(owner annals.PersistenceID) error {
	return plan.Misfit("the ids %s and %s have the same key with these Keys, and the row at that key is of the second", quote.Text(string(w.ID)), quote.Text(string(owner)))
}

// recount is called when h has refused the write, although the next number is free: a library has left numbers unused or replaced events,
// or After is not the last number. When it is the last one, the write can be sent again, for the version that the head has.
func (w *write) recount(ctx context.Context, h head) error {
	if w.After == 0 {
		w.exists = true
		return nil
	}
	last, err := w.last(ctx, w.ID, h, w.After)
	if err != nil {
		return err
	}
	if last != w.After {
		return &annals.Error{Kind: annals.ErrConflict, After: w.After, Last: last}
	}
	w.version = h.version
	w.ahead.Change(w.ID, func(annals.SeqNr, bool) annals.SeqNr { return w.After - w.version })
	return nil
}

// LastSeqNr is annals.Journal: the version of the head, or the number of a later event when a library has left numbers unused. Without Gaps that event
// is found if there is none with the number of the version, or if a replay or an append has found it.
func (j *journal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	h, err := j.read(ctx, id)
	if err != nil || h.item == nil {
		return 0, err
	}
	if ahead, _ := j.ahead.Get(id); ahead > 0 {
		if last, err := j.last(ctx, id, h, h.version+ahead); err != nil || last > h.version {
			return last, err
		}
	}
	return j.last(ctx, id, h, 0)
}

// last returns the last number of an entity with the head h: the version. known is another number that it may have, or 0: only a library leaves numbers
// unused, so that the last one is above the version, or stores an event with number 0, so that it is below.
func (j *journal) last(ctx context.Context, id annals.PersistenceID, h head, known annals.SeqNr) (annals.SeqNr, error) {
	last := max(h.version, h.deleted)
	switch {
	case j.gaps:
		return j.lastInIndex(ctx, id, h)
	case j.lean:
		return last, nil
	case known > last:
		found, err := j.events.ByKey(ctx, j.x, id, known, known)
		if err != nil || len(found) == 0 {
			return last, err
		}
		last = known
	}
	found, err := j.events.ByKey(ctx, j.x, id, last, last+1)
	switch {
	case err != nil:
		return 0, err
	case len(found) == 2:
		return j.events.Newest(ctx, j.x, id, last+1, 1)
	case len(found) == 1 && j.events.NumberOf(found[0]) == last, len(found) == 0 && last == h.deleted:
		return last, nil
	}
	r := reader{j: j, id: id}
	if _, err := r.Gap(ctx, last, last); err != nil {
		return 0, err
	}
	if r.head.version > h.version || r.head.deleted > h.deleted {
		return j.last(ctx, id, r.head, 0)
	}
	return j.lastInIndex(ctx, id, h)
}

// lastInIndex returns the last number that the index has, or that is at a key soon after. The head tells whether it was deleted meanwhile.
func (j *journal) lastInIndex(ctx context.Context, id annals.PersistenceID, h head) (annals.SeqNr, error) {
	last := h.deleted
	for it, err := range j.found(ctx, numbered.Part{ID: id, From: 1, To: annals.MaxSeqNr, Backward: true, Limit: 1, Fields: []string{}}) {
		if err != nil {
			return 0, err
		}
		last = max(last, j.events.NumberOf(it))
		break
	}
	for {
		var err error
		if last, err = j.events.Newest(ctx, j.x, id, last, numbered.Lag); err != nil {
			return 0, err
		}
		if h, err = j.read(ctx, id); err != nil || h.deleted <= last {
			return last, err
		}
		last = h.deleted
	}
}
