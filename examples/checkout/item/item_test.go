package item

import (
	"fmt"
	"testing"

	"github.com/annals-go/annals/entitytest"
)

func TestItem(t *testing.T) {
	t.Parallel()
	entitytest.New(t, Behavior, "pen").
		When(Add{"c-1", 3}).Then(Added{"c-1", 3}).Reply(3).
		When(Reserve{"c-2", "o-1", 2}).Then(Reserved{"c-2", "o-1", 2}).Reply(1).
		When(Reserve{"c-3", "o-2", 2}).Then(Refused{"c-3", "o-2"}).Reply(1).
		When(Release{"c-4", "o-2"}).Then().
		When(Ship{"c-5", "o-2"}).Rejected(ErrNotHeld).
		When(Ship{"c-6", "o-1"}).Then(Shipped{"c-6", "o-1"}).Reply(1).
		When(Reserve{"c-7", "o-3", 1}).Then(Reserved{"c-7", "o-3", 1}).Reply(0).
		When(Release{"c-8", "o-3"}).Then(Released{"c-8", "o-3"}).Reply(1).
		When(Add{"", 1}).Rejected(ErrID).
		When(Add{"c-9", 0}).Rejected(ErrPieces).
		When(Reserve{"c-9", "o-4", 0}).Rejected(ErrPieces)
}

// A command that comes again causes nothing, also when others came in between.
func TestRepeats(t *testing.T) {
	t.Parallel()
	commands := []Command{Add{"c-1", 3}, Reserve{"c-2", "o-1", 2}, Reserve{"c-3", "o-2", 2}, Release{"c-4", "o-1"}, Reserve{"c-5", "o-3", 1}, Ship{"c-6", "o-3"}}
	for last := range commands {
		e := entitytest.New(t, Behavior, "pen")
		for _, c := range commands[:last+1] {
			e.When(c)
		}
		for _, c := range commands[:last+1] {
			e.When(c).Then()
		}
	}
}

// An item remembers its newest commands only.
func TestRemembers(t *testing.T) {
	t.Parallel()
	i := Behavior.Init("pen")
	for n := range remembered + 1 {
		i = evolve(i, Added{fmt.Sprint(n), 1})
	}
	if len(i.Recent) != remembered || i.Recent[0] != "1" {
		t.Errorf("%d are remembered, the oldest is %s", len(i.Recent), i.Recent[0])
	}
}
