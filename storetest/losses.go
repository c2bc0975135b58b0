package storetest

import (
	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// lossCases are about events that were lost, and not deleted by DeleteTo.
var lossCases = []testCase{
	{id: "LOSS-1", about: "a replay or a recovery with an event missing between others is ErrCorrupt", needs: needs(events, loseEvent), run: replayOfALoss},
	{id: "LOSS-3", about: "any event that was lost is ErrCorrupt, also in front of all others and behind a snapshot", needs: needs(events, loseEvent), run: anyLoss},
}

// lossy is an entity with the events 1 … last without the event lost.
func (h *harness) lossy(last, lost annals.SeqNr) annals.PersistenceID {
	h.Helper()
	id := h.id()
	for after := range last {
		h.write(id, after, 1)
	}
	h.cfg.LoseEvent(h, h.store, id, lost)
	return id
}

func replayOfALoss(h *harness) {
	for _, lost := range []annals.SeqNr{2, 4, 6} {
		id := h.lossy(7, lost)
		es, err := collect(h.journal().Replay(h.ctx, id, 1, annals.MaxSeqNr))
		h.wantKind(err, annals.ErrCorrupt, "replay of 7 events without %d, after %s", lost, span(es))
		if len(es) >= int(lost) {
			h.Errorf("replay of 7 events without %d: got %s, want none after the loss", lost, span(es))
		}
		h.wantReplay(id, 1, lost-1, 1, lost-1)
		h.wantReplay(id, lost+1, annals.MaxSeqNr, lost+1, 7)
		if lost == 6 && h.caps.Snapshots {
			h.saveSnapshot(snapshotOf(id, 2))
		}
		for _, s := range []annals.Store{h.store, withoutAbilities{h.store}} {
			_, _, err := h.recover(s, id)
			h.wantKind(err, annals.ErrCorrupt, "recovery of 7 events without %d", lost)
		}
	}
}

// anyLoss takes each event but the newest away, of entities with and without a snapshot and deleted events. Only a delete or a snapshot may
// cover for it.
func anyLoss(h *harness) {
	const last = 7
	for _, snapshot := range []annals.SeqNr{0, 3} {
		if snapshot > 0 && !h.caps.Snapshots {
			continue
		}
		for _, deleted := range []annals.SeqNr{0, 2, 4} {
			for lost := deleted + 1; lost < last; lost++ {
				id := h.id()
				for after := range annals.SeqNr(last) {
					h.write(id, after, 1)
				}
				covered := snapshot
				switch {
				case snapshot > 0:
					h.saveSnapshot(snapshotOf(id, snapshot))
				case h.caps.Limits.FirstSnapshot: // the first commit has one
					covered = 1
				}
				h.deleteTo(id, deleted)
				h.cfg.LoseEvent(h, h.store, id, lost)
				_, err := collect(h.journal().Replay(h.ctx, id, 1, annals.MaxSeqNr))
				h.wantKind(err, annals.ErrCorrupt, "replay of 7 events without %d, %d deleted", lost, deleted)
				for _, s := range []annals.Store{h.store, withoutAbilities{h.store}} {
					end, err := ability.Recover(h.ctx, s, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
					if lost > covered {
						h.wantKind(err, annals.ErrCorrupt, "recovery of 7 events without %d, %d deleted, snapshot of %d", lost, deleted, snapshot)
					} else if err != nil || end != last {
						h.Errorf("recovery of 7 events without %d, %d deleted, snapshot of %d: last number %d, %v", lost, deleted, snapshot, end, err)
					}
				}
			}
		}
	}
}
