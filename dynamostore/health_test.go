package dynamostore_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// A health check is one read of an item that does not exist, and one write that is refused by its condition.
func TestHealthCheckChangesNothing(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]dynamostore.Layout{
		"commit":                    newCommit(),
		"commit with an index":      newIndexed(),
		"akka":                      newAkka(false)(),
		"akka0":                     newAkka0(false)(),
		"esa":                       newESA(esa.Layout{Shards: 3})(),
		"esa, rust 5":               newRust5(0, false)(),
		"j5ik2o":                    newJ5ik2o(j5ik2o.Journal{}, true)(),
		"j5ik2o, a number as a key": newJ5ik2o(j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, SortKey: j5ik2o.ByNumber, ShardCount: 3}, true)(),
		"j5ik2o, states alone": j5ik2o.Layout{Journal: j5ik2o.Journal{Off: true}, Snapshot: j5ik2o.Snapshot{Off: true},
			State: j5ik2o.State{Table: "s" + rand.Text(), NoSortKey: true}},
	} {
		c, p := clientBehindProxy(t)
		seen := &recorder{}
		s, err := dynamostore.Open(t.Context(), c, layout, dynamostore.Options{CreateTables: true, Observer: seen})
		if err != nil {
			t.Fatal(err)
		}
		items := itemsIn(t, c, layout)
		before := p.Counts()
		for range 2 {
			if err := s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if r := seen.last(); r.Op != "check health" || r.Requests != 2 || r.ReadUnits != 1 {
				t.Errorf("%s: %q with %d requests and %v read units, want 2 and 1", name, r.Op, r.Requests, r.ReadUnits)
			}
		}
		after := p.Counts()
		before["GetItem"] += 2
		before["PutItem"] += 2
		if !maps.Equal(after, before) {
			t.Errorf("%s: %v requests after two checks, want %v", name, after, before)
		}
		if n := itemsIn(t, c, layout); n != items {
			t.Errorf("%s: %d items, %d before", name, n, items)
		}
	}
}

// itemsIn counts the items in the tables of a layout.
func itemsIn(t *testing.T, c *dynamodb.Client, layout dynamostore.Layout) (n int32) {
	t.Helper()
	offer, err := layout.Plan()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range offer.Tables {
		out, err := c.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table.Name})
		if err != nil {
			t.Fatal(err)
		}
		n += out.Count
	}
	return n
}

// ErrInvalid where an operator has to act, ErrUnavailable where the fault may pass by itself. A lost answer of the write is no ErrUnknown.
func TestHealthCheckFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		operation, code string
		want            error
	}{
		{"GetItem", "AccessDeniedException", annals.ErrInvalid},
		{"PutItem", "AccessDeniedException", annals.ErrInvalid},
		{"GetItem", "ResourceNotFoundException", annals.ErrInvalid},
		{"PutItem", "ResourceNotFoundException", annals.ErrInvalid},
		{"GetItem", "InternalServerError", annals.ErrUnavailable},
		{"PutItem", "InternalServerError", annals.ErrUnavailable},
		{"PutItem", "ConditionalCheckFailedException", nil},
	} {
		t.Run(c.operation+" "+c.code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p := openPipes(t, nil)
				p.set(func(operation string) answer {
					switch a := refusal("com.amazon#" + c.code); {
					case operation != c.operation:
						return answer{}
					case c.code == "InternalServerError":
						a.status = 500
						return a
					default:
						return a
					}
				})
				err := s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context())
				if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(fmt.Sprint(err), "annals: check health: ") {
					t.Errorf("%v, want %v", err, c.want)
				}
			})
		})
	}
}
