package entity_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/entity"
)

type balance struct{ total int }

const (
	inDecide = 1000 + 10*iota
	inEvolve
	inReply
	inTags
	inEncode
	inMetadata
	inInit
	inDecode
)

type trapCodec struct{ codec.Codec[int] }

func (c trapCodec) Encode(amount int) (annals.Payload, error) {
	spring(amount, inEncode)
	return c.Codec.Encode(amount)
}

func spring(amount, where int) {
	if way := amount - where; way >= 0 && way < len(ways) {
		ways[way].end()
	}
}

// ways are how a goroutine ends: an amount is a place and a way.
var ways = []struct {
	name, text string
	end        func()
}{
	{"panic", "sprung", func() { panic("sprung") }},
	{"nil error", "<nil>", func() { panic((*myError)(nil)) }},
	{"Goexit", "runtime.Goexit", runtime.Goexit},
}

type myError struct{ text string }

func (e *myError) Error() string { return e.text } // panics for nil

type trapStates struct {
	codec.Codec[int]
	amount int
}

func (c trapStates) Encode(balance int) (annals.Payload, error) {
	if balance >= inEncode {
		spring(c.amount, inEncode)
	}
	return c.Codec.Encode(balance)
}

// trap is account with a mutable state, panicking wherever the amount says so.
var trap = behavior.EventSourced[int, int, *balance, int]{
	Type: "Trap",
	Init: func(string) *balance { return &balance{} },
	Decide: func(b *balance, amount int) ([]int, error) {
		spring(amount, inDecide)
		if amount == 0 {
			return nil, nil
		}
		return []int{amount}, nil
	},
	Evolve: func(b *balance, amount int) *balance {
		b.total += amount // half of the work, as it were
		spring(amount, inEvolve)
		return b
	},
	Reply: func(b *balance, amount int, _ []int) int {
		spring(amount, inReply)
		return b.total
	},
	Events: trapCodec{account.Events},
	Tags: func(amount int) []string {
		spring(amount, inTags)
		return nil
	},
}

// A panic fails its own command alone. The state, which may have been changed in part, is discarded.
func TestPanicIsContained(t *testing.T) {
	t.Parallel()
	eachWay(t, map[int]string{inDecide: "Decide", inEvolve: "Evolve", inReply: "Reply", inTags: "Tags", inEncode: "Encode", inMetadata: "Metadata"},
		func(t *testing.T, where int, text string) {
			synctest.Test(t, func(t *testing.T) {
				s := newHooked()
				g := gated(s)
				var log bytes.Buffer
				metadata := func(ctx context.Context) (annals.Payload, error) {
					if amount, ok := ctx.Value(trapped{}).(int); ok {
						spring(amount, inMetadata)
					}
					return annals.Payload{}, nil
				}
				rt, err := entity.New(s, trap, entity.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Metadata: metadata})
				if err != nil {
					t.Fatal(err)
				}
				inFlight := ask(t.Context(), rt, 1)
				synctest.Wait()
				before := ask(t.Context(), rt, 2)
				synctest.Wait()
				bad := ask(context.WithValue(t.Context(), trapped{}, where), rt, where)
				synctest.Wait()
				after := ask(t.Context(), rt, 3)
				synctest.Wait()
				close(g.open)
				synctest.Wait()
				a := <-bad
				if !errors.Is(a.err, annals.ErrPanic) || !strings.Contains(a.err.Error(), text) || a.reply != 0 {
					t.Errorf("answered %d, %v", a.reply, a.err)
				}
				answered(t, inFlight, 1, nil)
				answered(t, before, 3, nil)
				answered(t, after, 6, nil)
				mustAsk(t, rt, 0, 6)
				if !strings.Contains(log.String(), "panic_test.go") {
					t.Errorf("the log does not show where: %s", log.String())
				}
				mustShutdown(t, rt)
			})
		})
}

type trapped struct{}

