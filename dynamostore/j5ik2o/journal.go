package j5ik2o

import (
	"context"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/akkawire"
)

// journal is the journal table. It is an annals.Journal.
type journal struct {
	plan.Reads
	rows         rows
	snapshots    *snapshots // nil: there are none
	columns      JournalColumns
	tagSeparator string
	hard         bool
	other        map[string]bool // see settings
	times        *plan.Times
}

// Append is annals.Journal. Each event is a row, on condition that there is none with an id at its key: the plugin's update in place of an event
// that does not exist makes a row without one. Several rows are one transaction.
func (j *journal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	now := j.times.NotBefore(c.ID, j.rows.x.Now())
	w := plan.Write{Ops: make([]plan.Op, len(c.Events)), Refused: func(old []plan.Item, _ bool) error { return j.refusal(c, old) }}
	for i := range c.Events {
		it, err := j.eventItem(c, c.After+1+annals.SeqNr(i), &c.Events[i], now)
		if err != nil {
			return annals.Receipt{}, err
		}
		w.Ops[i] = plan.Create(j.rows.Name, it, j.columns.PersistenceID)
	}
	w.Ops[len(w.Ops)-1].Ours = func(old plan.Item) bool { // deletes remove the last row after the others
		id, _ := plan.Text(old, j.columns.PersistenceID)
		return id == string(c.ID) && j.writer(old) == c.WriteID.String()
	}
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

func (j *journal) refusal(c annals.Commit, old []plan.Item) error {
	for _, it := range old {
		if err := plan.Collision(c.ID, it, j.columns.PersistenceID); err != nil {
			return err
		}
	}
	return &annals.Error{Kind: annals.ErrConflict, After: c.After}
}

// LastSeqNr is annals.Journal: flagged rows count.
func (j *journal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	last, _, err := j.rows.newest(ctx, id)
	if last == 0 && err == nil {
		err = j.rows.fits(ctx, id)
	}
	return last, err
}

// guard is plan.Contracts.Guard. A delete keeps the row of the next number. A row of another id at its key is none of id.
func (j *journal) guard(id annals.PersistenceID, n annals.SeqNr) ([]plan.Guard, error) {
	key, err := j.rows.Key(id, n+1)
	if err != nil {
		return nil, err
	}
	return []plan.Guard{{Op: plan.Op{Table: j.rows.Name, Key: key, Condition: "attribute_not_exists(#id) OR #id <> :id",
		Names: map[string]string{"#id": j.columns.PersistenceID}, Values: plan.Item{":id": plan.S(string(id))}}}}, nil
}

// DeleteTo is annals.Journal. It flags or removes rows in ascending order, at the keys that they were read with. The newest row is always kept,
// because it has the entity's last number; so is the newest row that the index shows, because the rows behind it are looked for by key. Row 1 of
// several partitions is emptied, because it tells that the entity is not new.
func (j *journal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	last, shown, err := j.rows.newest(ctx, id)
	if err != nil {
		return err
	}
	if last == 0 {
		return j.rows.fits(ctx, id)
	}
	to = min(to, last)
	for it, err := range j.rows.read(ctx, numbered.Part{ID: id, From: 1, To: to, Fields: []string{j.columns.Deleted}, All: true}) {
		if err != nil {
			return err
		}
		remove := j.hard && j.rows.NumberOf(it) < shown
		if !remove && plan.Flag(it, j.columns.Deleted) {
			continue
		}
		op := j.deletion(id, it, remove)
		if remove && j.rows.NumberOf(it) == 1 && j.rows.scattered(id) {
			op.Key, op.Delete = nil, false
			if op.Put, err = j.row(akkawire.Record{Payload: annals.Payload{SerializerID: akkawire.BytesSerializer}, SeqNr: 1, ID: id}, true, j.rows.x.Now()); err != nil {
				return err
			}
		}
		if _, err := plan.Try(ctx, j.rows.x, op); err != nil {
			return err
		}
	}
	return nil
}

// deletion removes or flags a row of the entity.
func (j *journal) deletion(id annals.PersistenceID, it plan.Item, remove bool) plan.Op {
	op := plan.Op{Table: j.rows.Name, Key: j.rows.KeyOf(it), Delete: remove, Condition: "#id = :id", Names: map[string]string{"#id": j.columns.PersistenceID}, Values: plan.Item{":id": plan.S(string(id))}}
	if !remove {
		op.Update = "SET #deleted = :true"
		op.Names["#deleted"], op.Values[":true"] = j.columns.Deleted, plan.Bool(true)
	}
	return op
}

// SkipTo is ability.Skipper. It stores rows for the numbers after+1 and n that are flagged as deleted, as the plugin's deletes do. Row n has
// the last number, and row after+1 makes an append after the number after fail. The same transaction flags the last event.
func (j *journal) SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	last, err := j.LastSeqNr(ctx, id)
	if err != nil {
		return err
	}
	var event plan.Op // flags the last event
	conflict := &annals.Error{Kind: annals.ErrConflict, After: after, Last: last}
	switch {
	case last == n || last == after && after > 0:
		old, err := j.rows.ByKey(ctx, j.rows.x, id, last, last)
		if err != nil || last == n && len(old) == 1 && j.skipped(old[0]) {
			return err
		}
		if last == n || len(old) == 0 {
			return conflict
		}
		if err := j.DeleteTo(ctx, id, after-1); err != nil {
			return err
		}
		event = j.deletion(id, old[0], false)
	case last != after:
		return conflict
	}
	w := plan.Write{Refused: func(old []plan.Item, _ bool) error { return j.refusal(annals.Commit{ID: id, After: after}, old) }}
	for _, number := range slices.Compact([]annals.SeqNr{after + 1, n}) {
		it, err := j.row(akkawire.Record{Payload: annals.Payload{SerializerID: akkawire.BytesSerializer}, SeqNr: number, ID: id}, true, j.rows.x.Now())
		if err != nil {
			return err
		}
		w.Ops = append(w.Ops, plan.Create(j.rows.Name, it, j.columns.PersistenceID))
	}
	w.Ops[len(w.Ops)-1].Ours = func(old plan.Item) bool { return j.rows.OwnerOf(old) == id && j.skipped(old) }
	if after > 0 {
		w.Ops = slices.Insert(w.Ops, 0, event)
	}
	out, err := j.rows.x.Write(ctx, w)
	if err == nil && out.Repeated { // row n can be the row after+1 of another skip
		if last, err = j.LastSeqNr(ctx, id); err == nil && last != n {
			err = &annals.Error{Kind: annals.ErrConflict, Last: last}
		}
	}
	return err
}

// skipped reports whether a skip wrote a row.
func (j *journal) skipped(it plan.Item) bool {
	return plan.Flag(it, j.columns.Deleted) && j.writer(it) == ""
}
