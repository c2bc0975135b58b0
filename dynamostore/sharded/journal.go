package sharded

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/akkawire"
)

// journal is the journal table. It is an annals.Journal.
type journal struct {
	rows         rows
	columns      JournalColumns
	tagSeparator string
	hard         bool
	other        map[string]bool // see settings
	times        *plan.Times
}

// Append is annals.Journal. Each event is a row, on condition that there is none at its key. Several rows are one transaction.
func (j *journal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	now := j.times.NotBefore(c.ID, j.rows.x.Now())
	w := plan.Write{Ops: make([]plan.Op, len(c.Events)), Refused: func(old []plan.Item, _ bool) error { return j.refusal(c, old) }}
	for i := range c.Events {
		it, err := j.eventItem(c, c.After+1+annals.SeqNr(i), &c.Events[i], now)
		if err != nil {
			return annals.Receipt{}, err
		}
		w.Ops[i] = plan.Op{Table: j.rows.Name, Put: it, Condition: "attribute_not_exists(#pkey)", Names: map[string]string{"#pkey": j.columns.PartitionKey}}
	}
	w.Ops[len(w.Ops)-1].Ours = func(old plan.Item) bool { return j.writtenBy(old, c) } // deletes remove the last row after the others
	if c.After == 0 {
		if err := j.rows.fits(ctx, c.ID); err != nil {
			return annals.Receipt{}, err
		}
	}
	out, err := j.rows.x.Write(ctx, w)
	if err != nil {
		return annals.Receipt{}, err
	}
	r := annals.Receipt{SeqNr: c.After + annals.SeqNr(len(c.Events)), Time: millis(w.Ops[0].Put, j.columns.Ordering)}
	if out.Repeated {
		r.Time, r.Repeated = millis(out.Old[len(out.Old)-1], j.columns.Ordering), true
	}
	return r, nil
}

func (j *journal) writtenBy(old plan.Item, c annals.Commit) bool {
	id, _ := plan.Text(old, j.columns.PersistenceID)
	return id == string(c.ID) && j.writer(old) == c.WriteID.String()
}

func (j *journal) refusal(c annals.Commit, old []plan.Item) error {
	for _, it := range old {
		if err := plan.Collision(c.ID, it, j.columns.PersistenceID); err != nil {
			return err
		}
	}
	return &annals.Error{Kind: annals.ErrConflict, After: c.After}
}

// Replay is annals.Journal. Rows are deleted in ascending order. So if a gap after a yielded event is due to a delete, that event has been
// deleted too, which Replay checks.
func (j *journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		if from < 1 {
			return // a recovery from a snapshot with the highest number
		}
		fail := func(err error) { yield(annals.Event{}, err) }
		var before plan.Item // the row of the last event yielded
		var newest plan.Item // the last row read
		last := from - 1     // the number of before
		flagged := false     // a row after it is flagged as deleted
		begun := false       // a row was found
		var at time.Time     // of the last event yielded
		defer func() { j.times.Learn(id, at) }()
		for it, err := range j.rows.read(ctx, numbered.Part{ID: id, From: from, To: to}) {
			if err != nil {
				fail(err)
				return
			}
			e, live, err := j.event(it)
			if err != nil {
				fail(err)
				return
			}
			if !begun && from == 1 && e.SeqNr > 1 {
				if err := j.rows.fits(ctx, id); err != nil {
					fail(err)
					return
				}
			}
			begun = true
			above := newest
			newest = it
			if !live {
				flagged = true
				continue
			}
			if before != nil && e.SeqNr != last+1 {
				err := j.stands(ctx, before)
				if err == nil {
					err = j.hole(above, it)
				}
				if err != nil {
					fail(err)
					return
				}
			}
			if !yield(e, nil) {
				return
			}
			before, last, flagged, at = it, e.SeqNr, false, e.Time
		}
		var err error
		switch {
		case !begun && from == 1:
			err = j.rows.fits(ctx, id)
		case before != nil && last < to && (flagged || j.hard):
			err = j.stands(ctx, before) // the events after it may have been deleted
		}
		if err != nil {
			fail(err)
		}
	}
}

// stands returns ErrTruncated if a row has been deleted since it was read.
func (j *journal) stands(ctx context.Context, row plan.Item) error {
	it, ok, err := j.rows.x.Get(ctx, plan.Get{Table: j.rows.Name, Key: j.rows.KeyOf(row)})
	if err == nil && (!ok || plan.Flag(it, j.columns.Deleted)) {
		err = &annals.Error{Kind: annals.ErrTruncated}
	}
	return err
}

