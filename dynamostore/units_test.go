package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
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
					appends := func(s annals.Store) error {
						_, err := s.Journal().Append(t.Context(), c)
						return err
					}
					want, err := counter.WriteUnits(t.Context(), appends)
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
					if again, err := counter.WriteUnits(t.Context(), appends); err != nil || again != want && name != "esa rust5" {
						t.Errorf("later WriteUnits says %v, %v; want %v", again, err, want)
					}
					after = receipt.SeqNr
				}
			}
			if _, err := counter.WriteUnits(t.Context(), func(s annals.Store) error {
				_, err := s.Journal().Append(t.Context(), annals.Commit{ID: "Thing|x", Events: []annals.NewEvent{{}}})
				return err
			}); err == nil {
				t.Error("an event without a payload was counted")
			}
			for what, write := range others(t, s, r, annals.NewPersistenceID("Thing", "0")) {
				want, err := counter.WriteUnits(t.Context(), func(s annals.Store) error { return write(s) })
				if err == nil {
					err = write(s)
				}
				// The first state of a type writes the type, too.
				if got := seen.last().WriteUnits; err != nil || want == 0 || got != want && (what != "state 0" || got != want+1) {
					t.Errorf("%s: %v write units, WriteUnits said %v; %v", what, got, want, err)
				}
			}
		})
	}
}

// others are writes of snapshots, states and positions, in their order, as far as s has these. Those of one size replace each other.
func others(t *testing.T, s annals.Store, r *random.Source, id annals.PersistenceID) iter.Seq2[string, func(annals.Store) error] {
	last, err := s.Journal().LastSeqNr(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string, func(annals.Store) error) bool) {
		caps, payload := s.Capabilities(), text(strings.Repeat("s", r.IntN(5000))).Payload
		for n := range 4 {
			at := annals.Offset{Time: likeTheService.Add(time.Duration(n) * time.Second), ID: id, SeqNr: annals.SeqNr(n + 1)}
			if caps.Snapshots && !yield(fmt.Sprint("snapshot ", n), func(s annals.Store) error {
				return s.Snapshots().Save(t.Context(), annals.Snapshot{ID: id, SeqNr: last - 3 + annals.SeqNr(n), Payload: payload})
			}) || caps.States && !yield(fmt.Sprint("state ", n), func(s annals.Store) error {
				_, err := s.States().Put(t.Context(), annals.StateWrite{ID: "State|a", After: annals.SeqNr(n), Payload: payload, Tags: []string{"a"}})
				return err
			}) || caps.Offsets && !yield(fmt.Sprint("position ", n), func(s annals.Store) error {
				return s.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Slices: annals.SliceRanges(4)[0], Through: at})
			}) {
				return
			}
		}
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

// Sizes has the bytes of the table with events, and of its indexes.
func TestSizesOfIndexes(t *testing.T) {
	t.Parallel()
	for want, layout := range map[int64]dynamostore.Layout{3000: commit.Layout{Table: "u" + rand.Text(), Index: "slices"}, 0: commit.Layout{Table: "u" + rand.Text()}} {
		s, err := dynamostore.Open(t.Context(), sized{client(t)}, layout, dynamostore.Options{CreateTables: true})
		if err != nil {
			t.Fatal(err)
		}
		sizes, err := s.Sizes(t.Context())
		if err != nil || len(sizes) != 1 || sizes[0] != (ability.Size{Table: layout.(commit.Layout).Table, Items: 7, Bytes: 5000, IndexBytes: want, ReadUnits: 2}) {
			t.Errorf("%+v, %v", sizes, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Sizes is what the service says of the table.
func TestSizes(t *testing.T) {
	t.Parallel()
	layout := commit.Layout{Table: "u" + rand.Text()}
	for _, want := range []int64{0, 3} { // events
		s, err := dynamostore.Open(t.Context(), client(t), layout, dynamostore.Options{CreateTables: true})
		if err != nil {
			t.Fatal(err)
		}
		sizer, err := ability.Of[ability.Sizer](s)
		if err != nil {
			t.Fatal(err)
		}
		sizes, err := sizer.Sizes(t.Context())
		if err != nil || len(sizes) != 1 {
			t.Fatal(sizes, err)
		}
		size := sizes[0]
		// The server of the tests counts no bytes.
		if size.Items < want || size.Items > want+2 || size.ReadUnits != float64((size.Bytes+4095)/4096) {
			t.Errorf("with %d events: %+v", want, size)
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
		if _, err := sizer.Sizes(t.Context()); !errors.Is(err, annals.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}
