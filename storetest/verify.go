package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/verifytest"
	"github.com/annals-go/annals/verify"
)

// verifyCases are about what package verify asks of a store. VERIFY-3 is in verifyload.go.
var verifyCases = []testCase{
	{id: "VERIFY-1", about: "a check finds nothing in a sound entity, and hands over all payloads", needs: needs(checker), run: checkSound},
	{id: "VERIFY-2", about: "a scan yields each entity that has a row, and goes on behind each of its steps", needs: needs(scanner), run: scanAll},
	{id: "VERIFY-3", about: "nothing is found in a sound store, whatever is written meanwhile", needs: needs(events, checker, scanner), run: soundUnderLoad},
	{id: "VERIFY-4", about: "each kind of damage is found, and nothing else", needs: needs(checker, scanner, damage), run: damageIsFound},
	{id: "VERIFY-5", about: "unreadable payloads, positions ahead of the events and what is not needed any more are found", needs: needs(events, times, states, offsets, checker, scanner), run: ownIsFound},
}

// sound writes entities in which everything is as it should be, and returns what a check of each hands over, sorted. Of snapshots it has the newest.
func (h *harness) sound() map[annals.PersistenceID][]string {
	h.Helper()
	all := map[annals.PersistenceID][]string{}
	if h.caps.Events {
		id, other, deleted := h.id(), h.idOf("Thin"), h.id()
		h.writeSizes(id, 0, 1, 3, 1)
		h.write(other, 0, 1)
		h.deleteTo(deleted, h.write(deleted, 0, 3))
		all[id], all[other], all[deleted] = []string{"event 1", "event 2", "event 3", "event 4", "event 5"}, []string{"event 1"}, nil
		if h.caps.Snapshots {
			h.saveSnapshot(snapshotOf(id, 5))
			all[id] = append(all[id], "snapshot 5")
		}
	}
	if h.caps.States {
		id, own := h.idOf("State"), annals.NewPersistenceID("annals.test", h.name)
		h.put(id, 0)
		h.put(id, 1)
		h.put(own, 0)
		all[id], all[own] = []string{"state 2"}, []string{"state 1"}
		if h.caps.DeletesStates {
			tombstone := h.idOf("State")
			h.put(tombstone, 0)
			h.deleteState(tombstone, 1)
			all[tombstone] = nil
		}
	}
	return all
}

func checkSound(h *harness) {
	all := h.sound()
	all[h.id()] = nil // has no rows
	for id, want := range all {
		var seen []string
		found, err := able[ability.Checker](h).Check(h.ctx, id, func(s ability.Stored) {
			wanted := payload(s.SeqNr)
			if s.Kind != ability.StoredEvent {
				wanted = statePayload(s.SeqNr)
			}
			if !equal(s.Payload, wanted) {
				h.Errorf("check of %q: got %s of %s %d, want %s", id, show(s.Payload), s.Kind, s.SeqNr, show(wanted))
			}
			if s.Kind != ability.StoredSnapshot || s.SeqNr == 5 {
				seen = append(seen, fmt.Sprintf("%s %d", s.Kind, s.SeqNr))
			}
		})
		if err != nil || len(found) > 0 {
			h.Errorf("check of %q: found %v, error %v, want nothing", id, found, err)
		}
		slices.Sort(seen)
		h.wantEqual(slices.Compact(seen), want, "what a check of %q hands over", id)
	}
}

func scanAll(h *harness) {
	all := slices.Sorted(maps.Keys(h.sound()))
	for _, entityType := range []string{"", "Thing", "Thin", "State", "annals.test", "None"} {
		of := slices.DeleteFunc(slices.Clone(all), func(id annals.PersistenceID) bool { return entityType != "" && id.Type() != entityType })
		ids, _ := h.scan(entityType, "", -1)
		h.wantEqual(ids, of, "ids of a scan of type %q", entityType)
	}
	var before []annals.PersistenceID
	for after, steps := "", 0; !h.Failed(); steps++ {
		ids, _ := h.scan("", after, -1)
		ids = append(ids, before...)
		slices.Sort(ids)
		h.wantEqual(slices.Compact(ids), all, "ids of a scan that goes on behind %q", after)
		first, next := h.scan("", after, 1)
		if next == "" {
			return
		}
		if before, after = append(before, first...), next; steps == 1_000 {
			h.Fatalf("a scan that goes on behind each of its steps: got no end after %d steps", steps)
		}
	}
}

// scan returns the ids of at most so many steps, sorted, and behind what the last one goes on; -1 are all steps.
func (h *harness) scan(entityType, after string, most int) (ids []annals.PersistenceID, last string) {
	h.Helper()
	for s, err := range able[ability.Scanner](h).Scan(h.ctx, entityType, after) {
		if err != nil || len(s.Damage) > 0 {
			h.Fatalf("scan of type %q behind %q: found %v, error %v, want nothing", entityType, after, s.Damage, err)
		}
		if last = s.After; s.ID != "" {
			ids = append(ids, s.ID)
		}
		if most--; most == 0 {
			break
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), last
}

// damageIsFound compares what is found with what Config.Damage has planted. Each kind that a store can have is planted, or said to be impossible.
func damageIsFound(h *harness) {
	s, want, impossible := h.cfg.Damage(h)
	defer func() { _ = s.Close() }()
	planted := map[ability.Code]bool{}
	for _, line := range want {
		code, _, _ := strings.Cut(line, " ")
		planted[ability.Code(code)] = true
	}
	for _, k := range verify.Kinds() {
		reason, cannot := impossible[k.Code]
		switch {
		case slices.Contains([]ability.Code{verify.Codec, verify.Position, verify.Unused}, k.Code): // VERIFY-5
		case !planted[k.Code] && (!cannot || reason == ""):
			h.Errorf("Config.Damage neither plants %q nor says why the store cannot have it", k.Code)
		case planted[k.Code] && cannot:
			h.Errorf("Config.Damage plants %q, and says that it is impossible: %s", k.Code, reason)
		}
	}
	verifytest.Want(h, s, verify.Options{}, want...)
}

func ownIsFound(h *harness) {
	id, other := h.id(), h.id()
	h.write(id, 0, 2)
	newest := h.append(h.commit(other, 0, 2)).Time
	through := annals.Offset{Time: newest.Add(time.Second), ID: other, SeqNr: 9}
	if err := h.store.Offsets().Save(h.ctx, annals.Progress{Projection: "ahead", Through: through}); err != nil {
		h.Fatalf("save offsets: got error %v, want none", err)
	}
	lease, broken := annals.NewPersistenceID("annals.lease", "unused"), annals.NewPersistenceID("annals.lease", "broken")
	for id, data := range map[annals.PersistenceID]string{lease: "{}", broken: "{"} {
		h.putState(annals.StateWrite{ID: id, Payload: annals.Payload{SerializerID: 31, Data: []byte(data)}, WriteID: annals.NewWriteID()})
	}
	o := verify.Options{Running: []string{"ahead", "broken"}, Decode: func(of annals.PersistenceID, p ability.Stored) error {
		if of == id && p.Kind == ability.StoredEvent {
			return errors.New("nothing reads it")
		}
		return nil
	}}
	verifytest.Want(h, h.store, o, fmt.Sprintf("codec %s 1 2", id), fmt.Sprintf("position %s 3 9 ahead", other), fmt.Sprintf("unused %s 0 0", lease), fmt.Sprintf("codec %s 1 1", broken))
}
