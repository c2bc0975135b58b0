package hosttest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
)

// Accounts runs one program on s, which is the same on every store: events and states are JSON objects, as tables for which a payload must be
// an object take them. A repository writes the first event, with its snapshot where the store demands it, and an entity runtime goes on.
func Accounts(t *testing.T, s annals.Store) {
	t.Helper()
	for _, deletes := range []bool{false, true} {
		t.Run(fmt.Sprintf("DeleteEvents %v", deletes), func(t *testing.T) {
			if err := accounts(t.Context(), s, fmt.Sprintf("acc<%v>&", deletes), deletes); err != nil {
				t.Error(err)
			}
		})
	}
}

type ledgerEvent interface{ ledgerEvent() }

type opened struct {
	Owner string `json:"owner"`
}

type deposited struct {
	Cents int `json:"cents"`
}

func (opened) ledgerEvent()    {}
func (deposited) ledgerEvent() {}

// bankAccount is the state of an account.
type bankAccount struct {
	Owner    string `json:"owner"`
	Cents    int    `json:"cents"`
	Deposits []int  `json:"deposits"`
}

// bankAccounts have two commands: a text opens an account, a number is deposited.
var bankAccounts = behavior.EventSourced[any, ledgerEvent, bankAccount, int]{
	Type: "BankAccount",
	Decide: func(a bankAccount, c any) ([]ledgerEvent, error) {
		switch c := c.(type) {
		case string:
			return []ledgerEvent{opened{c}, deposited{1}}, nil
		case int:
			return []ledgerEvent{deposited{c}}, nil
		}
		return nil, nil
	},
	Evolve: func(a bankAccount, e ledgerEvent) bankAccount {
		switch e := e.(type) {
		case opened:
			a.Owner = e.Owner
		case deposited:
			a.Cents += e.Cents
			a.Deposits = append(a.Deposits, e.Cents)
		}
		return a
	},
	Reply:         func(a bankAccount, _ any, _ []ledgerEvent) int { return a.Cents },
	Events:        codec.Union[ledgerEvent](codec.JSON[opened]("AccountOpened"), codec.JSON[deposited]("Deposited")),
	SnapshotEvery: 3,
}

func accounts(ctx context.Context, s annals.Store, id string, deletes bool) error {
	b := bankAccounts
	caps := s.Capabilities()
	if !caps.Snapshots {
		b.SnapshotEvery, deletes = 0, false
	}
	first := "<Ada> & \u2028 \"Käthe\""
	repository, err := aggregate.New(s, b, aggregate.Options{DeleteEvents: deletes, SingleOwner: true})
	if err != nil {
		return err
	}
	if n, err := repository.Ask(ctx, id, first); n != 1 || err != nil {
		return fmt.Errorf("open: %d, %w", n, err)
	}
	if _, ok, err := s.Snapshots().Latest(ctx, b.ID(id), annals.SnapshotCriteria{}); caps.Snapshots && (ok != caps.Limits.FirstSnapshot || err != nil) {
		return fmt.Errorf("after the first commit there is a snapshot: %v, %w", ok, err)
	}
	rt, err := entity.New(s, b, entity.Options{DeleteEvents: deletes, SingleOwner: true})
	if err != nil {
		return err
	}
	sum := 1
	for i := range 7 {
		sum += i
		if n, err := rt.Ask(ctx, id, i); n != sum || err != nil {
			return fmt.Errorf("deposit %d: %d, %w, want %d", i, n, err, sum)
		}
	}
	if err := errors.Join(repository.Wait(ctx), rt.Shutdown(ctx)); err != nil {
		return err
	}
	a, last, err := repository.Load(ctx, id)
	if err != nil || a.Owner != first || a.Cents != sum || fmt.Sprint(a.Deposits) != "[1 0 1 2 3 4 5 6]" || last != 9 {
		return fmt.Errorf("loaded %+v, %d, %w", a, last, err)
	}
	snapshot, ok, err := s.Snapshots().Latest(ctx, b.ID(id), annals.SnapshotCriteria{})
	if caps.Snapshots && (err != nil || !ok || snapshot.SeqNr < 3) {
		return fmt.Errorf("newest snapshot %d, %v, %w", snapshot.SeqNr, ok, err)
	}
	n, err := firstEvent(ctx, s, b.ID(id))
	if err != nil || deletes != (n != 1) {
		return fmt.Errorf("the first event is %d, %w", n, err)
	}
	return nil
}
