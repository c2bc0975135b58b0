package verify

import (
	"cmp"
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

// The types of the durable states in which the library keeps what belongs to a projection, a process manager or a lease.
const (
	recordType   = "annals.projection"
	parkedType   = "annals.parked"
	slicesType   = "annals.parked-slices"
	leaseType    = "annals.lease"
	calendarType = "annals.calendar"
	chunkType    = "annals.calendar-chunk"
)

// mostCodec is how many findings an entity has of events, and of snapshots, that no codec reads. The last is of all further ones.
const mostCodec = 100

// look checks one entity.
func (r *run) look(id annals.PersistenceID) ([]Finding, error) {
	var found []Finding
	unread := map[ability.StoredKind][]*ability.Damage{}
	internal, there := progress.Internal(id), false
	var later error // of a payload that cannot be decoded now, which says nothing of it
	see := func(p ability.Stored) {
		there = true
		var err error
		if internal && !json.Valid(p.Payload.Data) {
			err = errors.New("the library's own data are no JSON")
		} else if !internal && r.Decode != nil && later == nil {
			err = r.Decode(id, p)
		}
		if errors.Is(err, annals.ErrUnavailable) {
			later = &annals.Error{Op: "verify", ID: id, Kind: annals.ErrUnavailable, Err: fmt.Errorf("%s %d: %w", p.Kind, p.SeqNr, err)}
			return
		}
		if err == nil {
			return
		}
		all := unread[p.Kind]
		if n := len(all); n > 0 && (all[n-1].To+1 == p.SeqNr || n == mostCodec) { // snapshots come with the greatest number first
			all[n-1].From, all[n-1].To = min(all[n-1].From, p.SeqNr), max(all[n-1].To, p.SeqNr)
			return
		}
		d := &ability.Damage{Code: Codec, ID: id, From: p.SeqNr, To: p.SeqNr, Err: fmt.Errorf("%s %d: %w", p.Kind, p.SeqNr, err)}
		unread[p.Kind] = append(all, d)
		found = append(found, Finding{Damage: d})
	}
	damage, err := r.checker.Check(r.ctx, id, see)
	if err := cmp.Or(err, later); err != nil {
		return nil, err
	}
	for _, d := range damage {
		found = append(found, Finding{Damage: d})
	}
	if internal && there {
		kept, err := r.kept(id)
		if err != nil {
			return nil, err
		}
		found = append(found, kept...)
	}
	return distinct(found, Finding.compare), nil
}

// distinct sorts found, and removes what is there twice.
func distinct(found []Finding, compare func(f, g Finding) int) []Finding {
	slices.SortStableFunc(found, compare)
	return slices.CompactFunc(found, func(f, g Finding) bool { return compare(f, g) == 0 })
}

// agreed is what first and second have in common: also a part of a range of numbers. Both are sorted, and each comparison passes a finding of one of them.
func agreed(first, second []Finding, about func(f, g Finding) int) (both []Finding) {
	for len(first) > 0 && len(second) > 0 {
		f, g := first[0], second[0]
		order := about(f, g)
		if from, to := max(f.From, g.From), min(f.To, g.To); order == 0 && from <= to {
			d := *g.Damage
			d.From, d.To = from, to
			both = append(both, Finding{&d, f.Projection})
		}
		if order < 0 || order == 0 && f.To < g.To {
			first = first[1:]
		} else {
			second = second[1:]
		}
	}
	return both
}

// kept checks what the library keeps for a projection, a process manager or a lease.
func (r *run) kept(id annals.PersistenceID) ([]Finding, error) {
	name := id.EntityID()
	unused := func(projection, format string) []Finding {
		return []Finding{{&ability.Damage{Code: Unused, ID: id, Err: fmt.Errorf(format, quote.Text(name))}, projection}}
	}
	switch kind := id.Type(); kind {
	case recordType:
		if !slices.Contains(r.listed, name) {
			r.listed = append(r.listed, name)
		}
		found, err := r.projection(name)
		if !r.runs(name) {
			found = append(found, unused(name, "nothing runs projection %s")...)
		}
		return found, err
	case leaseType, calendarType:
		if !r.runs(name) {
			return unused("", "nothing that runs has the "+strings.TrimPrefix(kind, "annals.")+" %s"), nil
		}
	case parkedType, slicesType:
		if kind == parkedType {
			_, name, _ = strings.Cut(name, "/")
		}
		name = strings.TrimPrefix(name, progress.PastName("")) // what waited before a reset
		if there, err := r.there(recordType, name); err != nil || !there {
			return unused(name, "parked entities of projection %s, which has no record"), err
		}
	case chunkType:
		_, name, _ = strings.Cut(name, "/")
		if there, err := r.there(calendarType, name); err != nil || !there {
			return unused("", "timers of calendar %s, which has no record"), err
		}
	}
	return nil, nil
}

// there reports whether there is a record: also one that cannot be read, which is found with it.
func (r *run) there(kind, name string) (bool, error) {
	_, there, err := r.store.States().Get(r.ctx, annals.NewPersistenceID(kind, name))
	if unreadable(err) {
		return true, nil
	}
	return there, err
}

// runs reports whether a projection or a lease of that name is among those that run, or belongs to a process manager that does: it has a calendar of its
// type, a lease of the calendar, and the projections that package process names.
func (r *run) runs(name string) bool {
	name = strings.TrimPrefix(name, calendarType+"/")
	return r.Running == nil || slices.ContainsFunc(r.Running, func(running string) bool {
		own, of := strings.CutPrefix(name, running)
		return of && (own == "" || own == "/steps" || strings.HasPrefix(own, "/from/"))
	})
}

// unlisted checks the projections of Options.Running that have no record in the store, such as those of other systems.
func (r *run) unlisted() error {
	if r.scanner == nil || r.Type != "" || !r.store.Capabilities().Offsets {
		return nil
	}
	for _, name := range r.Running {
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

// projection compares a position with the events in the store that the projection reads. An entity that is not there was forgotten; one whose newest event is
// later has begun again.
func (r *run) projection(name string) (found []Finding, err error) {
	if !r.store.Capabilities().Offsets {
		return nil, nil
	}
	source, where := r.store, "in this store"
	if s, ok := r.Sources[name]; ok {
		source, where = s, "in the store of its events"
	}
	positions, err := r.store.Offsets().Load(r.ctx, name, annals.SliceRange{})
	if unreadable(err) {
		return []Finding{{&ability.Damage{Code: Position, Err: err}, name}}, nil
	}
	for _, p := range positions {
		for _, o := range append([]annals.Offset{p.Through}, p.Offsets...) {
			if o.ID == "" || o.SeqNr == 0 {
				continue
			}
			number, at, err := newest(r.ctx, source, o.ID)
			switch {
			case unreadable(err), errors.Is(err, annals.ErrTruncated):
			case err != nil:
				return found, err
			case 0 < number && number < o.SeqNr && !at.IsZero() && !at.After(o.Time):
				found = append(found, Finding{&ability.Damage{Code: Position, ID: o.ID, From: number + 1, To: o.SeqNr,
					Err: fmt.Errorf("projection %s has handled number %d, the newest %s is %d", quote.Text(name), o.SeqNr, where, number)}, name})
			}
		}
	}
	return found, err
}
