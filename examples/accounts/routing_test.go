package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

// byID sends all commands of an entity to one process, as a proxy with a hash of the id does.
func byID(id string, processes, _ int) int {
	h := fnv.New32a()
	h.Write([]byte(id))
	return int(h.Sum32()) % processes
}

// inTurn is what a proxy does that knows nothing of ids.
func inTurn(_ string, processes, request int) int { return request % processes }

// calls counts what two runtimes do in a store.
type calls struct{ reads, writes, refused int }

func (*calls) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (c *calls) End(_ context.Context, call annals.Call, r annals.Result) {
	switch call.Op {
	case "append":
		c.writes++
		if errors.Is(r.Err, annals.ErrConflict) {
			c.refused++
		}
	case "recover":
		c.reads++
	}
}

// What docs/guide/scaling-out.md says of a hundred commands to one entity and two processes.
func TestRouting(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guide/scaling-out.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, route := range map[string]func(id string, processes, request int) int{"by a hash of the id": byID, "in turn": inTurn} {
		synctest.Test(t, func(t *testing.T) {
			count := route100(t, route)
			row := fmt.Sprintf("| %s | %d | %d | %d |", name, count.reads, count.writes, count.refused)
			if !strings.Contains(string(page), row) {
				t.Errorf("the page does not hold the row\n%s", row)
			}
		})
	}
}

// route100 counts what a hundred commands to one entity cost two processes.
func route100(t *testing.T, route func(id string, processes, request int) int) *calls {
	t.Helper()
	count := &calls{}
	store, err := memstore.Open(memstore.Options{Observer: count})
	if err != nil {
		t.Fatal(err)
	}
	var processes []*entity.Runtime[Command, int64, int64]
	for range 2 {
		p, err := entity.New(store, account, entity.Options{})
		if err != nil {
			t.Fatal(err)
		}
		processes = append(processes, p)
	}
	for request := range 100 {
		if _, err := processes[route("ann", len(processes), request)].Ask(t.Context(), "ann", Deposit{1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range processes {
		if err := p.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return count
}
