package akka

import (
	"context"
	"errors"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// ReplayLimit is the plugin's replay with a limit: it takes the first limit of the stored events of id from … to, and yields those of them
// that are not of a batch that is incomplete, because of the limit or because events of it were never stored. So there can be
// fewer than limit events although more follow. A limit that is not positive yields nothing.
func ReplayLimit(ctx context.Context, s annals.Store, id annals.PersistenceID, from, to annals.SeqNr, limit int) iter.Seq2[annals.Event, error] {
	return plan.Each(ctx, s, plan.Function{Op: "replay", ID: id}, func(ctx context.Context, j *journal) iter.Seq2[annals.Event, error] {
		if limit < 1 {
			return func(func(annals.Event, error) bool) {}
		}
		return driver.Replay(ctx, &reader{journal: j, id: id, limit: limit}, max(from, 1), to)
	})
}

// reader is a driver.Reader of an entity. A delete sets the mark of the lowest number, then it removes rows in ascending order, and it leaves
// the entity's last row.
type reader struct {
	*journal
	id    annals.PersistenceID
	limit int // of stored events; 0 is none

	marks  marks // as they were read last
	begun  bool  // Begin has read the marks, for a recovery
	events []annals.Event
	around surroundings
}

// Begin is driver.Reader. The marks are read before the snapshot, so a snapshot that replaces deleted events is found. The newest by time may
// be an older one, whose next events are deleted: then it is the one with the highest number.
func (r *reader) Begin(ctx context.Context, _ bool) (b driver.Beginning, err error) {
	if r.marks, err = r.journal.marks(ctx, r.id); err != nil {
		return b, err
	}
	r.begun, r.around = true, surroundings{}
	if r.snapshots == nil {
		return driver.Beginning{Settled: annals.MaxSeqNr}, nil
	}
	b.Settled = r.marks.deleted()
	b.Snapshot, b.Found, err = r.snapshots.Latest(ctx, r.id, annals.SnapshotCriteria{})
	if r.snapshots.byTime && err == nil && b.Snapshot.SeqNr < b.Settled {
		higher, ok, err := r.snapshots.Latest(ctx, r.id, annals.SnapshotCriteria{MinSeqNr: b.Snapshot.SeqNr + 1})
		if ok {
			b.Snapshot, b.Found = higher, true
		}
		return b, err
	}
	return b, err
}

func (r *reader) Rows(ctx context.Context, from, to annals.SeqNr) iter.Seq2[driver.Part, error] {
	return func(yield func(driver.Part, error) bool) {
		err := error(nil)
		if !r.begun {
			r.marks, err = r.journal.marks(ctx, r.id)
		}
		for err == nil {
			p := driver.Part{Deleted: r.marks.deleted()}
			if r.limit == 0 {
				p.Last = max(r.marks.high, p.Deleted)
			}
			if !yield(p, nil) || max(from, r.marks.low) > to {
				return
			}
			s := series{reader: r, from: from, begin: max(from, r.marks.low), to: to, batches: batches{low: r.marks.low}, yield: yield}
			if r.begun { // the row before: when it is the last one, no event behind it has been deleted
				s.begin = max(s.begin-1, 1)
			}
			before, faulty := r.marks, s.run(ctx)
			if err = faulty; !errors.Is(err, errEmpty) {
				break
			}
			if r.marks, err = r.journal.marks(ctx, r.id); err == nil && r.marks == before {
				err = faulty // else many groups were emptied while they were read
			}
		}
		if err != nil && err != errLeft { //nolint:errorlint // returned as it is
			yield(driver.Part{}, err)
		}
	}
}

// errLeft ends a read whose caller has left the loop, or has got as many events as it wants.
var errLeft = errors.New("the read has been left")

// series reads the rows of an entity once.
type series struct {
	*reader
	from, to annals.SeqNr // events to yield
	begin    annals.SeqNr // the first number to read: from, or the one before
	batches  batches
	last     row  // the last row; that of number 0 before the first
	counted  int  // rows from … to
	paged    bool // a group had several pages
	yield    func(driver.Part, error) bool
}

// run yields the events of the rows, group after group. Groups are read in parallel, so a group can be read before events are written to it, and
// the next group after.
func (s *series) run(ctx context.Context) error {
	for p, err := range s.read(ctx, s.id, span{from: s.begin, to: s.to, high: s.marks.high, most: mostEmpty}) {
		if err != nil {
			return err
		}
		s.paged = s.paged || !p.last
		if err := s.page(ctx, p.rows); err != nil {
			return err
		}
	}
	if err := s.complete(ctx); err != nil {
		return err
	}
	return s.end(ctx)
}

// page yields the events of the batches that rows complete.
func (s *series) page(ctx context.Context, rows []row) (err error) {
	for _, w := range rows {
		if s.last.n == 0 && w.first < s.begin {
			if err = s.widen(ctx, w.first); err != nil {
				break
			}
		}
		if err = s.show(s.batches.add(w)); err != nil {
			break
		}
		if s.last = w; w.n >= s.from {
			s.counted++
		}
		if s.counted == s.limit && s.limit > 0 {
			err = errLeft
			break
		}
	}
	if len(s.events) > 0 && !s.yield(driver.Part{Events: s.events}, nil) {
		err = errLeft
	}
	s.events = s.events[:0]
	return err
}

// show decodes the events of rows, as far as they were asked for.
func (s *series) show(rows []row) error {
	for _, w := range rows {
		if w.n < s.from || w.n > s.to {
			continue
		}
		e, live, err := s.event(s.id, w)
		if err != nil {
			return err
		}
		if live {
			s.events = append(s.events, e)
		}
	}
	return nil
}

// batchFields are the attributes of rows that only complete a batch.
var batchFields = []string{attrPar, attrNum, attrIndex, attrCount}

// widen reads the first rows of a batch, which are in front of s.begin.
func (s *series) widen(ctx context.Context, first annals.SeqNr) error {
	rows, err := s.rowsOf(ctx, span{from: max(first, s.marks.low), to: s.begin - 1, high: s.begin, most: mostEmpty, fields: batchFields})
	for _, w := range rows {
		s.batches.add(w)
	}
	return err
}

// complete reads the rest of a batch: that in which s.to is, or one that was written while its first group was read, after the next group.
func (s *series) complete(ctx context.Context) error {
	last := s.batches.unfinished()
	if last == 0 {
		return nil
	}
	for p, err := range s.read(ctx, s.id, span{from: s.last.n + 1, to: last}) {
		if err != nil {
			return err
		}
		for _, w := range p.rows {
			if !s.batches.continues(w) {
				return nil
			}
			if err := s.page(ctx, []row{w}); err != nil {
				return err
			}
		}
	}
	return nil
}

// end tells the last number, and looks whether events behind the last row have been deleted during the read. There are none if the row is in the
// highest marked group and was read together with what is behind it: a delete leaves an entity's last row.
func (s *series) end(ctx context.Context) (err error) {
	p, m := driver.Part{Last: s.last.n}, &s.reader.marks
	switch {
	case s.last.n >= s.to:
	case s.to < annals.MaxSeqNr:
		p.Last, err = s.journal.last(ctx, s.id, *m)
	case s.last.n > 0 && groupOf(s.last.n) >= groupOf(m.high) && !s.paged:
	case s.last.n > 0 || s.begun:
		var low annals.SeqNr
		low, err = s.lowMark(ctx, s.id)
		m.low = max(m.low, low)
		p.Deleted = m.deleted()
	}
	if s.to == annals.MaxSeqNr && s.last.n > 0 {
		s.learn(s.id, max(s.last.n, m.high), m.high)
	}
	if err == nil && !s.yield(p, nil) {
		err = errLeft
	}
	return err
}
