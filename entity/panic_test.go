package entity_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/entity"
)

type balance struct{ total int }

const (
	inDecide = 1000 + 10*iota
	inEvolve
	inReply
	inTags
	inEncode
)

type trapCodec struct{ behavior.Codec[int] }

func (c trapCodec) Encode(amount int) (annals.Payload, error) {
	spring(amount, inEncode)
	return c.Codec.Encode(amount)
}

func spring(amount, where int) {
	if amount == where {
		panic("sprung")
	}
}

type trapStates struct{ behavior.Codec[int] }

func (c trapStates) Encode(balance int) (annals.Payload, error) {
	if balance >= inEncode {
		panic("sprung")
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

// Guards the recover in sourced.Decide and Decision.Broken: a panic is its command's affair alone, and the state that it
// may have left half changed is thrown away.
func TestPanicIsContained(t *testing.T) {
	t.Parallel()
	for where, name := range map[int]string{inDecide: "Decide", inEvolve: "Evolve", inReply: "Reply", inTags: "Tags", inEncode: "Encode"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newHooked()
				g := gated(s)
				var log bytes.Buffer
				rt, err := entity.New(s, trap, entity.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				if err != nil {
					t.Fatal(err)
				}
				inFlight := ask(t.Context(), rt, 1)
				synctest.Wait()
				before := ask(t.Context(), rt, 2)
				synctest.Wait()
				bad := ask(t.Context(), rt, where)
				synctest.Wait()
				after := ask(t.Context(), rt, 3)
				synctest.Wait()
				close(g.open)
				synctest.Wait()
				a := <-bad
				if !errors.Is(a.err, annals.ErrPanic) || !strings.Contains(a.err.Error(), "sprung") || a.reply != 0 {
					t.Errorf("answered %d, %v", a.reply, a.err)
				}
				answered(t, inFlight, 1, nil)
				answered(t, before, 3, nil)
				answered(t, after, 6, nil)
				mustAsk(t, rt, 0, 6)
				if !strings.Contains(log.String(), "panic_test.go") {
					t.Errorf("the log does not show where: %s", log.String())
				}
			})
		})
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
	b.Tags = func(balance int) []string {
		if balance >= inTags && balance < inEncode {
			panic("sprung")
		}
		return nil
	}
	b.States = trapStates{accountState.States}
	for where, name := range map[int]string{inDecide: "Decide", inReply: "Reply", inTags: "Tags", inEncode: "Encode"} {
		t.Run(name, func(t *testing.T) {
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
				synctest.Wait()
				answered(t, inFlight, 1, nil)
				answered(t, before, 2, nil)
				answered(t, bad, 0, annals.ErrPanic)
				answered(t, after, 5, nil)
				mustAsk(t, rt, 0, 5)
			})
		})
	}
}

// Guards the guard in sourced.replay: what panics on a stored event fails the commands that wait, and the next try is free
// to succeed.
func TestPanicInRecovery(t *testing.T) {
	t.Parallel()
	s := newHooked()
	rt, _ := entity.New(s, account, entity.Options{})
	mustAsk(t, rt, 5, 5)
	broken := account
	broken.Evolve = func(int, int) int { panic("sprung") }
	rt, _ = entity.New(s, broken, entity.Options{Logger: quiet})
	for range 2 {
		if _, err := rt.Ask(t.Context(), "a", 1); !errors.Is(err, annals.ErrPanic) {
			t.Errorf("%v, want a panic", err)
		}
	}
	if n := s.writes.Load(); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
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
