package dynamostore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// akkaEntity is an entity in a store of the akka layout. Its methods are the operations of the plugin's own test suite.
type akkaEntity struct {
	*testing.T
	s      *dynamostore.Store
	client *dynamodb.Client
	table  string
	id     annals.PersistenceID
	next   annals.SeqNr
}

// write appends the events from … to, as one batch if atomic is set.
func (e *akkaEntity) write(from, to annals.SeqNr, atomic bool) {
	e.Helper()
	var events []annals.NewEvent
	for n := from; n <= to; n++ {
		events = append(events, text(fmt.Sprint("a-", n)))
	}
	size := 1
	if atomic {
		size = len(events)
	}
	for chunk := range slices.Chunk(events, size) {
		r, err := e.s.Journal().Append(e.Context(), annals.Commit{ID: e.id, After: e.next, Events: chunk})
		if err != nil {
			e.Fatal(err)
		}
		e.next = r.SeqNr
	}
	if e.next != to {
		e.Fatalf("the last number written is %d, want %d", e.next, to)
	}
}

// lose deletes the items of events from the table.
func (e *akkaEntity) lose(numbers ...annals.SeqNr) {
	e.Helper()
	for _, n := range numbers {
		key := plan.Item{"par": plan.S(fmt.Sprintf("journal-P-%s-%d", e.id, n/100)), "num": plan.N(n % 100)}
		if _, err := e.client.DeleteItem(e.Context(), &dynamodb.DeleteItemInput{TableName: &e.table, Key: key}); err != nil {
			e.Fatal(err)
		}
	}
}

// has checks what a replay yields and what the last number is. Numbers are written as "1..3 7".
func (e *akkaEntity) has(from, to annals.SeqNr, want string, last annals.SeqNr) {
	e.Helper()
	var got []annals.SeqNr
	for ev, err := range e.s.Journal().Replay(e.Context(), e.id, from, to) {
		if err != nil || string(ev.Data) != fmt.Sprint("a-", ev.SeqNr) {
			e.Fatalf("event %d is %q, %v", ev.SeqNr, ev.Data, err)
		}
		got = append(got, ev.SeqNr)
	}
	if n, err := e.s.Journal().LastSeqNr(e.Context(), e.id); err != nil || n != last || spans(got) != want {
		e.Errorf("%s: replayed %s, the last number is %d, %v; want %s and %d", e.Name(), spans(got), n, err, want, last)
	}
}

// lists checks what ListAll returns.
func (e *akkaEntity) lists(lowest, highest, numbers string) {
	e.Helper()
	all, low, high, err := akka.ListAll(e.Context(), e.s, e.id)
	if err != nil || spans(low) != lowest || spans(high) != highest || spans(all) != numbers {
		e.Errorf("%s: listed %d, %d, %d, %v; want %s, %s, %s", e.Name(), low, high, all, err, lowest, highest, numbers)
	}
}

func (e *akkaEntity) deleteTo(to annals.SeqNr) {
	e.Helper()
	if err := e.s.Journal().DeleteTo(e.Context(), e.id, to); err != nil {
		e.Error(err)
	}
}

func (e *akkaEntity) purge() {
	e.Helper()
	if err := akka.Purge(e.Context(), e.s, e.id); err != nil {
		e.Error(err)
	}
	e.next = 0
}