// eachWay runs test for each place, with the amount that ends it there in each way.
func eachWay(t *testing.T, places map[int]string, test func(t *testing.T, amount int, text string)) {
	for where, name := range places {
		for i, way := range ways {
			t.Run(name+"/"+way.name, func(t *testing.T) { test(t, where+i, way.text) })
		}
	}
}

// mustShutdown shuts rt down while nothing keeps it from that.
func mustShutdown(t *testing.T, rt interface {
	Shutdown(ctx context.Context) error
}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := rt.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func TestPanicOfADurableStateIsContained(t *testing.T) {
	t.Parallel()
	b := accountState
	b.Decide = func(balance, amount int) (behavior.Effect[int], error) {
		spring(amount, inDecide)
		return accountState.Decide(balance, amount)
	}
	b.Reply = func(balance, amount int) int {
		spring(amount, inReply)
		return balance
	}
	eachWay(t, map[int]string{inDecide: "Decide", inReply: "Reply", inTags: "Tags", inEncode: "Encode"},
		func(t *testing.T, where int, _ string) {
			b := b
			b.Tags = func(balance int) []string {
				if balance >= inTags {
					spring(where, inTags)
				}
				return nil
			}
			b.States = trapStates{accountState.States, where}
			synctest.Test(t, func(t *testing.T) {
				s := newHooked()
				g := gated(s)
				rt, err := entity.NewState(s, b, entity.Options{Logger: quiet})
				if err != nil {
					t.Fatal(err)
				}
				inFlight := ask(t.Context(), rt, 1)
				synctest.Wait()
				before := ask(t.Context(), rt, 1)
				synctest.Wait()
				bad := ask(t.Context(), rt, where)
				synctest.Wait()
				after := ask(t.Context(), rt, 3)
				synctest.Wait()
				close(g.open)
				answered(t, inFlight, 1, nil)
				answered(t, before, 2, nil)
				answered(t, bad, 0, annals.ErrPanic)
				answered(t, after, 5, nil)
				mustAsk(t, rt, 0, 5)
				mustShutdown(t, rt)
			})
		})
}

// A panic on a stored event, a restored snapshot or a state fails the commands that wait. The next command loads the entity again.
func TestPanicInRecovery(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			o := entity.Options{Logger: quiet}
			decode := func(annals.Payload) (int, error) { way.end(); return 0, nil }
			init, evolve, event, snapshot := account, account, account, account
			init.Init = func(string) int { way.end(); return 0 }
			evolve.Evolve = func(int, int) int { way.end(); return 0 }
			event.Events = broken{account.Events, decode}
			snapshot.Restore = func(string, int) int { way.end(); return 0 }
			first, stored := accountState, accountState
			first.Init = func(string) int { way.end(); return 0 }
			stored.States = broken{accountState.States, decode}

			events, states := newHooked(), newHooked()
			snapshotting := account
			snapshotting.SnapshotEvery = 1
			rt, _ := entity.New(events, snapshotting, o)
			mustAsk(t, rt, 5, 5)
			mustShutdown(t, rt) // the snapshot is saved
			rt, _ = entity.NewState(states, accountState, o)
			mustAsk(t, rt, 5, 5)
			for name, start := range map[string]func() (*entity.Runtime[int, int, int], error){
				"Init":     func() (*entity.Runtime[int, int, int], error) { return entity.New(events, init, o) },
				"Evolve":   func() (*entity.Runtime[int, int, int], error) { return entity.New(withoutSnapshots(events), evolve, o) },
				"event":    func() (*entity.Runtime[int, int, int], error) { return entity.New(withoutSnapshots(events), event, o) },
				"snapshot": func() (*entity.Runtime[int, int, int], error) { return entity.New(events, snapshot, o) },
				"first":    func() (*entity.Runtime[int, int, int], error) { return entity.NewState(newHooked(), first, o) },
				"state":    func() (*entity.Runtime[int, int, int], error) { return entity.NewState(states, stored, o) },
			} {
				rt, err := start()
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if _, err := rt.Ask(t.Context(), "a", 1); !errors.Is(err, annals.ErrPanic) {
						t.Errorf("%s: %v, want a panic", name, err)
					}
				}
				mustShutdown(t, rt)
			}
			if n := events.writes.Load() + states.writes.Load(); n != 2 {
				t.Errorf("%d writes, want 2", n)
			}
		})
	}
}

