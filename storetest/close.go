package storetest

import (
	"context"
	"errors"
	"sync"

	"github.com/annals-go/annals"
)

var closeCases = []testCase{
	{id: "CLOSE-1", about: "a closed store answers ErrClosed", run: closedStore},
	{id: "CLOSE-2", about: "Close beside appends: each is acknowledged or ErrClosed", needs: needs(events), run: closeBesideAppends},
	{id: "CLOSE-3", about: "what was acknowledged before Close is there for the next", needs: needs(events, reopen), run: closeThenReopen},
}

func closedStore(h *harness) {
	id := annals.PersistenceID("Thing|closed")
	if h.caps.Events {
		h.write(id, 0, 3)
	}
	if err := h.store.Close(); err != nil {
		h.Fatalf("Close: got %v, want nil", err)
	}
	for _, op := range h.operations(id) {
		if op.claimed {
			h.wantKind(op.run(h.ctx), annals.ErrClosed, "%s of a closed store", op.name)
		}
	}
}

// operation is one call to a store, by the capability it belongs to.
type operation struct {
	name    string
	claimed bool
	run     func(ctx context.Context) error
}

// operations are calls that a store which claims them accepts.
func (h *harness) operations(id annals.PersistenceID) []operation {
	j, s, st, q, o := h.store.Journal(), h.store.Snapshots(), h.store.States(), h.store.Query(), h.store.Offsets()
	c := h.caps
	ops := []operation{
		{"append", c.Events, func(ctx context.Context) error { _, err := j.Append(ctx, h.commit(id, 3, 1)); return err }},
		{"replay", c.Events, func(ctx context.Context) error { _, err := collect(j.Replay(ctx, id, 1, annals.MaxSeqNr)); return err }},
		{"last number", c.Events, func(ctx context.Context) error { _, err := j.LastSeqNr(ctx, id); return err }},
		{"delete events", c.Events, func(ctx context.Context) error { return j.DeleteTo(ctx, id, 1) }},
		{"newest snapshot", c.Snapshots, func(ctx context.Context) error {
			_, _, err := s.Latest(ctx, id, annals.SnapshotCriteria{})
			return err
		}},
		{"save snapshot", c.Snapshots, func(ctx context.Context) error { return s.Save(ctx, snapshotOf(id, 1)) }},
		{"delete snapshots", c.Snapshots, func(ctx context.Context) error {
			return s.Delete(ctx, id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
		}},
		{"get state", c.States, func(ctx context.Context) error { _, _, err := st.Get(ctx, id); return err }},
		{"put state", c.States, func(ctx context.Context) error { _, err := st.Put(ctx, stateWrite(id, 0)); return err }},
		{"delete state", c.States, func(ctx context.Context) error { _, err := st.Delete(ctx, stateWrite(id, 0)); return err }},
		{"query events", c.EventQueries, func(ctx context.Context) error { _, err := collect(q.Events(ctx, annals.Filter{})); return err }},
		{"query ids", c.EventQueries, func(ctx context.Context) error { _, err := collect(q.IDs(ctx, "", "")); return err }},
		{"query the newest offset", c.EventQueries, func(ctx context.Context) error { _, err := q.Newest(ctx, annals.Filter{}); return err }},
		{"query states", c.StateQueries, func(ctx context.Context) error { _, err := collect(q.States(ctx, annals.Filter{})); return err }},
		{"load offsets", c.Offsets, func(ctx context.Context) error { _, err := o.Load(ctx, "p", annals.SliceRange{}); return err }},
		{"load an offset", c.Offsets, func(ctx context.Context) error { _, _, err := o.Handled(ctx, "p", id); return err }},
		{"save offsets", c.Offsets, func(ctx context.Context) error {
			return o.Save(ctx, annals.Progress{Projection: "p", Offsets: []annals.Offset{offsetAt(id, 1, 1)}})
		}},
		{"reset offsets", c.Offsets, func(ctx context.Context) error { return o.Reset(ctx, "p", annals.SliceRange{}, annals.Offset{}) }},
	}
	if f, ok := h.store.(annals.Forgetter); ok {
		for name, dry := range map[string]bool{"forget": false, "dry run of forget": true} {
			ops = append(ops, operation{name, c.Forgets, func(ctx context.Context) error {
				_, err := f.Forget(ctx, annals.Forgetting{ID: id, DryRun: dry})
				return err
			}})
		}
	}
	return ops
}

func closeBesideAppends(h *harness) {
	const writers = 4
	ids := make([]annals.PersistenceID, writers)
	for w := range ids {
		ids[w] = h.id()
	}
	errs := make([]error, writers+1)
	acked := make([]annals.SeqNr, writers)
	var once sync.Once
	begun := make(chan struct{}) // closed when a writer has its first answer
	together(writers+1, func(w int) {
		if w == writers {
			<-begun
			errs[w] = h.store.Close()
			return
		}
		for errs[w] == nil {
			var r annals.Receipt
			if r, errs[w] = h.journal().Append(h.ctx, h.commit(ids[w], acked[w], 1)); errs[w] == nil {
				acked[w] = r.SeqNr
			}
			once.Do(func() { close(begun) })
		}
	})
	if errs[writers] != nil {
		h.Errorf("Close beside appends: got error %v, want none", errs[writers])
	}
	for w, err := range errs[:writers] {
		if !errors.Is(err, annals.ErrClosed) {
			h.Errorf("append after %d beside Close: got error %v, want ErrClosed", acked[w], err)
		}
	}
	if h.cfg.Reopen == nil {
		return
	}
	h.store = h.cfg.Reopen(h, h.store)
	for w, id := range ids {
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, acked[w])
	}
}

func closeThenReopen(h *harness) {
	id := h.id()
	last := h.writeSizes(id, 0, 3, 1)
	h.deleteTo(id, 2)
	h.write(h.id(), 0, 1)
	if err := h.store.Close(); err != nil {
		h.Fatalf("Close: got %v, want nil", err)
	}
	h.store = h.cfg.Reopen(h, h.store)
	h.wantReplay(id, 1, annals.MaxSeqNr, 3, last)
	h.wantLast(id, last)
	h.wantRecoverable(id, last)
	h.write(id, last, 1)
	h.wantReplay(id, 1, annals.MaxSeqNr, 3, last+1)
}

// wantRecoverable demands that recovery finds the last number.
func (h *harness) wantRecoverable(id annals.PersistenceID, last annals.SeqNr) {
	h.Helper()
	if _, got, err := h.recover(h.store, id); err != nil || got != last {
		h.Errorf("recovery of %q: got last number %d, error %v, want %d", id, got, err, last)
	}
}
