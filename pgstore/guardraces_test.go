package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/pgstore"
)

// In every order of the steps of two transactions and a writer, what is stored and what was read is the outcome of one after the other.
func TestGuardInEveryOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		states, plugin, reader bool
		steps                  []int
		every                  int // so many orders one is run
	}{
		"events":                       {steps: []int{4, 4, 1}, every: 1},
		"states":                       {states: true, steps: []int{4, 4, 1}, every: 5},
		"events and a reader of both":  {reader: true, steps: []int{4, 4, 1, 1}, every: 31},
		"states and a reader of both":  {states: true, reader: true, steps: []int{4, 4, 1, 1}, every: 61},
		"beside a writer of the JVM's": {plugin: true, steps: []int{4, 4, 2}, every: 13},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, stored := newGuardOrders(t, c.states), 0
			for n, order := range stepOrders(c.steps...) {
				if n%c.every != 0 {
					continue
				}
				ids, all := o.processes(c.plugin, c.reader)
				if wrong := o.run(order, ids, all); wrong != "" {
					t.Error(wrong)
				}
				for _, p := range all[:2] {
					if p.err == nil {
						stored++
					}
				}
			}
			if stored == 0 {
				t.Error("no transaction was stored")
			}
		})
	}
}

// Without one of its parts the guard has a hole, and an order of TestGuardInEveryOrder finds it.
func TestMutantsOfGuard(t *testing.T) {
	t.Parallel()
	const locks = "pg_advisory_xact_lock(key)"
	for name, mutate := range map[string]func(s *pgstore.Store) int{
		"no locks":   func(s *pgstore.Store) int { return pgstore.Mutate(s, locks, "NULL") },
		"no numbers": pgstore.GuardNothing,
		"the numbers of before the locks": func(s *pgstore.Store) int {
			return pgstore.GuardInOneStatement(s) * pgstore.Mutate(s, locks, "NULL")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newGuardOrders(t, false)
			for _, s := range o.stores {
				if mutate(s) != 1 {
					t.Fatal("the statement is another one")
				}
			}
			for _, order := range stepOrders(4, 4) {
				ids, all := o.processes(false, false)
				if wrong := o.run(order, ids, all[:2]); strings.Contains(wrong, "which no order explains") {
					return
				} else if wrong != "" {
					t.Fatal(wrong)
				}
			}
			t.Error("nothing is wrong")
		})
	}
}

// Two transactions wait for the lock that both take last, and lock the same entities. The one that waits first does not wait for the other one then.
func TestGuardLocksInOneOrder(t *testing.T) {
	t.Parallel()
	for _, mutant := range []bool{false, true} {
		t.Run(fmt.Sprint("mutant ", mutant), func(t *testing.T) {
			t.Parallel()
			o := newGuardOrders(t, false)
			if mutant && pgstore.Mutate(o.stores["1"], "ORDER BY key", "ORDER BY key DESC") != 1 {
				t.Fatal("the statement is another one")
			}
			ids, _ := o.processes(false, false)
			key := pgstore.LockKey("guard", "(hashtextextended(id, 0) & 2047)", "'event_journal'")
			var last int64
			if err := o.watch.QueryRow(t.Context(), "SELECT max("+key+") FROM unnest($1::text[]) AS id", []string{string(ids[0]), string(ids[1])}).Scan(&last); err != nil {
				t.Fatal(err)
			}
			if _, err := o.lock.Exec(t.Context(), "SELECT pg_advisory_lock($1)", last); err != nil {
				t.Fatal(err)
			}
			var all []*process
			for _, name := range []string{"1", "2"} {
				p := &process{name: name, sent: 1, ended: make(chan struct{})}
				go func() {
					defer close(p.ended)
					p.err = o.stores[name].InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
						_, errA := in.Journal().LastSeqNr(ctx, ids[0])
						_, errB := in.Journal().LastSeqNr(ctx, ids[1])
						return errors.Join(errA, errB)
					})
				}()
				o.settle(p, false)
				all = append(all, p)
			}
			if _, err := o.lock.Exec(t.Context(), "SELECT pg_advisory_unlock($1)", last); err != nil {
				t.Fatal(err)
			}
			failed := 0
			for _, p := range all {
				if <-p.ended; p.err != nil {
					failed++
				}
			}
			if deadlock := failed > 0; deadlock != mutant {
				t.Errorf("%v, %v", all[0].err, all[1].err)
			}
		})
	}
}