// broken is a codec that does not get far.
type broken struct {
	codec.Codec[int]
	decode func(annals.Payload) (int, error)
}

func (c broken) Decode(p annals.Payload) (int, error) { return c.decode(p) }

// withoutSnapshots hides the snapshots of s.
func withoutSnapshots(s annals.Store) annals.Store { return eventsOnly{s} }

type eventsOnly struct{ annals.Store }

func (eventsOnly) Snapshots() annals.SnapshotStore { return driver.Unsupported().Snapshots() }

// No command suffers from a snapshot that cannot be taken.
func TestPanicInSnapshot(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			b := account
			b.SnapshotEvery = 1
			b.States = unwritable{account.States, way.end}
			rt, _ := entity.New(newHooked(), b, entity.Options{Logger: quiet})
			mustAsk(t, rt, 5, 5)
			mustAsk(t, rt, 1, 6)
			mustShutdown(t, rt)
		})
	}
}

type unwritable struct {
	codec.Codec[int]
	end func()
}

func (c unwritable) Encode(int) (annals.Payload, error) { c.end(); return annals.Payload{}, nil }

// Observer and Logger are told, and cannot disturb.
func TestPanicInObserverAndLogger(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			end := ending{way.end}
			rt, _ := entity.New(newHooked(), trap, entity.Options{Observer: end, Logger: slog.New(end)})
			mustAsk(t, rt, 5, 5)
			if _, err := rt.Ask(t.Context(), "a", inDecide); !errors.Is(err, annals.ErrPanic) {
				t.Errorf("%v, want a panic", err)
			}
			mustAsk(t, rt, 1, 6)
			mustShutdown(t, rt)
		})
	}
}

// ending is an Observer and a slog.Handler that ends its goroutine.
type ending struct{ end func() }

func (e ending) Start(ctx context.Context, _ annals.Call) context.Context { e.end(); return ctx }
func (e ending) End(context.Context, annals.Call, annals.Result)          { e.end() }
func (e ending) Enabled(context.Context, slog.Level) bool                 { return true }
func (e ending) Handle(context.Context, slog.Record) error                { e.end(); return nil }
func (e ending) WithAttrs([]slog.Attr) slog.Handler                       { return e }
func (e ending) WithGroup(string) slog.Handler                            { return e }

// A PersistenceID that panics fails the call.
func TestPanicInPersistenceID(t *testing.T) {
	t.Parallel()
	b := account
	b.PersistenceID = func(string) annals.PersistenceID { panic("sprung") }
	rt, _ := entity.New(newHooked(), b, entity.Options{Logger: quiet})
	if _, err := rt.Ask(t.Context(), "a", 1); !errors.Is(err, annals.ErrPanic) {
		t.Errorf("%v, want a panic", err)
	}
	mustShutdown(t, rt)
}

// A store that ends the goroutine of a write leaves its outcome unknown.
func TestGoexitInStore(t *testing.T) {
	t.Parallel()
	s := newHooked()
	s.write = func(context.Context, written, func() error) error {
		runtime.Goexit()
		return nil
	}
	rt, _ := entity.New(s, account, entity.Options{Logger: quiet})
	if _, err := rt.Ask(t.Context(), "a", 1); !errors.Is(err, annals.ErrUnknown) {
		t.Errorf("%v, want ErrUnknown", err)
	}
	mustShutdown(t, rt)
}

// A panic value that is an error can be matched.
func TestPanicWithAnErrorKeepsIt(t *testing.T) {
	t.Parallel()
	b := account
	b.Decide = func(int, int) ([]int, error) { panic(context.Canceled) }
	rt, _ := entity.New(newHooked(), b, entity.Options{Logger: quiet})
	if _, err := rt.Ask(t.Context(), "a", 1); !errors.Is(err, annals.ErrPanic) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want a panic with context.Canceled", err)
	}
}
