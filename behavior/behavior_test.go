package behavior_test

import (
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
)

func TestIDs(t *testing.T) {
	t.Parallel()
	b := behavior.EventSourced[int, int, int, int]{Type: "Counter"}
	if got := b.ID("7"); got != "Counter|7" {
		t.Errorf("got %q", got)
	}
	b.PersistenceID = func(id string) annals.PersistenceID { return annals.PersistenceID("counter-" + id) }
	if got := b.ID("7"); got != "counter-7" {
		t.Errorf("got %q", got)
	}
	if got := (behavior.DurableState[int, int, int]{Type: "Profile"}).ID("7"); got != "Profile|7" {
		t.Errorf("got %q", got)
	}
}

func TestEffects(t *testing.T) {
	t.Parallel()
	if s, saves, deletes := behavior.Save(3).Outcome(); s != 3 || !saves || deletes {
		t.Error("Save")
	}
	if s, saves, deletes := behavior.Delete[int]().Outcome(); s != 0 || saves || !deletes {
		t.Error("Delete")
	}
	if _, saves, deletes := (behavior.Effect[int]{}).Outcome(); saves || deletes {
		t.Error("the zero Effect does something")
	}
}
