package flow_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/annals-go/annals/examples/checkout/flow"
	"github.com/annals-go/annals/examples/checkout/item"
	"github.com/annals-go/annals/examples/checkout/order"
	"github.com/annals-go/annals/process"
	"github.com/annals-go/annals/process/processtest"
)

// wantSent demands the commands that an order has sent since the last call.
func wantSent(t *testing.T, o *processtest.Instance[struct{}, struct{}], want ...process.Command) {
	t.Helper()
	if got := o.Commands(); !reflect.DeepEqual(got, want) {
		t.Errorf("sent %+v, want %+v", got, want)
	}
}

func TestPaid(t *testing.T) {
	t.Parallel()
	o := processtest.New(t, flow.New(time.Hour), "o-1")
	o.Event(order.Placed{Item: "pen", Pieces: 2})
	wantSent(t, o, flow.Items.Tell("pen", item.Reserve{Order: "o-1", Pieces: 2}))
	o.Event(item.Reserved{Order: "o-1", Pieces: 2})
	wantSent(t, o, flow.Orders.Tell("o-1", order.Confirm{}))
	o.Event(order.Confirmed{})
	o.Pass(59 * time.Minute)
	o.Event(order.Paid{Item: "pen"})
	wantSent(t, o, flow.Items.Tell("pen", item.Ship{Order: "o-1"}))
	if fired := o.Pass(time.Hour); fired != 0 || !o.Ended() {
		t.Errorf("%d timers were fired after the order was paid; it has ended: %v", fired, o.Ended())
	}
}

func TestSoldOut(t *testing.T) {
	t.Parallel()
	o := processtest.New(t, flow.New(time.Hour), "o-1")
	o.Event(order.Placed{Item: "pen", Pieces: 2})
	o.Event(item.Refused{Order: "o-1"})
	wantSent(t, o, flow.Items.Tell("pen", item.Reserve{Order: "o-1", Pieces: 2}), flow.Orders.Tell("o-1", order.Cancel{Reason: "sold out"}))
	o.Event(order.Cancelled{Item: "pen"})
	wantSent(t, o, flow.Items.Tell("pen", item.Release{Order: "o-1"}))
}

func TestNotPaidInTime(t *testing.T) {
	t.Parallel()
	o := processtest.New(t, flow.New(time.Hour), "o-1")
	o.Event(order.Placed{Item: "pen", Pieces: 2})
	o.Event(item.Reserved{Order: "o-1", Pieces: 2})
	o.Commands()
	if fired := o.Pass(time.Hour - 1); fired != 0 {
		t.Error("the order was cancelled too early")
	}
	o.Pass(1)
	wantSent(t, o, flow.Orders.Tell("o-1", order.Cancel{Reason: "it was not paid in time"}))
}
