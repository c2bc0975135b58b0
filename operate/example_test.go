package operate_test

import (
	"context"
	"errors"
	"log"
	"net/http"
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

// A program has the page in its own server. Its proxy names the user in a header, and removes the header from what it gets.
func ExampleHandler() {
	store, err := sqlitestore.Open(context.Background(), "counters.db", sqlitestore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	page, err := operate.Handler(store, operate.Config{
		Name:     "counters",
		Entities: []operate.Entity{operate.Sourced(counter), operate.Durable(profile)},
	}, operate.PageOptions{
		Prefix: "/annals/",
		Allow: func(r *http.Request, a operate.Action) error {
			switch user := r.Header.Get("X-Forwarded-User"); {
			case user == "":
				return errors.New("log in first")
			case a.Name != "read" && user != "ann":
				return errors.New("only ann may do this")
			}
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/annals/", page)
	log.Print(http.ListenAndServe("localhost:8080", mux))
}