// hole returns ErrCorrupt if rows are missing between a and b, the next row, unless a writer of the plugin left their numbers unused: it
// does so for an event that cannot be serialized, and writes on with the same writer id. Each commit of this package has a writer id of
// its own, and its events have one time. An update in place removes the writer id of a row.
func (j *journal) hole(a, b plan.Item) error {
	from, to := j.rows.NumberOf(a), j.rows.NumberOf(b)
	if to == from+1 {
		return nil
	}
	first, second := j.writer(a), j.writer(b)
	if first == "" || second == "" || first == second && !millis(a, j.columns.Ordering).Equal(millis(b, j.columns.Ordering)) {
		return nil
	}
	return j.rows.Corrupt(b, fmt.Errorf("event %d is followed by %d", from, to))
}

// LastSeqNr is annals.Journal: flagged rows count.
func (j *journal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	last, err := j.rows.newest(ctx, id)
	if last == 0 && err == nil {
		err = j.rows.fits(ctx, id)
	}
	return last, err
}

// DeleteTo is annals.Journal. It flags or removes rows in ascending order, at the keys that they were read with. The newest row is always kept,
// because it has the entity's last number.
func (j *journal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	last, err := j.LastSeqNr(ctx, id)
	if err != nil {
		return err
	}
	if to = min(to, last); to == 0 {
		return nil
	}
	for it, err := range j.rows.read(ctx, numbered.Part{ID: id, From: 1, To: to, Fields: []string{j.columns.Deleted}, All: true}) {
		if err != nil {
			return err
		}
		remove := j.hard && j.rows.NumberOf(it) < last
		if !remove && plan.Flag(it, j.columns.Deleted) {
			continue
		}
		op := plan.Op{Table: j.rows.Name, Key: j.rows.KeyOf(it), Delete: remove, Condition: "#id = :id", Names: map[string]string{"#id": j.columns.PersistenceID}, Values: plan.Item{":id": plan.S(string(id))}}
		if !remove {
			op.Update = "SET #deleted = :true"
			op.Names["#deleted"], op.Values[":true"] = j.columns.Deleted, plan.Bool(true)
		}
		if _, err := j.rows.x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func([]plan.Item, bool) error { return nil }}); err != nil {
			return err
		}
	}
	return nil
}

// SkipTo is annals.Skipper. It stores rows for the numbers 1 and n that are flagged as deleted, as the plugin's deletes do. Row n has the
// last number, and row 1 makes an append after 0 fail.
func (j *journal) SkipTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	last, err := j.LastSeqNr(ctx, id)
	if err != nil {
		return err
	}
	skipped := func(old plan.Item) bool {
		owner, _ := plan.Text(old, j.columns.PersistenceID)
		return owner == string(id) && plan.Flag(old, j.columns.Deleted) && j.writer(old) == ""
	}
	if last == n {
		old, err := j.rows.ByKey(ctx, j.rows.x, id, n, n)
		if err != nil || len(old) == 1 && skipped(old[0]) {
			return err
		}
	}
	if last != 0 {
		return &annals.Error{Kind: annals.ErrConflict, Last: last}
	}
	w := plan.Write{Refused: func(old []plan.Item, _ bool) error { return j.refusal(annals.Commit{ID: id}, old) }}
	for _, number := range slices.Compact([]annals.SeqNr{1, n}) {
		it, err := j.row(akkawire.Record{Payload: annals.Payload{SerializerID: bytesSerializer}, SeqNr: number, ID: id}, true, j.rows.x.Now())
		if err != nil {
			return err
		}
		w.Ops = append(w.Ops, plan.Op{Table: j.rows.Name, Put: it, Condition: "attribute_not_exists(#pkey)", Names: map[string]string{"#pkey": j.columns.PartitionKey}})
	}
	w.Ops[len(w.Ops)-1].Ours = skipped
	out, err := j.rows.x.Write(ctx, w)
	if err == nil && out.Repeated && n == 1 { // every skip writes row 1
		if last, err = j.LastSeqNr(ctx, id); err == nil && last != n {
			err = &annals.Error{Kind: annals.ErrConflict, Last: last}
		}
	}
	return err
}

// bytesSerializer is the id of Akka's serializer for bytes.
const bytesSerializer = 4
