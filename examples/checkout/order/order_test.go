package order

import (
	"strings"
	"testing"

	"github.com/annals-go/annals/entitytest"
)

var placed = Placed{"c-1", "pen", 2}

func TestPaid(t *testing.T) {
	t.Parallel()
	entitytest.New(t, Behavior, "o-1").
		When(Pay{"c-0"}).Rejected(ErrNone).
		When(Place{"c-1", "pen", 2}).Then(placed).
		When(Place{"c-1", "pen", 2}).Then(). // the same again
		When(Place{"c-2", "pen", 2}).Rejected(ErrExists).
		When(Pay{"c-3"}).Rejected(ErrNotConfirmed).
		When(Confirm{"c-4"}).Then(Confirmed{"c-4"}).
		When(Confirm{"c-4"}).Then().
		When(Pay{"c-5"}).Then(Paid{"c-5", "pen"}).
		When(Pay{"c-5"}).Then().
		When(Confirm{"c-4"}).Then().
		When(Cancel{"c-6", "no"}).Rejected(ErrClosed)
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	for _, begun := range [][]Event{{placed}, {placed, Confirmed{"c-2"}}} {
		entitytest.New(t, Behavior, "o-1").Given(begun...).
			When(Cancel{"c-3", "no"}).Then(Cancelled{"c-3", "pen", "no"}).
			When(Cancel{"c-3", "no"}).Then().
			When(Cancel{"c-4", "no"}).Rejected(ErrClosed).
			When(Confirm{"c-5"}).Rejected(ErrClosed).
			When(Pay{"c-6"}).Rejected(ErrClosed)
	}
}

func TestReply(t *testing.T) {
	t.Parallel()
	o := Order{Done: []string{"c-1"}}
	Behavior.Reply(o, nil, nil).Done[0] = "changed"
	if o.Done[0] != "c-1" {
		t.Error("the reply shares memory with the order")
	}
}

func TestBadCommands(t *testing.T) {
	t.Parallel()
	for c, want := range map[Command]error{
		Place{"", "pen", 1}:                     ErrID,
		Place{"c", "pen", 0}:                    ErrPieces,
		Place{"c", "", 1}:                       ErrItem,
		Place{"c", "\xff", 1}:                   ErrItem,
		Place{"c", "a\x00", 1}:                  ErrItem,
		Place{"c", strings.Repeat("x", 101), 1}: ErrItem,
	} {
		entitytest.New(t, Behavior, "o-1").When(c).Rejected(want)
	}
}
