package operate_test

import (
	"os"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/sqlitestore"
)

var (
	counter = behavior.EventSourced[int, int, int, int]{
		Type:   "Counter",
		Decide: func(total, add int) ([]int, error) { return []int{add}, nil },
		Evolve: func(total, added int) int { return total + added },
	}
	profile = behavior.DurableState[string, string, string]{
		Type:   "Profile",
		Decide: func(_, name string) (behavior.Effect[string], error) { return behavior.Save(name), nil },
	}
)

// The main function of an operator's tool.
func ExampleCommand() {
	command := operate.Command(operate.Config{
		Stores:   annals.Openers{"sqlite": sqlitestore.Options{CreateTables: new(false)}.OpenURL},
		Entities: []operate.Entity{operate.Sourced(counter), operate.Durable(profile)},
	})
	os.Exit(operate.ExitStatus(command.Execute()))
}
