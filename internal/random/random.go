// Package random makes the random choices of tests. A test that has failed logs the command that makes the same choices again.
package random

import (
	"flag"
	"iter"
	"math/rand/v2"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	only  = flag.String("random.seed", "", "the one seed of the tests that make random choices; empty: new seeds")
	seeds = flag.Int("random.seeds", 0, "how many seeds a test has that runs with several; 0: as many as it says")
)

// Source makes random choices. Goroutines may use one at the same time; the choices of each depend on those of the others then: see Child.
type Source struct {
	*rand.Rand
	Seed uint64
}

// Of returns the Source of a seed.
func Of(seed uint64) *Source {
	return &Source{rand.New(&locked{source: rand.NewPCG(seed, 1)}), seed}
}

// locked is a rand.Source for several goroutines. A rand.Rand has no other state.
type locked struct {
	mu     sync.Mutex
	source *rand.PCG
}

func (l *locked) Uint64() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.source.Uint64()
}

// New returns a Source for tb.
func New(tb testing.TB) *Source {
	tb.Helper()
	r := next(tb)
	tb.Cleanup(func() { r.logIfFailed(tb, tb.Name()) })
	return r
}

// Rounds yields the Sources of n seeds, one after the other, until tb has failed.
func Rounds(tb testing.TB, n int) iter.Seq[*Source] {
	return func(yield func(*Source) bool) {
		for range count(n) {
			r := next(tb)
			if goes := r.round(tb, yield); !goes || tb.Failed() {
				return
			}
		}
	}
}

func (r *Source) round(tb testing.TB, yield func(*Source) bool) bool {
	defer func() { r.logIfFailed(tb, tb.Name()) }() // also when the test ends its goroutine
	return yield(r)
}

// Each runs test with n seeds, in parallel subtests.
func Each(t *testing.T, n int, test func(t *testing.T, r *Source)) {
	t.Helper()
	name := t.Name()
	for i := range count(n) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			r := next(t)
			defer func() { r.logIfFailed(t, name) }()
			test(t, r)
		})
	}
}

// count is how many seeds a test has that asks for n.
func count(n int) int {
	switch {
	case *only != "":
		return 1
	case *seeds > 0:
		return *seeds
	}
	return n
}

func next(tb testing.TB) *Source {
	if *only == "" {
		return Of(rand.Uint64())
	}
	seed, err := strconv.ParseUint(*only, 10, 64)
	if err != nil {
		tb.Fatalf("-random.seed: %v", err)
	}
	return Of(seed)
}

// logIfFailed logs the command that runs the test with the name again, with the seed of r.
func (r *Source) logIfFailed(tb testing.TB, name string) {
	if !tb.Failed() {
		return
	}
	pkg := "."
	if info, ok := debug.ReadBuildInfo(); ok {
		pkg = strings.TrimSuffix(info.Path, ".test")
	}
	pattern := strings.ReplaceAll("^"+regexp.QuoteMeta(name)+"$", "/", "$/^")
	tb.Logf("to make the same choices again: go test %s -run '%s' -random.seed=%d", pkg, pattern, r.Seed)
}

// Child returns a Source for another goroutine, whose choices do not depend on what others choose.
func (r *Source) Child() *Source { return Of(r.Uint64()) }

// OneIn returns true once in n times; never when n is 0.
func (r *Source) OneIn(n int) bool { return n > 0 && r.IntN(n) == 0 }

// Below returns a time from 0 on and less than d, which must be above 0.
func (r *Source) Below(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// OneOf returns one of vs.
func OneOf[T any](r *Source, vs ...T) T { return vs[r.IntN(len(vs))] }
