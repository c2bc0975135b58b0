package projection_test

import (
	"testing"

	"github.com/annals-go/annals"
	. "github.com/annals-go/annals/projection"
)

// park, retry, park again, discard and reset, each by a Runner of its own.
func parkAndReset(t *testing.T, in target, make maker) {
	t.Helper()
	var f failing
	o := Options{OnError: park, Logger: silent, Ranges: 1}
	c := NewControl(in.store, "p")
	run := func() {
		t.Helper()
		catchUp(t, must(t)(make("p", in.store, f.handle, o)))
	}
	add(t, in.store, 1, 3, 3)
	f.set("T|2/2")
	run()
	in.check(t, in.store, "T|2/2", "T|2/3")
	equal(t, "parked", parked(t, c), []string{"T|2/2"})

	f.set("T|2/3")
	add(t, in.store, 1, 3, 1)
	if err := c.Retry(t.Context(), "T|2"); err != nil {
		t.Fatal(err)
	}
	run()
	in.check(t, in.store, "T|2/3", "T|2/4")
	equal(t, "parked", parked(t, c), []string{"T|2/3"})

	if err := c.Discard(t.Context(), "T|2", 3); err != nil {
		t.Fatal(err)
	}
	run()
	in.check(t, in.store, "T|2/3")
	if s := status(t, c, in.store); s.Lag != 0 || s.Parked != 0 || s.Newest.SeqNr != 4 {
		t.Errorf("status %+v", s)
	}
	if err := c.Reset(t.Context(), annals.Offset{}); err != nil {
		t.Fatal(err)
	}
	if s := status(t, c, in.store); s.Lag != 12 || s.LagTime <= 0 {
		t.Errorf("status %+v", s)
	}
	f.set()
	run()
	for k, n := range in.count(t) {
		want := 2
		if k == "T|2/3" {
			want = 1
		}
		if n != want {
			t.Errorf("%s was handled %d times, want %d", k, n, want)
		}
	}
}

// Each event is handled exactly once in SQLite, whatever transaction fails and whatever answer is lost.
func TestParkingInSQLiteUnderFaults(t *testing.T) {
	t.Parallel()
	for _, m := range modes[:2] {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for at, tripped := 1, true; tripped && !t.Failed(); at++ {
				in, b := inSQLite(t), &breaks{mode: m, at: at}
				in.faults.around = b.call
				parkAndReset(t, in, in.once)
				tripped = b.tripped()
			}
		})
	}
}
