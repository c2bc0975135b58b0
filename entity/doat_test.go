package entity_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/entity"
)

// payment has a key, by which the entity recognises its repetition.
type payment struct {
	Key    string
	Amount int
}

// paid is the state that payments leave.
type paid struct {
	Total int
	Keys  []string
}

var payments = behavior.EventSourced[payment, payment, paid, int]{
	Type: "Payments",
	Decide: func(s paid, p payment) ([]payment, error) {
		switch {
		case slices.Contains(s.Keys, p.Key):
			return nil, nil
		case s.Total+p.Amount < 0:
			return nil, errPoor
		}
		return []payment{p}, nil
	},
	Evolve: func(s paid, p payment) paid { return paid{s.Total + p.Amount, append(s.Keys, p.Key)} },
	Reply:  func(s paid, _ payment, _ []payment) int { return s.Total },
}

var paymentStates = behavior.DurableState[payment, paid, int]{
	Type: "Payments",
	Decide: func(s paid, p payment) (none behavior.Effect[paid], err error) {
		events, err := payments.Decide(s, p)
		if err != nil || len(events) == 0 {
			return none, err
		}
		return behavior.Save(paid{s.Total + p.Amount, append(slices.Clone(s.Keys), p.Key)}), nil
	},
	Reply: func(s paid, _ payment) int { return s.Total },
}

type atNumber interface {
	DoAt(ctx context.Context, id string, at annals.SeqNr, p payment) (behavior.Result[int], error)
}

// The answer to a command with a number and a key is lost. Its repetition is recognised by the key, although its own success has changed
// the number. A command that would change something, or is rejected, still needs the number.
func TestDoAtRepeated(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(s annals.Store) (atNumber, error){
		"entity": func(s annals.Store) (atNumber, error) { return entity.New(s, payments, entity.Options{Logger: quiet}) },
		"entity state": func(s annals.Store) (atNumber, error) {
			return entity.NewState(s, paymentStates, entity.Options{Logger: quiet})
		},
		"aggregate": func(s annals.Store) (atNumber, error) { return aggregate.New(s, payments, aggregate.Options{}) },
		"aggregate state": func(s annals.Store) (atNumber, error) {
			return aggregate.NewState(s, paymentStates, aggregate.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newHooked()
				s.caps.Repeatable, s.caps.IdempotentState = false, false
				h, err := open(s)
				if err != nil {
					t.Fatal(err)
				}
				s.write = func(_ context.Context, w written, next func() error) error {
					if err := next(); err != nil {
						return err
					}
					return &annals.Error{Op: "test", Kind: annals.ErrUnknown, Last: 1}
				}
				if _, err := h.DoAt(t.Context(), "a", 0, payment{"k-1", 5}); !errors.Is(err, annals.ErrUnknown) {
					t.Fatalf("the lost answer: %v", err)
				}
				s.heal()
				for _, c := range []struct {
					at      annals.SeqNr
					payment payment
					reply   int
					number  annals.SeqNr
					err     error
				}{
					{0, payment{"k-1", 5}, 5, 1, nil}, // the repetition
					{0, payment{"k-2", 5}, 0, 0, annals.ErrConflict},
					{0, payment{"k-2", -9}, 0, 0, annals.ErrConflict},
					{1, payment{"k-2", -9}, 0, 0, errPoor},
					{1, payment{"k-2", 2}, 7, 2, nil},
					{0, payment{"k-1", 5}, 7, 2, nil},
				} {
					got, err := h.DoAt(t.Context(), "a", c.at, c.payment)
					if got.Reply != c.reply || got.SeqNr != c.number || !errors.Is(err, c.err) || c.err == nil && err != nil {
						t.Errorf("%+v at %d: %+v, %v, want %d of number %d, %v", c.payment, c.at, got, err, c.reply, c.number, c.err)
					}
				}
				if rt, ok := h.(interface{ Shutdown(context.Context) error }); ok {
					if err := rt.Shutdown(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// A repetition arrives while its first try is being written by another host: the write of the repetition is refused, and then its key is known.
func TestDoAtOvertakenByItself(t *testing.T) {
	t.Parallel()
	s := newHooked()
	first, err := entity.New(s.mem, payments, entity.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	rt, err := entity.New(s, payments, entity.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	repository, err := aggregate.New(s, payments, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for id, h := range map[string]atNumber{"e": rt, "a": repository} {
		p := payment{"k-1", 5}
		s.write = func(_ context.Context, _ written, next func() error) error {
			if _, err := first.DoAt(t.Context(), id, 0, p); err != nil {
				t.Error(err)
			}
			return next()
		}
		if got, err := h.DoAt(t.Context(), id, 0, p); got.Reply != 5 || got.SeqNr != 1 || err != nil {
			t.Errorf("%s: %+v, %v, want 5 of number 1", id, got, err)
		}
	}
}
