package entity_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

// The goroutine that has answered a command runs the next one of the same caller. The test does not run in parallel with others, because it
// needs a single processor: other tests could take the goroutine before the caller runs.
func TestOneCallerKeepsOneGoroutine(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b, goroutines := account, map[string]bool{}
	b.Decide = func(balance, amount int) ([]int, error) {
		var stack [64]byte
		id, _, _ := bytes.Cut(stack[:runtime.Stack(stack[:], false)], []byte(" ["))
		goroutines[string(id)] = true
		return account.Decide(balance, amount)
	}
	rt, err := entity.New(memstore.New(), b, entity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const commands = 1000
	for range commands {
		if _, err := rt.Ask(t.Context(), "a", 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(goroutines); n > commands/4 {
		t.Errorf("%d goroutines ran %d commands of one caller", n, commands)
	}
}
