package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/random"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// likeTheService is a time of which dynoxide counts as many bytes as the service, in each unit. Digits of numbers are paired from the decimal point,
// so 12_34_50 takes as many bytes as 12_34_56, and 1_23_40 as many as 1_23_45, of which dynoxide counts one less.
var likeTheService = time.Unix(1764303512, 123_450_000)

// WriteUnits says before an append what the service counts for it then.
func TestWriteUnits(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]dynamostore.Layout{
		"commit":       commit.Layout{Table: "u" + rand.Text()},
		"commit index": commit.Layout{Table: "u" + rand.Text(), Index: "slices"},
		"akka":         newAkka(false)(),
		"akka old":     newAkka(true)(),
		"akka0":        newAkka0(false)(),
		"esa":          newESA(esa.Layout{Shards: 8, WriteIDs: true})(),
		"esa plain":    newESA(esa.Layout{Shards: 8})(),
		"esa rust5":    newRust5(0, true)(),
		"j5ik2o":       newJ5ik2o(j5ik2o.Journal{}, false)(),
		"j5ik2o plain": newUnindexed(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, seen := random.New(t), &recorder{}
			s, err := dynamostore.Open(t.Context(), client(t), layout, dynamostore.Options{CreateTables: true, Observer: seen})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			dynamostore.SetClock(s, likeTheService)
			counter, err := ability.Of[ability.UnitCounter](s)
			if err != nil {
				t.Fatal(err)
			}
			for entity := range 3 {
				after := annals.SeqNr(0)
				for range 5 {
					c := annals.Commit{ID: annals.NewPersistenceID("Thing", fmt.Sprint(entity)), After: after, WriteID: annals.NewWriteID()}
					for range 1 + r.IntN(4) {
						e := text(strings.Repeat("x", r.IntN(3000)))
						if r.OneIn(2) {
							e.Tags, e.Metadata = []string{"a"}, text(strings.Repeat("m", r.IntN(500))).Payload
						}
						c.Events = append(c.Events, e)
					}
					if after == 0 && s.Capabilities().Limits.FirstSnapshot {
						c.Snapshot = &annals.Snapshot{ID: c.ID, SeqNr: annals.SeqNr(len(c.Events)), Payload: text(strings.Repeat("s", r.IntN(3000))).Payload}
					}
					want, err := counter.WriteUnits(t.Context(), c)
					if err != nil {
						t.Fatal(err)
					}
					receipt, err := s.Journal().Append(t.Context(), c)
					if err != nil || receipt.Repeated {
						t.Fatal(receipt, err)
					}
					// The first append writes the entity type, too.
					if got := seen.last().WriteUnits; got != want && (entity > 0 || after > 0 || got != want+1) {
						t.Errorf("%d events after %d take %v write units, WriteUnits said %v", len(c.Events), after, got, want)
					}
					// It does not matter that the events are there now, but where the head has those of the last commit.
					if again, err := counter.WriteUnits(t.Context(), c); err != nil || again != want && name != "esa rust5" {
						t.Errorf("later WriteUnits says %v, %v; want %v", again, err, want)
					}
					after = receipt.SeqNr
				}
			}
			if _, err := counter.WriteUnits(t.Context(), annals.Commit{ID: "Thing|x", Events: []annals.NewEvent{{}}}); err == nil {
				t.Error("an event without a payload was counted")
			}
		})
	}
}

// sized is a client whose service has counted.
type sized struct{ dynamostore.Client }

func (s sized) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	out, err := s.Client.DescribeTable(ctx, in, o...)
	if err == nil {
		out.Table.ItemCount, out.Table.TableSizeBytes = aws.Int64(7), aws.Int64(5000)
		for i := range out.Table.GlobalSecondaryIndexes {
			out.Table.GlobalSecondaryIndexes[i].IndexSizeBytes = aws.Int64(3000)
		}
		for i := range out.Table.LocalSecondaryIndexes {
			out.Table.LocalSecondaryIndexes[i].IndexSizeBytes = aws.Int64(40)
		}
	}
	return out, err
}

// EventsSize has the bytes of the table with events, and of its indexes.
func TestEventsSizeOfIndexes(t *testing.T) {
	t.Parallel()
	for want, layout := range map[int64]dynamostore.Layout{3000: commit.Layout{Table: "u" + rand.Text(), Index: "slices"}, 0: commit.Layout{Table: "u" + rand.Text()}} {
		s, err := dynamostore.Open(t.Context(), sized{client(t)}, layout, dynamostore.Options{CreateTables: true})
		if err != nil {
			t.Fatal(err)
		}
		size, err := s.EventsSize(t.Context())
		if err != nil || size != (ability.Size{Items: 7, Bytes: 5000, IndexBytes: want, ReadUnits: 2}) {
			t.Errorf("%+v, %v", size, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// EventsSize is what the service says of the table.
func TestEventsSize(t *testing.T) {
	t.Parallel()
	layout := commit.Layout{Table: "u" + rand.Text()}
	for _, want := range []int64{0, 3} { // events
		s, err := dynamostore.Open(t.Context(), client(t), layout, dynamostore.Options{CreateTables: true})
		if err != nil {
			t.Fatal(err)
		}
		sizer, err := ability.Of[ability.EventSizer](s)
		if err != nil {
			t.Fatal(err)
		}
		size, err := sizer.EventsSize(t.Context())
		// The server of the tests counts no bytes.
		if err != nil || size.Items < want || size.Items > want+2 || size.ReadUnits != float64((size.Bytes+4095)/4096) {
			t.Errorf("with %d events: %+v, %v", want, size, err)
		}
		for i := range 3 {
			c := annals.Commit{ID: annals.NewPersistenceID("Thing", fmt.Sprint(i)), Events: texts(strings.Repeat("x", 5000))}
			if _, err := s.Journal().Append(t.Context(), c); err != nil && want == 0 {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := sizer.EventsSize(t.Context()); !errors.Is(err, annals.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}
