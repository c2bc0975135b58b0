package j5ik2o

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/akkawire"
)

// snapshots is the snapshot table. It is an annals.SnapshotStore.
type snapshots struct {
	rows    rows
	columns SnapshotColumns
	legacy  bool
	events  *rows // of the journal; nil when there is none
}

// Save is annals.SnapshotStore. It replaces a snapshot of the same number, but not a row of another id.
func (s *snapshots) Save(ctx context.Context, sn annals.Snapshot) error {
	if err := akkawire.SnapshotFault(sn.Payload); err != nil {
		return plan.Misfit("%w", err)
	}
	it, err := s.rows.Key(sn.ID, sn.SeqNr)
	if err != nil {
		return err
	}
	it[s.columns.PersistenceID] = plan.S(string(sn.ID))
	it[s.columns.SequenceNr] = plan.N(sn.SeqNr)
	it[s.columns.Snapshot] = plan.B(akkawire.AppendSnapshot(nil, sn.Payload))
	if sn.Time.IsZero() {
		sn.Time = s.rows.x.Now()
	}
	it[s.columns.Created] = plan.N(sn.Time.UnixMilli())
	putMetadata(it, sn.Metadata)
	op := plan.Op{Table: s.rows.Name, Put: it}
	if !s.legacy {
		op.Condition = "attribute_not_exists(#id) OR #id = :id"
		op.Names, op.Values = map[string]string{"#id": s.columns.PersistenceID}, plan.Item{":id": plan.S(string(sn.ID))}
	}
	_, err = s.rows.x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func(old []plan.Item, _ bool) error {
		return plan.Collision(sn.ID, old[0], s.columns.PersistenceID)
	}})
	return err
}

// A read of several shards can miss the snapshot when a new one is saved and the old one deleted meanwhile. So Latest only returns that there
// is none if the index has none either, or after this many reads.
const (
	looksBesideIndex = 8
	looksAlone       = 3
)

// Latest is annals.SnapshotStore. A snapshot that the index does not show yet is found if events that it replaces are deleted.
func (s *snapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	found, ok, err := s.search(ctx, id, c)
	if err != nil || s.rows.keyed() || s.events == nil || c != (annals.SnapshotCriteria{}) {
		return found, ok, err
	}
	deleted, err := s.events.deletedTo(ctx, id, found.SeqNr)
	if err != nil || deleted == found.SeqNr {
		return found, ok, err
	}
	// Events are deleted after a snapshot that replaces them was acknowledged. So it is at the number of the last deleted event or above. Of
	// two snapshots the higher is saved before the lower is deleted. So numbers are read in ascending order, and those of one request as
	// they are at one moment.
	last, _, err := s.events.newest(ctx, id)
	if err == nil && last <= deleted { // the index shows none of the events after deleted
		last, err = s.events.Newest(ctx, s.rows.x, id, deleted, numbered.Lag)
	}
	for from := deleted; err == nil && from <= last; from += together {
		var rows []plan.Item
		if rows, err = s.rows.Together(ctx, s.rows.x, id, from, min(from+together-1, last)); len(rows) > 0 {
			return s.snapshot(id, rows[len(rows)-1])
		}
	}
	return found, ok, err
}

// search returns the newest snapshot that reads by key, or the index, show.
func (s *snapshots) search(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	for looks := 1; ; looks++ {
		found, ok, err := s.newest(ctx, id, c)
		if ok || err != nil || !s.rows.keyed() || s.legacy {
			return found, ok, err
		}
		most := looksAlone
		if s.rows.IDs != nil {
			most = looksBesideIndex
			if shown, err := s.shown(ctx, id, c); err != nil || !shown {
				return annals.Snapshot{}, false, err
			}
		}
		if looks == most {
			return annals.Snapshot{}, false, nil
		}
	}
}

