package esa

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/quote"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// journal is the journal table with the heads. It is an annals.Journal and, for Rust5, an ability.Skipper.
type journal struct {
	plan.Reads
	rows
	events    numbered.Table
	heads     string // the table of heads
	gaps      bool
	snapshots stateTable
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
	w := write{journal: j, Commit: c, version: j.versionOf(c.ID, c.After), at: j.time(c)}
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

// versionOf returns the version that the head is expected to have when n is the last number.
func (j *journal) versionOf(id annals.PersistenceID, n annals.SeqNr) annals.SeqNr {
	if ahead, ok := j.ahead.Get(id); ok && ahead < n {
		return n - ahead
	}
	return n
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
	last := len(w.Events) - 1
	r := annals.Receipt{SeqNr: w.After + 1 + annals.SeqNr(last), Time: inTime(inUnit(w.timeOf(last), w.unit), w.unit), Repeated: out.Repeated}
	if out.Repeated {
		stored, ok := plan.Number(out.Old[last], attrOccurred)
		if r.Time = inTime(stored, w.unit); !ok {
			r.Time = w.inHead(out.Old[last+1]).Time // the event was deleted
		}
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

// request returns the transaction. Its last event tells whether an earlier try was stored: deletes remove it after the others. A head of
// Rust5 tells it also after that.
func (w *write) request() (plan.Write, error) {
	request := plan.Write{Refused: w.refused}
	if !w.writeIDs {
		request.Token = plan.TokenOf(w.events.Name, string(w.ID), strconv.FormatInt(int64(w.After), 10), w.WriteID.String(), strconv.FormatInt(int64(w.version), 10), strconv.FormatBool(w.exists))
	}
	count := len(w.Events)
	if w.apart && w.After > maxNumber-annals.SeqNr(count) {
		return plan.Write{}, plan.Misfit("the number of the last event would be above %d", maxNumber)
	}
	for i := range w.Events {
		it, err := w.eventItem(w.Commit, w.After+1+annals.SeqNr(i), &w.Events[i], w.timeOf(i))
		if err != nil {
			return plan.Write{}, err
		}
		request.Ops = append(request.Ops, w.create(w.events.Name, it))
	}
	set, more, err := w.snapshots.with(w.Snapshot, w.version, w.version+annals.SeqNr(count), w.timeOf(count-1))
	if err != nil {
		return plan.Write{}, err
	}
	if w.apart {
		set = plan.Item{attrEvents: commitOf(request.Ops)}
	}
	head, err := w.headOp(set)
	request.Ops = append(append(request.Ops, head), more...)
	if w.writeIDs {
		request.Ops[count-1].Ours = func(old plan.Item) bool {
			id, _ := plan.Text(old, attrWriteID)
			return id == w.WriteID.String()
		}
		if w.apart {
			request.Ops[count].Ours = func(old plan.Item) bool { return w.inHead(old) != nil }
		}
	}
	return request, err
}

// commitOf returns the events that are put, without the aggregate id, for a head of Rust5.
func commitOf(puts []plan.Op) types.AttributeValue {
	all := make([]types.AttributeValue, len(puts))
	for i, op := range puts {
		it := maps.Clone(op.Put)
		delete(it, attrAID)
		all[i] = plan.M(it)
	}
	return plan.L(all...)
}

// headOp returns the put of a new head, or the update of an existing one. set are the attributes of its new state or its events; nil for none.
func (w *write) headOp(set plan.Item) (plan.Op, error) {
	after := w.version + annals.SeqNr(len(w.Events))
	it, err := w.headItem(w.ID, after, set)
	if err != nil || w.After == 0 && !w.exists {
		return w.create(w.heads, it), cmp.Or(err, plan.Fits(it))
	}
	if set == nil && !w.peer.noUpdated {
		set = plan.Item{attrUpdated: w.updated(w.timeOf(len(w.Events) - 1))}
	}
	it[attrDeleted] = plan.N(after) // it may have one
	key, err := w.headKey(w.ID)
	u, count := plan.NewUpdate(), w.peer.attrCount()
	u.SetTo(count, u.Value(plan.N(after)))
	u.SetAll(set)
	op := plan.Op{Table: w.heads, Key: key, Update: u.Expression(), Names: u.Names, Values: u.Values}
	op.Condition = u.Name(count) + " = " + u.Value(plan.N(w.version))
	return op, cmp.Or(err, plan.Fits(it))
}

// inHead returns the last event of the commit as an earlier try has stored it in the head of Rust5; nil when old is of another commit.
func (w *write) inHead(old plan.Item) *annals.Event {
	h, err := w.head(w.ID, old)
	if n := len(h.events); err == nil && n > 0 && h.version == w.After+annals.SeqNr(len(w.Events)) && h.events[n-1].WriteID == w.WriteID {
		return &h.events[n-1]
	}
	return nil
}

// refused is plan.Write.Refused.
func (w *write) refused(old []plan.Item, _ bool) error {
	conflict, free, count := &annals.Error{Kind: annals.ErrConflict, After: w.After}, true, len(w.Events)
	for i, it := range old[:count+1] {
		n := w.After + 1 + annals.SeqNr(i)
		if i == count {
			n = 0
		}
		if owner := w.owner(it, n); owner != "" && owner != w.ID {
			return plan.Misfit("the ids %s and %s have the same key with these Keys, and the row at that key is of the second", quote.Text(string(w.ID)), quote.Text(string(owner)))
		}
		free = free && (it == nil || i == count)
	}
	h, err := w.rows.head(w.ID, old[count])
	switch {
	case err != nil:
		return err
	case h.item == nil || !free && !w.apart:
		return conflict
	}
	conflict.Last = max(h.version, h.deleted)
	if !w.apart && h.deleted <= w.After && (w.After > 0 || h.version == 0) {
		conflict.Err = miscount{h}
	}
	return conflict
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

// LastSeqNr is annals.Journal: the version of the head, or the number of a later event when a library has left numbers unused. With Gaps the number is
// never lower than the version, because an event that is missing may have been stored. Without Gaps a later event is found if there is none with the
// number of the version, or if a replay or an append has found it.
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

// guard is plan.Contracts.Guard. Where no number is unused, and always for Rust5, the version is the last number. Where some are, it is lower. So
// the row of the next number is looked at, too; before a delete removes it, the mark in the head includes it.
func (j *journal) guard(id annals.PersistenceID, n annals.SeqNr) ([]plan.Guard, error) {
	key, err := j.headKey(id)
	if err != nil {
		return nil, err
	}
	u := plan.NewUpdate()
	most := func(name string, n annals.SeqNr) string {
		return "attribute_not_exists(" + u.Name(name) + ") OR " + u.Name(name) + " <= " + u.Value(plan.N(n))
	}
	head := plan.Op{Table: j.heads, Key: key, Condition: most(j.peer.attrCount(), max(n, j.versionOf(id, n))), Names: u.Names, Values: u.Values}
	if j.apart {
		return []plan.Guard{{Op: head}}, nil
	}
	head.Condition = "(" + head.Condition + ") AND (" + most(attrDeleted, n) + ")"
	row, err := j.key(id, n+1)
	free := plan.Op{Table: j.events.Name, Key: row, Condition: "attribute_not_exists(#pkey)", Names: map[string]string{"#pkey": attrPartition}}
	return []plan.Guard{{Op: head}, {Op: free}}, err
}

// last returns the last number of an entity with the head h: the version. known is another number that it may have, or 0: only a library leaves numbers
// unused, so that the last one is above the version, or stores an event with number 0, so that it is below.
func (j *journal) last(ctx context.Context, id annals.PersistenceID, h head, known annals.SeqNr) (annals.SeqNr, error) {
	last := max(h.version, h.deleted)
	switch {
	case j.apart:
		return last, nil
	case j.gaps:
		found, err := j.lastInIndex(ctx, id, h)
		return max(last, found), err
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
	it, _, err := plan.First(j.found(ctx, numbered.Part{ID: id, From: 1, To: annals.MaxSeqNr, Backward: true, Limit: 1, Fields: []string{}}))
	if err != nil {
		return 0, err
	}
	for last := max(h.deleted, j.events.NumberOf(it)); ; last = h.deleted {
		if last, err = j.events.Newest(ctx, j.x, id, last, numbered.Lag); err != nil {
			return 0, err
		}
		if h, err = j.read(ctx, id); err != nil || h.deleted <= last {
			return last, err
		}
	}
}
