package j5ik2o_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/internal/akkawire"
)

// A lost row is noticed, or the reads are as before. docs/layouts/j5ik2o.md has the exceptions.
func TestLostRows(t *testing.T) {
	t.Parallel()
	const hard, soft = true, false
	for name, l := range layouts() {
		for _, c := range []struct {
			hard            bool
			saved, deleted  annals.SeqNr
			first, snapshot bool // the loss of the first event that is not deleted, and of the snapshot, is not noticed
		}{
			{hard: soft, first: true}, {hard: hard, first: true},
			{hard: soft, saved: 3, first: true}, {hard: hard, saved: 3, first: true},
			{hard: soft, deleted: 3}, {hard: hard, deleted: 3, first: true},
			{hard: soft, saved: 3, deleted: 3, snapshot: true}, {hard: hard, saved: 3, deleted: 3, first: true, snapshot: true},
			{hard: soft, saved: 5, deleted: 3, snapshot: true}, {hard: hard, saved: 5, deleted: 3, first: true, snapshot: true},
			{hard: soft, saved: 3, deleted: 5, snapshot: true}, {hard: hard, saved: 3, deleted: 5, first: true, snapshot: true},
		} {
			t.Run(fmt.Sprintf("%s, hard %t, snapshot %d, %d deleted", name, c.hard, c.saved, c.deleted), func(t *testing.T) {
				t.Parallel()
				plantest.LoseAnyRow(t, l(c.hard), "Thread-42", func(b *plantest.Bench) {
					b.Append(0, "1", "2")
					b.Append(2, "3")
					b.Append(3, "4")
					b.Append(4, "5", "6", "7")
					b.Append(7, "8")
					if c.saved > 0 {
						b.Save(c.saved, []byte("s"))
					}
					b.Delete(c.deleted)
					b.Put(0, nil)
				}, func(table string, it plan.Item) plantest.Unnoticed {
					switch n, _ := plan.Number(it, "sequence-nr"); {
					case table == "Snapshot" && c.snapshot:
						return plantest.Unnoticed{Why: "a snapshot whose events are deleted", Strict: true}
					case table == "State":
						return plantest.Unnoticed{Why: "a state", Strict: true}
					case table == "Snapshot":
					case n == 8:
						return plantest.Unnoticed{Why: "the newest event", Strict: true}
					case annals.SeqNr(n) == c.deleted+1 && c.first:
						return plantest.Unnoticed{Why: "the first event", Strict: c.hard}
					}
					return plantest.Unnoticed{}
				})
			})
		}
	}
}

// An event that is lost from a table of the plugin is missed, unless it is the newest, or the plugin could have left its number unused: it is the
// first, or the rows beside it have the same writer and different times, or one has no writer.
func TestLostEventsOfThePlugin(t *testing.T) {
	t.Parallel()
	lost, silent := 0, 0
	for name, s := range scenarios(t) {
		layout := s.layout("", s.settings.Settings)
		if layout.Journal.Off || layout.Journal.Columns.Message != "" || name == "resolver-change" {
			continue // a table with two rows of one number can lose one of them
		}
		offer, err := layout.Plan()
		if err != nil {
			t.Fatal(err)
		}
		x, journal := plantest.New(offer.Tables), cmp.Or(layout.Journal.Table, "Journal")
		for _, table := range s.tables {
			for _, it := range table.Items {
				if _, err := x.Write(t.Context(), plan.Write{Ops: []plan.Op{{Table: table.Table.TableName, Put: plan.Item(it)}}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, e := range s.expected.PersistenceIDs {
			rows := eventsOf(x.Items(journal), e.PID)
			for i := 0; i+1 < len(rows); i++ {
				if plan.Flag(rows[i], "deleted") {
					continue
				}
				less := x.Clone()
				if err := less.DeleteAll(t.Context(), journal, []plan.Item{offer.Tables[0].KeyOf(rows[i])}); err != nil {
					t.Fatal(err)
				}
				var failed error
				for _, failed = range offer.On(less).Journal.Replay(t.Context(), e.PID, 1, annals.MaxSeqNr) {
					continue
				}
				lost++
				if errors.Is(failed, annals.ErrCorrupt) {
					continue
				}
				silent++
				if failed != nil || i > 0 && written(rows[i-1]) != "" && written(rows[i+1]) != "" &&
					(written(rows[i-1]) != written(rows[i+1]) || plan.KeyText(rows[i-1]["ordering"]) == plan.KeyText(rows[i+1]["ordering"])) {
					t.Errorf("%s, %s: without the row %v: %v", name, e.PID, rows[i]["sequence-nr"], failed)
				}
			}
		}
	}
	if t.Logf("%d of %d not noticed", silent, lost); lost < 60 || silent == lost {
		t.Errorf("%d of %d not noticed", silent, lost)
	}
}

// eventsOf returns the rows of id in a journal, ascending.
func eventsOf(rows []plan.Item, id annals.PersistenceID) []plan.Item {
	rows = slices.DeleteFunc(rows, func(it plan.Item) bool { pid, _ := plan.Text(it, "persistence-id"); return pid != string(id) })
	number := func(it plan.Item) int64 { n, _ := plan.Number(it, "sequence-nr"); return n }
	slices.SortFunc(rows, func(a, b plan.Item) int { return cmp.Compare(number(a), number(b)) })
	return rows
}

func written(it plan.Item) string {
	message, _ := plan.Bytes(it, "message")
	r, _ := akkawire.ParseRecord(message)
	return r.Writer
}