// look is Latest without criteria, in few requests. It is for a reader that notices when it has missed a snapshot whose events are deleted, and
// then calls Latest. Where snapshots are in several partitions look asks the index for the newest.
func (s *snapshots) look(ctx context.Context, id annals.PersistenceID) (annals.Snapshot, bool, error) {
	if !s.rows.scattered(id) {
		return s.newest(ctx, id, annals.SnapshotCriteria{})
	}
	it, ok, err := s.rows.First(ctx, s.rows.x, numbered.Part{ID: id, To: annals.MaxSeqNr, Backward: true})
	if ok {
		err = s.rows.Misplaced(it)
	}
	if !ok || err != nil {
		return annals.Snapshot{}, false, err
	}
	n := s.rows.NumberOf(it)
	rows, err := s.rows.ByKey(ctx, s.rows.x, id, n, n)
	if err == nil && len(rows) == 1 {
		return s.snapshot(id, rows[0])
	}
	if err != nil {
		return annals.Snapshot{}, false, err
	}
	return s.newest(ctx, id, annals.SnapshotCriteria{}) // that one has been deleted
}

// newest returns the newest snapshot that one read finds.
func (s *snapshots) newest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	it, ok, err := plan.First(s.fitting(ctx, id, c, numbered.Part{Backward: true, Limit: 1}))
	if !ok || err != nil {
		return annals.Snapshot{}, false, err
	}
	return s.snapshot(id, it)
}

// fitting yields the rows of p that fit c.
func (s *snapshots) fitting(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria, p numbered.Part) iter.Seq2[plan.Item, error] {
	p.ID = id
	p.From, p.To, _ = plan.Numbers(c, 0)
	return plan.Picked(s.rows.read(ctx, p), func(it plan.Item) (plan.Item, bool, error) {
		if _, ok := plan.Number(it, s.columns.Created); !ok {
			return nil, false, s.rows.Corrupt(it, fmt.Errorf("column %q is not a whole number", s.columns.Created))
		}
		return it, plan.InTime(c, millis(it, s.columns.Created), time.Millisecond), nil
	})
}

// shown reports whether the index has a snapshot that a read by key must find.
func (s *snapshots) shown(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (bool, error) {
	from, to, _ := plan.Numbers(c, 0)
	it, ok, err := s.rows.First(ctx, s.rows.x, numbered.Part{ID: id, From: from, To: to, Backward: true})
	if !ok || err != nil {
		return false, err
	}
	if _, err := s.rows.Key(id, s.rows.NumberOf(it)); err != nil {
		return false, nil // such an id is read through the index
	}
	return true, s.rows.Misplaced(it)
}

// snapshot decodes a row.
func (s *snapshots) snapshot(id annals.PersistenceID, it plan.Item) (annals.Snapshot, bool, error) {
	n := s.rows.NumberOf(it)
	if _, err := s.rows.Key(id, n); s.rows.keyed() && err == nil && !s.rows.AtKey(id, it) {
		return annals.Snapshot{}, false, s.rows.Corrupt(it, fmt.Errorf("the number %d is not the one of its key", n))
	}
	d := decode(it)
	d.Require(s.columns.Snapshot)
	found := annals.Snapshot{ID: id, SeqNr: n, Time: millis(it, s.columns.Created), Metadata: d.metadata()}
	p, err := akkawire.ParseSnapshot(d.Bytes(s.columns.Snapshot))
	if err = cmp.Or(d.Fault, err); err != nil {
		return annals.Snapshot{}, false, s.rows.Corrupt(it, &ability.Damage{Code: ability.Snapshot, From: n, To: n, Err: err})
	}
	found.Payload = p
	return found, true, nil
}

// Delete is annals.SnapshotStore. It deletes the oldest first, each at the key that it was read with, on condition that it has not been replaced.
func (s *snapshots) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	if _, _, some := plan.Numbers(c, 0); !some {
		return nil
	}
	none := true
	for it, err := range s.fitting(ctx, id, c, numbered.Part{Fields: []string{s.columns.Created}}) {
		if err != nil {
			return err
		}
		none = false
		op := plan.Op{Table: s.rows.Name, Key: s.rows.KeyOf(it), Delete: true, Condition: "#id = :id AND #created = :created",
			Names:  map[string]string{"#id": s.columns.PersistenceID, "#created": s.columns.Created},
			Values: plan.Item{":id": plan.S(string(id)), ":created": it[s.columns.Created]}}
		if _, err := plan.Try(ctx, s.rows.x, op); err != nil {
			return err
		}
	}
	if none {
		return s.rows.fits(ctx, id)
	}
	return nil
}
