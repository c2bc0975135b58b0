package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/progress"
	"github.com/annals-go/annals/internal/quote"
)

// The types of the durable states in which projections keep their own data.
const (
	recordType = "annals.projection"
	parkedType = "annals.parked"
	slicesType = "annals.parked-slices"
)

// mostCodec is how many findings an entity has of payloads that no codec reads. The last is of all further events.
const mostCodec = 100

// look checks one entity.
func (r *run) look(id annals.PersistenceID) ([]Finding, error) {
	var found []Finding
	internal, there := progress.Internal(id), false
	see := func(p ability.Stored) {
		there = true
		var err error
		if internal && !json.Valid(p.Payload.Data) {
			err = errors.New("the library's own data are no JSON")
		} else if !internal && r.Decode != nil {
			err = r.Decode(id, p)
		}
		if err == nil {
			return
		}
		if n := len(found); n > 0 && p.Kind == ability.StoredEvent && (found[n-1].To+1 == p.SeqNr || n == mostCodec) {
			found[n-1].To = max(found[n-1].To, p.SeqNr) // a run of events
			return
		}
		found = append(found, Finding{Damage: &ability.Damage{Code: Codec, ID: id, From: p.SeqNr, To: p.SeqNr, Err: fmt.Errorf("%s %d: %w", p.Kind, p.SeqNr, err)}})
	}
	damage, err := r.checker.Check(r.ctx, id, see)
	if err != nil {
		return nil, err
	}
	all := make([]Finding, 0, len(damage)+len(found))
	for _, d := range damage {
		all = append(all, Finding{Damage: d})
	}
	for _, f := range found {
		all = add(all, f)
	}
	if !internal || !there {
		return all, nil
	}
	kept, err := r.kept(id)
	return append(all, kept...), err
}

// kept checks what the library keeps for a projection.
func (r *run) kept(id annals.PersistenceID) ([]Finding, error) {
	name := id.EntityID()
	switch id.Type() {
	case recordType:
		if !slices.Contains(r.listed, name) {
			r.listed = append(r.listed, name)
		}
		return r.projection(name)
	case parkedType:
		_, name, _ = strings.Cut(name, "/")
	case slicesType:
	default:
		return nil, nil
	}
	_, there, err := r.store.States().Get(r.ctx, annals.NewPersistenceID(recordType, name))
	if err != nil || there {
		if errors.Is(err, annals.ErrCorrupt) { // found with the record
			err = nil
		}
		return nil, err
	}
	return []Finding{{&ability.Damage{Code: Gone, ID: id, Err: fmt.Errorf("parked entities of projection %s, which has no record", quote.Text(name))}, name}}, nil
}

// unlisted checks the projections of Options.Projections that have no record in the store, such as those of other systems.
func (r *run) unlisted() error {
	if r.scanner == nil || r.Type != "" || !r.store.Capabilities().Offsets {
		return nil
	}
	for _, name := range r.Projections {
		if slices.Contains(r.listed, name) {
			continue
		}
		found, err := r.projection(name)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			if err := r.give(Step{Found: found}); err != nil {
				return err
			}
		}
	}
	return nil
}

// projection compares a position with what exists. An entity that is not there was forgotten, or is in another store; one whose newest event is later has
// begun again.
func (r *run) projection(name string) (found []Finding, err error) {
	if r.Projections != nil && !slices.Contains(r.Projections, name) {
		found = append(found, Finding{&ability.Damage{Code: Gone, Err: fmt.Errorf("projection %s is none of the program's", quote.Text(name))}, name})
	}
	if !r.store.Capabilities().Offsets {
		return found, nil
	}
	positions, err := r.store.Offsets().Load(r.ctx, name, annals.SliceRange{})
	if errors.Is(err, annals.ErrCorrupt) {
		return append(found, Finding{&ability.Damage{Code: Position, Err: err}, name}), nil
	}
	for _, p := range positions {
		for _, o := range append([]annals.Offset{p.Through}, p.Offsets...) {
			if o.ID == "" || o.SeqNr == 0 {
				continue
			}
			number, at, err := newest(r.ctx, r.store, o.ID)
			switch {
			case errors.Is(err, annals.ErrCorrupt), errors.Is(err, annals.ErrTruncated):
			case err != nil:
				return found, err
			case 0 < number && number < o.SeqNr && !at.IsZero() && !at.After(o.Time):
				found = add(found, Finding{&ability.Damage{Code: Position, ID: o.ID, From: number + 1, To: o.SeqNr,
					Err: fmt.Errorf("projection %s has handled number %d, the newest is %d", quote.Text(name), o.SeqNr, number)}, name})
			}
		}
	}
	return found, err
}