// spans shortens numbers: "1..3 7".
func spans(numbers []annals.SeqNr) string {
	var parts []string
	for i := 0; i < len(numbers); {
		first := i
		for i++; i < len(numbers) && numbers[i] == numbers[i-1]+1; i++ {
		}
		if part := fmt.Sprint(numbers[first]); i-1 > first {
			parts = append(parts, fmt.Sprintf("%s..%d", part, numbers[i-1]))
		} else {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}

// The cases of the plugin's own test suite about its layout, by their ids, and those in which this package does what the plugin should.
func TestAkkaCases(t *testing.T) {
	t.Parallel()
	client, layout := client(t), newAkka(false)().(akka.Layout)
	s, err := dynamostore.Open(t.Context(), client, layout, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	entity := func(name string, do func(e *akkaEntity)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			do(&akkaEntity{T: t, s: s, client: client, table: layout.Journal.Table, id: annals.NewPersistenceID("Case", name)})
		})
	}
	const all = annals.MaxSeqNr
	entity("J-D", func(e *akkaEntity) {
		e.purge()
		e.lists("", "", "") // J-D1
		e.write(1, 149, false)
		e.lists("", "100", "1..149") // J-D2
		e.write(150, 200, true)
		e.lists("", "100 200", "1..200") // J-D3
		e.deleteTo(5)
		e.lists("6", "100 200", "6..200") // J-D4
		e.has(1, all, "6..200", 200)      // Q-P3
		e.deleteTo(3)
		e.lists("6", "100 200", "6..200") // J-D5
		e.deleteTo(210)
		e.lists("6 201", "100 200", "200") // J-D6, and the last event, which is hidden
		e.has(1, all, "", 200)
		e.purge()
		e.lists("", "", "") // J-D7
	})
	for name, first := range map[string]annals.SeqNr{"J-A1": 0, "J-A2": 98, "J-A3": 99, "J-A4": 100, "J-A5": 97} {
		entity(name, func(e *akkaEntity) {
			if first == 0 {
				e.write(1, 10, true)
			} else {
				e.write(1, first-1, true)
				e.write(first, first+2, true)
			}
			e.has(1, all, fmt.Sprintf("1..%d", e.next), e.next)
		})
	}
	entity("J-R", func(e *akkaEntity) {
		for range 50 { // J-R1, Q-P4
			e.purge()
			e.write(1, 20, false)
			e.has(1, all, "1..20", 20)
		}
		for _, first := range []annals.SeqNr{21, 24, 27, 30, 33} {
			e.write(first, first+2, true)
		}
		e.write(36, 36, false)
		e.write(37, 39, true)
		e.lose(22, 24, 32, 35, 39)
		e.has(1, all, "1..20 27..29 36", 38) // J-R2
		if last, err := ability.Recover(e.Context(), s, e.id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil }); err != nil || last != 38 {
			e.Errorf("recovered up to %d, %v, want 38", last, err)
		}
		e.next = 38
		e.write(39, 100, false)
		e.lose(100)
		e.lists("", "100", "1..21 23 25..31 33..34 36..99")
		e.has(39, all, "39..99", 100) // J-R3
		e.write(101, 103, true)
		e.lose(103)
		e.next = 102
		e.write(103, 105, true)
		e.has(101, all, "103..105", 105) // J-R4
		e.write(106, 108, true)
		e.lose(107, 108)
		e.next = 106
		e.write(107, 109, true)
		e.has(106, all, "107..109", 109) // J-R5
	})
	entity("J-O5 J-X1", func(e *akkaEntity) {
		e.write(1, 3, false)
		e.write(4, 5, true)
		e.deleteTo(3)
		e.has(1, 4, "4", 5) // J-O5
		e.write(6, 10, true)
		e.write(11, 11, false)
		e.deleteTo(7)
		e.has(1, all, "8..11", 11) // J-X1
		e.has(9, 9, "9", 11)
	})
	entity("J-X2", func(e *akkaEntity) {
		e.write(1, 5, true)
		if err := s.Snapshots().Save(e.Context(), annals.Snapshot{ID: e.id, SeqNr: 2, Payload: text("state").Payload}); err != nil {
			e.Fatal(err)
		}
		var got []annals.SeqNr
		last, err := ability.Recover(e.Context(), s, e.id, func(s annals.Snapshot) error { got = append(got, s.SeqNr); return nil }, func(e annals.Event) error { got = append(got, e.SeqNr); return nil })
		if err != nil || last != 5 || spans(got) != "2..5" {
			e.Errorf("recovered %v up to %d, %v", got, last, err)
		}
	})
	entity("J-X3", func(e *akkaEntity) {
		e.write(1, 98, true)
		e.write(99, 102, true)
		e.write(103, 103, false)
		e.has(1, 100, "1..100", 103)
		e.has(101, 200, "101..103", 103)
	})
	entity("J-X4", func(e *akkaEntity) {
		e.write(1, 5, true)
		for ev, err := range akka.ReplayLimit(e.Context(), s, e.id, 1, all, 3) {
			e.Errorf("a limit that cuts the batch has shown event %d, %v", ev.SeqNr, err)
		}
	})
	entity("J-X8", func(e *akkaEntity) { // a group of several pages
		for n := range annals.SeqNr(5) {
			if _, err := s.Journal().Append(e.Context(), annals.Commit{ID: e.id, After: n, Events: []annals.NewEvent{text(strings.Repeat("x", 399_000))}}); err != nil {
				e.Fatal(err)
			}
		}
		e.next = 5
		e.write(6, 9, true)
		e.has(6, all, "6..9", 9)
		if got, err := numbers(e.Context(), s, e.id, 1, all); err != nil || spans(got) != "1..9" {
			e.Errorf("replayed %v, %v", got, err)
		}
	})
	entity("J-X9", func(e *akkaEntity) {
		e.write(1, 100, false)
		for _, c := range []annals.Commit{{After: 98, Events: texts("other")}, {After: 99, Events: texts("other")}, {After: 98, Events: texts("other", "other")}} {
			if c.ID = e.id; true {
				if _, err := s.Journal().Append(e.Context(), c); !errors.Is(err, annals.ErrConflict) {
					e.Errorf("a second event after %d: %v", c.After, err)
				}
			}
		}
		e.has(1, all, "1..100", 100)
	})
	entity("J-F6", func(e *akkaEntity) { // a commit that is too large for the plugin uses no number
		e.write(1, 1, false)
		large := text(strings.Repeat("x", 400_000))
		for _, events := range [][]annals.NewEvent{{large}, {text("a-2"), large}} {
			if _, err := s.Journal().Append(e.Context(), annals.Commit{ID: e.id, After: 1, Events: events}); !errors.Is(err, annals.ErrTooLarge) {
				e.Errorf("a commit that is too large: %v", err)
			}
		}
		e.write(2, 2, false)
		e.has(1, all, "1..2", 2)
	})
}

