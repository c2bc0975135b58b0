package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

var idCases = []testCase{
	{id: "ID-1", about: "journal: entities with ids of all kinds and lengths do not mix", needs: needs(events), run: legalIDs},
	{id: "ID-2", about: "snapshots: entities with ids of all kinds and lengths do not mix", needs: needs(snapshots), run: legalSnapshotIDs},
	{id: "ID-3", about: "states: entities with ids of all kinds and lengths do not mix", needs: needs(states), run: legalStateIDs},
	{id: "ID-4", about: "illegal ids are refused by every operation, and nothing is written", run: illegalIDs},
	{id: "ID-5", about: "entities of the library have no events and no snapshots", run: reservedIDs},
	{id: "ID-7", about: "queries yield ids of all kinds, also by type", needs: needs(events, idQueries), run: queriedIDs},
	{id: "ID-8", about: "queries find the events of ids of all kinds by slice", needs: needs(events, eventQueries), run: slicesOfIDs},
}

// legal are ids that look like keys, patterns and paths of databases, or like each other.
func (h *harness) legal() []annals.PersistenceID {
	ids := []annals.PersistenceID{
		"a", "A", "|", "Thing|", "|a", "Thing", "Thing|a", "Thing|A", "Thing|a1", "Thin|ga", "Thing|a|b", "Thing|a-b", "Thing|a/b", "Thing|a b", "Thing|a ", " Thing|a", "Thing-a", "Thing/a",
		"Thing|a_b", "Thing|a%b", "Thing|a'b", `Thing|a"b`, `Thing|a\b`, "Thing|a;b", "Thing|a,b", "Thing|a:b", "Thing|a#b", "Thing|a$b", "Thing|a?b&c=d", "Thing|a\nb", "Thing|a\tb",
		"Thing|$${b}", "Thing|1", "Thing|01", "Thing|1.0", "Thing|-1", "Thing|null", "Thing|日本語", "Thing|😀", "😀|𝒳𝒴", "Thing|café", "Thing|cafe\u0301", "Thing|\u200b", "Thing|\x7f", "Thing|\uffff",
		annals.PersistenceID("Thing|" + strings.Repeat("x", 194)), annals.PersistenceID("Thing|" + strings.Repeat("x", 193)),
		annals.PersistenceID(strings.Repeat("😀", 50)),
	}
	l := h.caps.Limits
	most := cmp.Or(l.MaxIDBytes, 1000)
	longest := most // of characters of one byte
	if l.MaxIDChars > 0 {
		longest = min(longest, l.MaxIDChars)
		ids = append(ids, annals.PersistenceID("Thing|"+strings.Repeat("😀", min(l.MaxIDChars-6, (most-6)/4))))
	}
	ids = append(ids, annals.PersistenceID("Thing|"+strings.Repeat("y", longest-6)), annals.PersistenceID("Thing|"+strings.Repeat("y", longest-7)))
	return slices.DeleteFunc(ids, func(id annals.PersistenceID) bool {
		return len(id) > most || l.MaxIDChars > 0 && utf8.RuneCountInString(string(id)) > l.MaxIDChars
	})
}

// illegal are ids that every store refuses, by what is wrong with them.
func (h *harness) illegal() map[string]annals.PersistenceID {
	ids := map[string]annals.PersistenceID{
		"the empty id":                   "",
		"an id that is no UTF-8":         "Thing|\xff",
		"half a rune":                    "Thing|\xf0\x9f",
		"a surrogate":                    "Thing|\xed\xa0\x80",
		"U+0000 at the end":              "Thing|a\x00",
		"U+0000 at the beginning":        "\x00Thing|a",
		"an overlong encoding of U+0000": "Thing|\xc0\x80",
	}
	if limit := h.caps.Limits.MaxIDBytes; limit > 0 {
		ids[fmt.Sprintf("%d bytes where Limits.MaxIDBytes is %d", limit+1, limit)] = annals.PersistenceID("Thing|" + strings.Repeat("y", limit-5))
	}
	if limit := h.caps.Limits.MaxIDChars; limit > 0 {
		ids[fmt.Sprintf("%d characters where Limits.MaxIDChars is %d", limit+1, limit)] = annals.PersistenceID("Thing|" + strings.Repeat("é", limit-5))
	}
	return ids
}

