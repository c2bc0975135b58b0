package dynamostore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/hosttest"
	"github.com/annals-go/annals/internal/servers/dynamo"
)

// readingOnly makes requests that write, or create tables, errors of the test.
func readingOnly(t *testing.T, p *dynamo.FaultProxy) {
	t.Helper()
	p.SetRule(func(r dynamo.Request) dynamo.Fault {
		if r.Writes() || r.Operation == "CreateTable" || r.Operation == "UpdateTable" {
			t.Errorf("%s was sent: %s", r.Operation, r.Body)
		}
		return dynamo.Fault{}
	})
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]dynamostore.Layout{
		"commit":           newCommit(),
		"commit, indexed":  newIndexed(),
		"j5ik2o":           newJ5ik2o(j5ik2o.Journal{}, false)(),
		"akka":             akka.Layout{},
		"akka0":            akka0.Layout{Table: "readonly-akka0"},
		"esa":              ownTables("readonly", esa.Layout{Format: esa.Plain(), WriteIDs: true}),
		"esa, rust 5":      ownTables("readonly", esa.Layout{Peer: esa.Rust5}),
		"j5ik2o, a number": newJ5ik2o(j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, SortKey: j5ik2o.ByNumber, ShardCount: 4}, true)(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := opener(t, layout)()
			hosttest.ReadOnly(t, s, func() annals.Store {
				c, p := clientBehindProxy(t)
				readingOnly(t, p)
				only, err := dynamostore.Open(t.Context(), c, layout, dynamostore.Options{ReadOnly: true, CreateTables: true, Lean: true})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = only.Close() })
				return only
			}, false)
		})
	}
}

// A store for reading leaves no settings in an empty table, so that the first writer chooses them. It fills no index: of a table whose index is not filled it
// would miss events.
func TestReadOnlyLeavesSettings(t *testing.T) {
	t.Parallel()
	c, p := clientBehindProxy(t)
	ctx := t.Context()
	layout := newCommit().(commit.Layout)
	indexed := layout
	indexed.Index, indexed.FillIndex = "slices", true
	only := func(layout dynamostore.Layout) error {
		t.Helper()
		s, err := dynamostore.Open(ctx, c, layout, dynamostore.Options{ReadOnly: true, CreateTables: true})
		if err == nil {
			_ = s.Close()
		}
		return err
	}
	readingOnly(t, p)
	if err := only(layout); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("no table: %v", err)
	}
	p.SetRule(nil)
	for _, o := range []dynamostore.Options{{}, {ReadOnly: true}} {
		setup, err := dynamostore.NewSetup(c, indexed, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := setup.Migrate(ctx); (err != nil) != o.ReadOnly || err != nil && !errors.Is(err, annals.ErrUnsupported) {
			t.Errorf("%+v: migrate: %v", o, err)
		}
		readingOnly(t, p)
		if !o.ReadOnly {
			continue
		}
		if found := wrong(t, setup); len(found) > 0 {
			t.Errorf("%+v", found)
		}
	}
	for _, l := range []dynamostore.Layout{layout, indexed} {
		if err := only(l); err != nil {
			t.Errorf("an empty table: %v", err)
		}
	}
	p.SetRule(nil)
	s := opener(t, layout)()
	if _, err := s.Journal().Append(ctx, annals.Commit{ID: "Only|a", Events: texts("1")}); err != nil {
		t.Fatal(err)
	}
	readingOnly(t, p)
	err := only(indexed)
	if !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("an index that is not filled: %v", err)
	}
	setup, failed := dynamostore.NewSetup(c, indexed, dynamostore.Options{ReadOnly: true})
	if failed != nil {
		t.Fatal(failed)
	}
	found, failed := setup.Examine(ctx)
	refused := ability.Finding{}
	for _, f := range found {
		if f.Severity == ability.Refused {
			refused = f
		}
		if strings.Contains(f.Found, "BatchWriteItem") {
			t.Errorf("a right to write: %+v", f)
		}
	}
	if failed != nil || refused.Code != "settings" || !strings.Contains(fmt.Sprint(err), refused.Found) {
		t.Errorf("Open says %v, Examine %v, %+v", err, failed, found)
	}
	if err := only(layout); err != nil {
		t.Error(err)
	}
}