// Open refuses settings that do not fit what is stored.
func TestAkkaSettings(t *testing.T) {
	t.Parallel()
	client, layout := client(t), newAkka(false)().(akka.Layout)
	layout.Journal.SequenceShards = 20
	open := func(change func(l *akka.Layout)) error {
		l := layout
		change(&l)
		s, err := dynamostore.Open(t.Context(), client, l, dynamostore.Options{CreateTables: true})
		if err != nil {
			return err
		}
		if err = s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "Thing|1", SeqNr: 1899, Payload: texts("1899")[0].Payload}); err == nil {
			_, err = s.Journal().Append(t.Context(), annals.Commit{ID: "Thing|1", After: 1899, Events: texts("1900")})
		}
		_ = s.Close()
		return err
	}
	if err := open(func(*akka.Layout) {}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(l *akka.Layout)
		kind   error
	}{
		{"fewer shards (J-X10)", func(l *akka.Layout) { l.Journal.SequenceShards = 10 }, annals.ErrInvalid},
		{"more shards", func(l *akka.Layout) { l.Journal.SequenceShards = 30 }, annals.ErrConflict},
		{"another name", func(l *akka.Layout) { l.Journal.Name = "orders" }, annals.ErrInvalid},
		{"another name of snapshots", func(l *akka.Layout) { l.Snapshot.Name = "orders" }, annals.ErrInvalid},
		{"another name of snapshots alone", func(l *akka.Layout) { l.Journal.Off, l.Snapshot.Name = true, "orders" }, annals.ErrInvalid},
		{"no shards", func(l *akka.Layout) { l.Journal.SequenceShards = -1 }, annals.ErrInvalid},
		{"a negative read ahead", func(l *akka.Layout) { l.Journal.ReplayAhead = -1 }, annals.ErrInvalid},
		{"the same, once more", func(*akka.Layout) {}, annals.ErrConflict},
		{"without the index", func(l *akka.Layout) { l.Journal.IDIndex = "" }, annals.ErrConflict},
		{"another name of tables", func(l *akka.Layout) { l.Journal.IDIndex = "other" }, annals.ErrInvalid},
		{"another journal", func(l *akka.Layout) { l.Journal.Name, l.Journal.OtherNames = "orders", []string{"journal"} }, nil},
	} {
		if err := open(c.change); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", c.name, err, c.kind)
		}
	}
}
