package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// unused adds up Result.Unused.
type unused struct{ numbers int }

func (*unused) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }
func (u *unused) End(_ context.Context, _ annals.Call, r annals.Result)  { u.numbers += r.Unused }

// A number without an event, which a plugin may have left unused: a read passes over it and reports it, Check returns it, and it is ErrCorrupt
// with Strict.
func TestStrict(t *testing.T) {
	t.Parallel()
	g, h := newAkka(false)().(akka.Layout), newAkka0(true)().(akka0.Layout)
	for name, c := range map[string]struct {
		layout dynamostore.Layout
		table  string
		key    func(id annals.PersistenceID) plan.Item
	}{
		"akka": {g, g.Journal.Table, func(id annals.PersistenceID) plan.Item {
			return plan.Item{"par": plan.S(fmt.Sprintf("journal-P-%s-0", id)), "num": plan.N(4)}
		}},
		"akka0": {h, h.Table, func(id annals.PersistenceID) plan.Item {
			return plan.Item{"key": plan.S(fmt.Sprintf("journal-P-%s-4", id))}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, client, seen := t.Context(), client(t), &unused{}
			open := func(strict bool) *dynamostore.Store {
				s, err := dynamostore.Open(ctx, client, c.layout, dynamostore.Options{CreateTables: true, Strict: strict, Observer: seen})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			s, strict := open(false), open(true)
			id, writer := annals.NewPersistenceID("Thing", "1"), annals.NewWriteID()
			for n := range annals.SeqNr(6) { // as a writer of the plugin, which has one id for all its writes
				if _, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: n, WriteID: writer, Events: texts("e")}); err != nil {
					t.Fatal(err)
				}
			}
			if holes, err := strict.Unwrap().(ability.Checker).Check(ctx, id, nil); err != nil || len(holes) != 0 || seen.numbers != 0 {
				t.Errorf("checked %v, %v, %d numbers were reported", holes, err, seen.numbers)
			}
			if _, err := client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &c.table, Key: c.key(id)}); err != nil {
				t.Fatal(err)
			}
			if got, err := numbers(ctx, s, id, 1, annals.MaxSeqNr); !slices.Equal(got, []annals.SeqNr{1, 2, 3, 5, 6}) || err != nil || seen.numbers != 1 {
				t.Errorf("replayed %v, %v, %d numbers were reported", got, err, seen.numbers)
			}
			for _, s := range []*dynamostore.Store{s, strict} {
				if holes, err := s.Unwrap().(ability.Checker).Check(ctx, id, nil); err != nil || len(holes) != 1 || holes[0].Compare(&ability.Damage{Code: ability.Hole, ID: id, From: 4, To: 4}) != 0 {
					t.Errorf("checked %v, %v", holes, err)
				}
			}
			if got, err := numbers(ctx, strict, id, 1, annals.MaxSeqNr); len(got) != 3 || !errors.Is(err, annals.ErrCorrupt) {
				t.Errorf("with Strict: replayed %v, %v", got, err)
			}
			if _, err := ability.Recover(ctx, strict, id, nil, func(annals.Event) error { return nil }); !errors.Is(err, annals.ErrCorrupt) {
				t.Errorf("with Strict: recovered, %v", err)
			}
		})
	}
}
