package verify_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/verifytest"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/verify"
)

// checked is a store whose Check is check.
type checked struct {
	annals.Store
	check func(annals.PersistenceID) ([]*ability.Damage, error)
}

func (c checked) Unwrap() annals.Store { return c.Store }

func (c checked) Check(_ context.Context, id annals.PersistenceID, _ func(ability.Stored)) ([]*ability.Damage, error) {
	return c.check(id)
}

func newStore(t *testing.T) annals.Store {
	t.Helper()
	s := memstore.New()
	for _, id := range []annals.PersistenceID{"T|a", "T|b", "T|c"} {
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 31}}}}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// No entity has an empty id, such as that of a variable which is not set: it is not sound.
func TestEmptyID(t *testing.T) {
	t.Parallel()
	for _, err := range verify.Store(t.Context(), newStore(t), verify.Options{IDs: []annals.PersistenceID{"T|a", ""}}) {
		if !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%v", err)
		}
	}
}

// A run goes on before the entity that it could not check, and before each that waits for its second look.
func TestGoesOnBeforeAFailure(t *testing.T) {
	t.Parallel()
	failure := errors.New("no connection")
	suspect := []*ability.Damage{{Code: ability.Missing, ID: "T|a", From: 1, To: 1, Err: failure}}
	for _, found := range [][]*ability.Damage{nil, suspect} {
		s := checked{newStore(t), func(id annals.PersistenceID) ([]*ability.Damage, error) {
			switch id {
			case "T|a":
				return found, nil
			case "T|b":
				return nil, failure
			}
			return nil, nil
		}}
		o, want := verify.Options{}, "T|a"
		if found != nil {
			o.Settle, want = time.Hour, ""
		}
		var last verify.Step
		var err error
		for last, err = range verify.Store(t.Context(), s, o) {
		}
		if !errors.Is(err, failure) || last.After != want {
			t.Errorf("%v: the last step is %+v, %v", found, last, err)
		}
	}
}

// What only one of the two looks finds is not reported, and of a range what both find.
func TestSecondLook(t *testing.T) {
	t.Parallel()
	looks := map[annals.PersistenceID]int{}
	s := checked{newStore(t), func(id annals.PersistenceID) ([]*ability.Damage, error) {
		damage := func(from, to annals.SeqNr) []*ability.Damage {
			return []*ability.Damage{{Code: ability.Missing, ID: id, From: from, To: to, Err: errors.New("lost")}}
		}
		looks[id]++
		switch second := looks[id] == 2; {
		case id == "T|a" && !second:
			return damage(5, 5), nil
		case id == "T|b" && second:
			return damage(7, 12), nil
		case id == "T|b":
			return damage(5, 9), nil
		case id == "T|c" && second:
			return damage(6, 6), nil
		case id == "T|c":
			return damage(5, 5), nil
		}
		return nil, nil
	}}
	var ids []annals.PersistenceID
	for step, err := range verify.Store(t.Context(), s, verify.Options{Settle: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		if ids = append(ids, step.ID); step.ID != "T|b" && step.Found != nil || step.ID == "T|b" && (len(step.Found) != 1 || step.Found[0].From != 7 || step.Found[0].To != 9) {
			t.Errorf("%+v", step)
		}
	}
	if slices.Sort(ids); !slices.Equal(ids, []annals.PersistenceID{"T|a", "T|b", "T|c"}) {
		t.Errorf("the steps are of %q", ids)
	}
}

// Options narrow a run to ids, to a type, and to entities with news. One without events has no time, so it may have news.
func TestNarrowed(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for id, n := range map[annals.PersistenceID]annals.SeqNr{"T|a": 5, "T|d": 1, "U|a": 1} {
		if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: id, SeqNr: n, Payload: annals.Payload{SerializerID: 31}}); err != nil {
			t.Fatal(err)
		}
	}
	later := time.Now().Add(time.Hour)
	verifytest.Want(t, s, verify.Options{}, "orphan T|a 5 5", "orphan T|d 1 1", "orphan U|a 1 1")
	verifytest.Want(t, s, verify.Options{Type: "T"}, "orphan T|a 5 5", "orphan T|d 1 1")
	verifytest.Want(t, s, verify.Options{IDs: []annals.PersistenceID{"T|d", "T|b"}}, "orphan T|d 1 1")
	verifytest.Want(t, s, verify.Options{Type: "T", Since: later}, "orphan T|d 1 1")
}

// The end of the context is an error of its kind, also while a run waits for its pace or for a second look.
func TestEndOfTheContext(t *testing.T) {
	t.Parallel()
	for _, o := range []verify.Options{{Rate: 1}, {Settle: time.Hour}} {
		ctx, cancel := context.WithCancel(t.Context())
		s := checked{newStore(t), func(id annals.PersistenceID) (found []*ability.Damage, _ error) {
			if id == "T|b" {
				found = append(found, &ability.Damage{Code: ability.Missing, ID: id, From: 1, To: 1, Err: errors.New("lost")})
			}
			return found, nil
		}}
		steps := 0
		for step, err := range verify.Store(ctx, s, o) {
			if cancel(); err != nil && (!errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.Canceled) || step.After != "T|a") {
				t.Errorf("%+v: %v, behind %q", o, err, step.After)
			}
			steps++
		}
		if steps != 2 {
			t.Errorf("%+v: %d steps", o, steps)
		}
		cancel()
	}
}
