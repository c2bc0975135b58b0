package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func openAkka0(t *testing.T, l akka0.Layout, o dynamostore.Options) *dynamostore.Store {
	t.Helper()
	l.Table, o.CreateTables = "h"+rand.Text(), true
	s, err := dynamostore.Open(t.Context(), client(t), l, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// legacy is an entity of the plugin's own test of its journal, with five events.
type legacy struct {
	*testing.T
	s  *dynamostore.Store
	id annals.PersistenceID
}

func (l legacy) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// replay checks the numbers of at most limit events.
func (l legacy) replay(from, to annals.SeqNr, limit int, want string) {
	l.Helper()
	all := []annals.SeqNr{}
	for e, err := range l.s.Journal().Replay(l.Context(), l.id, from, to) {
		l.must(err)
		if len(all) == limit {
			break
		}
		if string(e.Data) != fmt.Sprint("a-", e.SeqNr) {
			l.Errorf("event %d is %q", e.SeqNr, e.Data)
		}
		all = append(all, e.SeqNr)
	}
	if got := fmt.Sprint(all); got != want {
		l.Errorf("replay from %d to %d: %s, want %s", from, to, got, want)
	}
}

// messages checks the events with those marked as deleted, and their confirmations.
func (l legacy) messages(want string) {
	l.Helper()
	var all []string
	for m, err := range akka0.Messages(l.Context(), l.s, l.id, 1, annals.MaxSeqNr) {
		l.must(err)
		text := fmt.Sprint(m.SeqNr)
		if m.Deleted {
			text += " deleted"
		}
		for _, channel := range m.Confirmations {
			text += " " + channel
		}
		all = append(all, text)
	}
	if got := fmt.Sprintf("%q", all); got != want {
		l.Errorf("messages %s, want %s", got, want)
	}
}

func (l legacy) delete(permanent bool, numbers ...annals.SeqNr) {
	l.Helper()
	l.must(akka0.Delete(l.Context(), l.s, l.id, permanent, numbers...))
}

func (l legacy) confirm(channels map[annals.SeqNr][]string) {
	l.Helper()
	l.must(akka0.Confirm(l.Context(), l.s, l.id, channels))
}

// fill appends the events after … last in commits of 50.
func (l legacy) fill(after, last annals.SeqNr) {
	l.Helper()
	for after < last {
		c := annals.Commit{ID: l.id, After: after}
		for ; after < last && len(c.Events) < 50; after++ {
			c.Events = append(c.Events, text(fmt.Sprint("a-", after+1)))
		}
		r, err := l.s.Journal().Append(l.Context(), c)
		if l.must(err); r.SeqNr != after {
			l.Errorf("the last event is number %d, want %d", r.SeqNr, after)
		}
	}
}

// The cases of the plugin's own tests, and those of its faults.
func TestLegacyJournal(t *testing.T) {
	t.Parallel()
	const most = annals.MaxSeqNr
	marks := openAkka0(t, akka0.Layout{SequenceShards: 20}, dynamostore.Options{})
	permanent := openAkka0(t, akka0.Layout{SequenceShards: 20, Permanent: true}, dynamostore.Options{})
	for name, run := range map[string]func(l legacy){
		"L-01 all":                      func(l legacy) { l.replay(1, most, -1, "[1 2 3 4 5]") },
		"L-02 from 3":                   func(l legacy) { l.replay(3, most, -1, "[3 4 5]") },
		"L-03 to 3":                     func(l legacy) { l.replay(1, 3, -1, "[1 2 3]") },
		"L-04 at most 3":                func(l legacy) { l.replay(1, most, 3, "[1 2 3]") },
		"L-05 2 to 4":                   func(l legacy) { l.replay(2, 4, -1, "[2 3 4]") },
		"L-06 2 to 4, at most 2":        func(l legacy) { l.replay(2, 4, 2, "[2 3]") },
		"L-07 2 to 2":                   func(l legacy) { l.replay(2, 2, -1, "[2]") },
		"L-08 2 to 4, at most 1":        func(l legacy) { l.replay(2, 4, 1, "[2]") },
		"L-09 2 to 4, at most 0":        func(l legacy) { l.replay(2, 4, 0, "[]") },
		"L-10 3 to 2":                   func(l legacy) { l.replay(3, 2, -1, "[]") },
		"L-11 single permanent deletes": func(l legacy) { l.delete(true, 3, 4); l.replay(1, most, -1, "[1 2 5]"); l.messages(`["1" "2" "5"]`) },
		"L-13 single marks": func(l legacy) {
			l.delete(false, 3, 4)
			l.replay(1, most, -1, "[1 2 5]")
			l.messages(`["1" "2" "3 deleted" "4 deleted" "5"]`)
		},
		"L-14 marks up to 3": func(l legacy) {
			l.must(l.s.Journal().DeleteTo(l.Context(), l.id, 3))
			l.messages(`["1 deleted" "2 deleted" "3 deleted" "4" "5"]`)
		},
		"L-16 marks of removed events": func(l legacy) {
			l.delete(true, 3, 4)
			l.delete(false, 3, 4)
			l.replay(1, most, -1, "[1 2 5]")
			l.messages(`["1" "2" "5"]`)
		},
		"L-12 permanent delete up to 3": func(l legacy) {
			l.s = permanent
			l.id += "-p"
			l.fill(0, 5)
			l.must(l.s.Journal().DeleteTo(l.Context(), l.id, 3))
			l.replay(1, most, -1, "[4 5]")
			l.messages(`["4" "5"]`)
		},
		"L-15 confirmations": func(l legacy) {
			l.confirm(map[annals.SeqNr][]string{3: {"c1"}})
			l.confirm(map[annals.SeqNr][]string{3: {"c2"}})
			l.messages(`["1" "2" "3 c1 c2" "4" "5"]`)
		},
		"L-17 confirmation of no event": func(l legacy) {
			l.delete(true, 3)
			l.confirm(map[annals.SeqNr][]string{3: {"c1"}})
			l.messages(`["1" "2" "4" "5"]`)
		},
		"confirmations of several events": func(l legacy) {
			l.confirm(map[annals.SeqNr][]string{2: {"c1"}, 4: {"c2"}})
			l.messages(`["1" "2 c1" "3" "4 c2" "5"]`)
		},
		"the event at to is missing": func(l legacy) { l.delete(true, 3); l.replay(1, 3, -1, "[1 2]") },
		"L-18 last number, L-19 of an unknown id": func(l legacy) {
			for id, want := range map[annals.PersistenceID]annals.SeqNr{l.id: 5, l.id + "-unknown": 0} {
				if last, err := l.s.Journal().LastSeqNr(l.Context(), id); last != want || err != nil {
					l.Errorf("the last number of %s is %d, %v", id, last, err)
				}
			}
		},
		"L-20 1000 events": func(l legacy) { l.fill(5, 1000); l.thousand(0); l.fill(1000, 1001) },
		"L-21 1000 events, 217 is deleted": func(l legacy) {
			l.fill(5, 217)
			l.delete(false, 217)
			l.fill(217, 1000)
			l.thousand(217)
			l.thousand(217)
			l.fill(1000, 1001)
		},
		"a hole in the first 1000 of 1500": func(l legacy) {
			l.fill(5, 1500)
			l.delete(true, 3)
			got, err := numbers(l.Context(), l.s, l.id, 1, most)
			if err != nil || len(got) != 1499 || got[1498] != 1500 {
				l.Errorf("%d events, %v", len(got), err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := legacy{t, marks, annals.PersistenceID("p-" + rand.Text())}
			l.fill(0, 5)
			run(l)
		})
	}
}

// thousand checks a replay of the events 1 … 1000 without one.
func (l legacy) thousand(without annals.SeqNr) {
	l.Helper()
	n := annals.SeqNr(0)
	for e, err := range l.s.Journal().Replay(l.Context(), l.id, 1, annals.MaxSeqNr) {
		l.must(err)
		if n++; n == without {
			n++
		}
		if e.SeqNr != n {
			l.Fatalf("event %d, want %d", e.SeqNr, n)
		}
	}
	if n != 1000 {
		l.Errorf("the last event is number %d", n)
	}
}

func TestAkka0Costs(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	s := openAkka0(t, akka0.Layout{}, dynamostore.Options{Observer: seen})
	l := legacy{t, s, "costs"}
	cost := func(name string, requests int, reads, writes float64) {
		t.Helper()
		if r := seen.last(); r.Requests != requests || r.ReadUnits > reads || r.WriteUnits > writes {
			t.Errorf("%s: %d requests, %v read units and %v write units; want %d, at most %v and %v", name, r.Requests, r.ReadUnits, r.WriteUnits, requests, reads, writes)
		}
	}
	l.fill(0, 1)
	cost("append of one event", 1, 0, 4)
	l.fill(1, 51)
	cost("append of 50 events", 1, 0, 200)
	l.fill(51, 250)
	_, err := s.Journal().LastSeqNr(t.Context(), l.id)
	l.must(err)
	cost("last number", 11, 1002, 0)
	l.replay(1, 3, -1, "[1 2 3]")
	cost("replay of 3 events", 12, 1005, 0)
	if _, err := numbers(t.Context(), s, l.id, 1, annals.MaxSeqNr); err != nil {
		t.Error(err)
	}
	cost("replay of 250 events", 14, 1252, 0)
	_, err = ability.Recover(t.Context(), s, l.id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
	l.must(err)
	cost("recovery of 250 events", 14, 1252, 0)
	l.confirm(map[annals.SeqNr][]string{2: {"c", "d"}})
	cost("two confirmations of one event", 1, 0, 1)
	l.delete(false, 3)
	cost("mark of one event", 3, 1, 2)
	l.must(s.Journal().DeleteTo(t.Context(), l.id, 5))
	cost("marks up to 5", 11+1+4+1, 1007, 4+8)
	l.delete(true, 3)
	cost("permanent delete of one event", 4, 1, 3)
}

// A commit that is sent again is stored once: the service recognises its token.
func TestAkka0Repeats(t *testing.T) {
	t.Parallel()
	s := openAkka0(t, akka0.Layout{SequenceShards: 20}, dynamostore.Options{})
	c := annals.Commit{ID: "a", WriteID: annals.NewWriteID(), Events: texts("1", "2")}
	for range 2 {
		if r, err := s.Journal().Append(t.Context(), c); err != nil || r.SeqNr != 2 || r.Repeated {
			t.Errorf("%+v, %v", r, err)
		}
	}
	c.Events = texts("1", "other")
	if _, err := s.Journal().Append(t.Context(), c); !errors.Is(err, annals.ErrConflict) {
		t.Errorf("another commit with the same WriteID: %v", err)
	}
	c.WriteID = annals.NewWriteID()
	if _, err := s.Journal().Append(t.Context(), c); !errors.Is(err, annals.ErrConflict) {
		t.Errorf("another commit: %v", err)
	}
}

// halves is a client of a service that leaves half of the keys of each read unprocessed.
type halves struct{ dynamostore.Client }

func (h halves) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	asked, left := maps.Clone(in.RequestItems), map[string]types.KeysAndAttributes{}
	for table, all := range asked {
		rest := all
		all.Keys, rest.Keys = all.Keys[:(len(all.Keys)+1)/2], all.Keys[(len(all.Keys)+1)/2:]
		if asked[table] = all; len(rest.Keys) > 0 {
			left[table] = rest
		}
	}
	some := *in
	some.RequestItems = asked
	out, err := h.Client.BatchGetItem(ctx, &some, o...)
	if err == nil {
		out.UnprocessedKeys = left
	}
	return out, err
}

// Unprocessed keys are read, so that neither an event nor the last number is missing.
func TestAkka0ReadsUnprocessedKeys(t *testing.T) {
	t.Parallel()
	layout := akka0.Layout{Table: "h" + rand.Text(), SequenceShards: 150}
	s, err := dynamostore.Open(t.Context(), halves{client(t)}, layout, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	l := legacy{t, s, "halves"}
	l.fill(0, 120)
	got, err := numbers(t.Context(), s, l.id, 1, annals.MaxSeqNr)
	if err != nil || len(got) != 120 || got[119] != 120 {
		t.Errorf("%d events, %v", len(got), err)
	}
}
