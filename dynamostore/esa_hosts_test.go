package dynamostore_test

import (
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/hosttest"
)

// Hosts on heads with states, whose first commit has a snapshot, and on heads without. Their payloads are no JSON objects, so they are plain.
func TestHostsOnHeads(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]esa.Layout{
		"heads": {Format: esa.Plain(), WriteIDs: true, Snapshot: esa.Snapshot{Keep: 3}},
		"apart": {Peer: esa.Rust5, WriteIDs: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := opener(t, ownTables("hosts", layout))
			hosttest.TwoRuntimes(t, open(), open())
			if name == "apart" {
				hosttest.Recovery(t, open()) // its first case has no snapshots
			}
			hosttest.Retention(t, open())
		})
	}
}

// opener returns a function that opens another store on the same tables.
func opener(t *testing.T, layout dynamostore.Layout) func() annals.Store {
	t.Helper()
	c := client(t)
	return func() annals.Store {
		s, err := dynamostore.Open(t.Context(), c, layout, dynamostore.Options{CreateTables: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
}

// One program, on the tables of each library and on those of the other layouts.
func TestAccounts(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]dynamostore.Layout{
		"commit": commit.Layout{Table: "accounts-commit"},
		"akka":   akka.Layout{},
		"akka0":  akka0.Layout{Table: "accounts-akka0"},
		"go":     ownTables("accounts", esa.Layout{Snapshot: esa.Snapshot{Keep: 1}}),
		"js":     ownTables("accounts", esa.Layout{Peer: esa.JS}),
		"js 3":   ownTables("accounts", esa.Layout{Peer: esa.JS3, Snapshot: esa.Snapshot{Keep: 2}}),
		"rust":   ownTables("accounts", esa.Layout{Peer: esa.Rust, WriteIDs: true}),
		"rust 3": ownTables("accounts", esa.Layout{Peer: esa.Rust3}),
		"java":   ownTables("accounts", esa.Layout{Peer: esa.Java}),
		"rust 5": ownTables("accounts", esa.Layout{Peer: esa.Rust5}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hosttest.Accounts(t, opener(t, layout)())
		})
	}
}

// Layouts that are an ability.Skipper.
func TestDeletedBesideRuntimes(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]dynamostore.Layout{
		"commit":      commit.Layout{Table: "deleted-commit"},
		"akka0":       akka0.Layout{Table: "deleted-akka0"},
		"esa, rust 5": ownTables("deleted", esa.Layout{Peer: esa.Rust5}),
		"j5ik2o":      newJ5ik2o(j5ik2o.Journal{}, false)(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hosttest.Deleted(t, opener(t, layout)())
		})
	}
}

// ownTables gives l tables that no other layout has.
func ownTables(prefix string, l esa.Layout) esa.Layout {
	l.Journal.Table = fmt.Sprintf("%s-%v", prefix, l.Peer)
	l.Snapshot.Table = l.Journal.Table + "-snapshot"
	if l.Shards = 4; l.Peer == esa.Rust5 {
		l.Shards, l.Head = 0, l.Journal.Table+"-head"
	}
	return l
}