func legalIDs(h *harness) {
	ids := h.legal()
	for i, id := range ids {
		h.write(id, 0, 1+i%3)
	}
	for i, id := range ids {
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, annals.SeqNr(1+i%3))
		h.wantLast(id, annals.SeqNr(1+i%3))
	}
	for i, id := range ids {
		if i%2 == 0 {
			h.deleteTo(id, annals.MaxSeqNr)
		}
	}
	for i, id := range ids {
		first := annals.SeqNr(1)
		if i%2 == 0 {
			first = annals.SeqNr(2 + i%3)
		}
		h.wantReplay(id, 1, annals.MaxSeqNr, first, annals.SeqNr(1+i%3))
	}
}

func legalSnapshotIDs(h *harness) {
	ids := h.legal()
	for i, id := range ids {
		h.saveSnapshot(snapshotOf(id, annals.SeqNr(i+1)))
	}
	for i, id := range ids {
		h.wantSnapshot(id, annals.SnapshotCriteria{}, annals.SeqNr(i+1))
	}
	for i, id := range ids {
		if i%2 == 0 {
			h.deleteSnapshots(id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
		}
	}
	for i, id := range ids {
		h.wantSnapshot(id, annals.SnapshotCriteria{}, annals.SeqNr(i%2*(i+1)))
	}
}

func legalStateIDs(h *harness) {
	ids := slices.DeleteFunc(h.legal(), func(id annals.PersistenceID) bool {
		if len(id) <= 1000 {
			return false
		}
		// In some tables a state's key is shorter than an event's: the store refuses such an id.
		_, _, err := h.store.States().Get(h.ctx, id)
		return errors.Is(err, annals.ErrInvalid)
	})
	for i, id := range ids {
		for after := range annals.SeqNr(1 + i%3) {
			h.put(id, after)
		}
	}
	for i, id := range ids {
		h.wantState(id, annals.SeqNr(1+i%3))
	}
}

func illegalIDs(h *harness) {
	legal := h.operations(h.store, "Thing|legal")
	for what, id := range h.illegal() {
		for i, op := range h.operations(h.store, id) {
			if op.claimed && legal[i].id != "" { // it is about one entity
				h.wantKind(op.run(h.ctx, h.store), annals.ErrInvalid, "%s of %s", op.name, what)
			}
		}
		if h.caps.Events {
			_, err := ability.Recover(h.ctx, withoutAbilities{h.store}, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
			h.wantKind(err, annals.ErrInvalid, "recovery without the store's own of %s", what)
		}
	}
	h.wantNothing()
}

// wantNothing checks that no entity is known.
func (h *harness) wantNothing() {
	h.Helper()
	if h.caps.IDQueries {
		h.wantIDs("", nil)
	}
	if h.caps.StateQueries {
		h.wantStates("query states after refused writes", h.queryStates(annals.Filter{}, 0), nil)
	}
}

// reserved is the id of an entity of the library, which has no events.
const reserved annals.PersistenceID = "annals.storetest|1"

func reservedIDs(h *harness) {
	if h.caps.Events {
		_, err := h.journal().Append(h.ctx, h.commit(reserved, 0, 1))
		h.wantKind(err, annals.ErrInvalid, "append to an entity of the library")
	}
	if h.caps.Snapshots {
		h.wantKind(h.store.Snapshots().Save(h.ctx, snapshotOf(reserved, 1)), annals.ErrInvalid, "save a snapshot of an entity of the library")
	}
	if h.caps.StateEvents {
		_, err := h.store.States().Put(h.ctx, withEvent(stateWrite(reserved, 0)))
		h.wantKind(err, annals.ErrInvalid, "put a state of the library with an event")
	}
	h.wantNothing()
}

func queriedIDs(h *harness) {
	ids := h.legal()
	for _, id := range ids {
		h.write(id, 0, 1)
	}
	h.wantIDs("", ids)
	var things []annals.PersistenceID
	for _, id := range ids {
		if id.Type() == "Thing" {
			things = append(things, id)
		}
	}
	h.wantIDs("Thing", things)
}

func slicesOfIDs(h *harness) {
	slice, inSlice := annals.PersistenceID("Thing|😀").Slice(), 0
	for _, id := range h.legal() {
		h.write(id, 0, 1)
		if id.Slice() == slice {
			inSlice++
		}
	}
	got := h.queryEvents(annals.Filter{Slices: annals.SliceRange{From: slice, To: slice + 1}}, inSlice)
	h.wantEqual(len(got), inSlice, "events in the slice of %q", "Thing|😀")
}
