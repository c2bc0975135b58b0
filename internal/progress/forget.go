package progress

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/annals-go/annals"
)

// recordType is the type of the durable state with the record of a projection, whose entity id is the name.
const recordType = "annals.projection"

// Names returns names and those of the projections that have been run on s, where s can list them.
func Names(ctx context.Context, s annals.Store, names []string) ([]string, error) {
	all := slices.Clone(names)
	if c := s.Capabilities(); !c.IDQueries || !c.States {
		return all, nil
	}
	for id, err := range s.Query().IDs(ctx, recordType, "") {
		if err != nil {
			return nil, err
		}
		if name := strings.TrimPrefix(string(id), recordType+"|"); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all, nil
}

// PastName is the name under which a store keeps what projection had handled before it was reset.
func PastName(projection string) string { return "annals.past|" + projection }

// Forget removes what projection keeps in s of an entity whose events are deleted: its offsets, and its entry among the parked entities, also those
// before a reset. Runners that are running then read the parked entities again.
func Forget(ctx context.Context, s annals.Store, projection string, id annals.PersistenceID) error {
	return errors.Join(forget(ctx, s, PastName(projection), id), forgetThrough(ctx, s, PastName(projection), id), forget(ctx, s, projection, id))
}

// forgetThrough takes id out of the Throughs of past, which no runner replaces by later ones. Events of other entities with the same time and
// number count as not handled then, and those that Save has not stored again when it fails.
func forgetThrough(ctx context.Context, s annals.Store, past string, id annals.PersistenceID) error {
	positions, err := s.Offsets().Load(ctx, past, annals.SliceRange{})
	if err != nil {
		return err
	}
	for _, p := range positions {
		if p.Through.ID != id {
			continue
		}
		p.Through.ID = ""
		if err := s.Offsets().Reset(ctx, past, p.Slices, p.Through); err != nil { // takes back the offsets after it, too
			return err
		}
		if err := SaveOffsets(ctx, s, annals.Progress{Projection: past, Slices: p.Slices, Offsets: p.Offsets}); err != nil {
			return err
		}
	}
	return nil
}

// SaveOffsets saves p, in as many steps as Limits.MaxOffsets of the store asks for. It saves nothing when p has no offsets.
func SaveOffsets(ctx context.Context, s annals.Store, p annals.Progress) error {
	for offsets := range slices.Chunk(p.Offsets, cmp.Or(s.Capabilities().Limits.MaxOffsets, len(p.Offsets), 1)) {
		p.Offsets = offsets
		if err := s.Offsets().Save(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func forget(ctx context.Context, s annals.Store, projection string, id annals.PersistenceID) error {
	if err := s.Offsets().Forget(ctx, projection, id); err != nil || !s.Capabilities().States {
		return err
	}
	// The entry becomes an order to discard all events, is removed last, and is there until then: so Forget can be repeated after an error. A runner
	// that has read the order removes the entry, too.
	parked := ParkedID(projection, id.Slice())
	found, err := change(ctx, s, parked, func(entries map[string]json.RawMessage) (bool, error) {
		var entry map[string]json.RawMessage
		text, found := entries[string(id)]
		if !found {
			return false, nil
		}
		if err := json.Unmarshal(text, &entry); err != nil {
			return false, err
		}
		entry["retry"], entry["discardTo"] = json.RawMessage("true"), json.RawMessage(fmt.Sprint(int64(annals.MaxSeqNr)))
		text, err := json.Marshal(entry)
		entries[string(id)] = text
		return true, err
	})
	if err != nil || !found {
		return err
	}
	if _, err = change(ctx, s, annals.NewPersistenceID(recordType, projection), func(record map[string]json.RawMessage) (bool, error) {
		var orders int64
		if text, ok := record["orders"]; ok {
			if err := json.Unmarshal(text, &orders); err != nil {
				return false, err
			}
		}
		record["orders"] = json.RawMessage(fmt.Sprint(orders + 1))
		return true, nil
	}); err != nil {
		return err
	}
	_, err = change(ctx, s, parked, func(entries map[string]json.RawMessage) (bool, error) {
		_, found := entries[string(id)]
		delete(entries, string(id))
		return found, nil
	})
	return err
}

// change changes the JSON object in the durable state id, again while another process saves first. Where there is no state nothing is changed.
func change(ctx context.Context, s annals.Store, id annals.PersistenceID, fn func(object map[string]json.RawMessage) (changed bool, err error)) (changed bool, err error) {
	for {
		state, ok, err := s.States().Get(ctx, id)
		if err != nil || !ok {
			return false, err
		}
		var object map[string]json.RawMessage
		if err = json.Unmarshal(state.Data, &object); err == nil {
			changed, err = fn(object)
		}
		if err != nil {
			return false, &annals.Error{Op: "forget the progress of an entity", ID: id, Kind: annals.ErrCorrupt, Err: err}
		}
		if !changed {
			return false, nil
		}
		w := annals.StateWrite{ID: id, After: state.Revision, Payload: state.Payload}
		if w.Data, err = json.Marshal(object); err != nil {
			return false, err
		}
		if _, err = s.States().Put(ctx, w); !errors.Is(err, annals.ErrConflict) {
			return err == nil, err
		}
	}
}
