package order

import (
	"slices"
	"testing"
	"time"

	"github.com/annals-go/annals/entitytest"
	"github.com/annals-go/annals/examples/orders/audit"
)

var (
	placed = Placed{Customer: "bob", Item: "pen", Pieces: 2}
	noon   = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
)

func TestOrder(t *testing.T) {
	t.Parallel()
	entitytest.New(t, Behavior, "o-1").
		When(Pay{}).Rejected(ErrNone).
		When(Place{Customer: "bob", Item: "pen", Pieces: -2}).Rejected(ErrPieces).
		When(Place(placed)).Then(placed).Reply(IsPlaced).
		When(Place(placed)).Rejected(ErrExists).
		When(Pay{}).Then(Paid{}).Reply(IsPaid).
		When(Pay{}).Rejected(ErrClosed).
		When(Cancel{Reason: "no"}).Rejected(ErrClosed)
}

// The time of its first event decides until when an order can be cancelled.
func TestCancel(t *testing.T) {
	t.Parallel()
	entitytest.New(t, Behavior, "o-1").
		StoredAt(noon).Given(placed).
		When(Cancel{Reason: "no", Now: noon.Add(31 * time.Minute)}).Rejected(ErrTooLate).
		When(Cancel{Reason: "no", Now: noon.Add(30 * time.Minute)}).Then(Cancelled{"no"}).Reply(IsCancelled)
}

func TestHistory(t *testing.T) {
	t.Parallel()
	entitytest.New(t, Behavior, "o-1").
		StoredAt(noon).Metadata(audit.Record{User: "ann"}).Given(placed).
		StoredAt(noon.Add(time.Hour)).Metadata(audit.Record{User: "eve"}).When(Pay{}).
		State(func(o Order) {
			if want := []Change{{IsPlaced, noon, "ann"}, {IsPaid, noon.Add(time.Hour), "eve"}}; !slices.Equal(o.History, want) {
				t.Errorf("the history is %v, want %v", o.History, want)
			}
		})
}
