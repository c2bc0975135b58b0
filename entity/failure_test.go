package entity_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
)

// After a conflict all commands of the batch are decided again on what another owner wrote, also rejections and reads.
func TestConflictDecidesAgain(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		other := start(s.mem, entity.Options{})
		rt := start(s, entity.Options{})
		mustAsk(t, rt, 5, 5)
		g := gated(s)
		mustAsk(t, other, 100, 105)

		deposit := ask(t.Context(), rt, 1)
		synctest.Wait()
		read := ask(t.Context(), rt, 0)
		withdrawal := ask(t.Context(), rt, -50)
		synctest.Wait()
		g.pass() // meets the conflict; deposit and the others go out again
		unanswered(t, deposit)
		unanswered(t, read)
		g.pass()
		balances := []int{(<-deposit).reply, (<-read).reply, (<-withdrawal).reply}
		if balances[0] != 106 || !slices.Contains([]int{106, 56}, balances[1]) || balances[2] != 56 {
			t.Errorf("replies %v, want 106, 106 or 56, 56", balances)
		}
	})
}

// This also holds for a rejection within the batch that meets the conflict.
func TestConflictDecidesRejectionsAgain(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		other := start(s.mem, entity.Options{})
		g := gated(s)
		rt := start(s, entity.Options{})
		first := ask(t.Context(), rt, 5)
		synctest.Wait()
		second := ask(t.Context(), rt, 1)
		synctest.Wait()
		withdrawal := ask(t.Context(), rt, -50) // rejected, together with the second
		synctest.Wait()
		g.pass()
		answered(t, first, 5, nil)
		unanswered(t, withdrawal)
		mustAsk(t, other, 100, 105)
		g.pass()
		unanswered(t, withdrawal)
		g.pass()
		answered(t, second, 106, nil)
		answered(t, withdrawal, 56, nil)
	})
}

// Guards the bound in entity.overtaken: commands give up each on its own, when other owners have overtaken them for so long.
func TestConflictsEndAtConflictTimeout(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		s.write = func(context.Context, written, func() error) error {
			return &annals.Error{Op: "test", Kind: annals.ErrConflict}
		}
		rt := start(s, entity.Options{ConflictTimeout: 10 * time.Second})
		began := time.Now()
		first := ask(t.Context(), rt, 1)
		time.Sleep(6 * time.Second)
		second := ask(t.Context(), rt, 1)
		a := <-first
		if took := time.Since(began); !errors.Is(a.err, annals.ErrConflict) || took < 10*time.Second || took > 11*time.Second {
			t.Errorf("%v after %v, want a conflict after 10 s", a.err, took)
		}
		unanswered(t, second)
		time.Sleep(5 * time.Second)
		unanswered(t, second)
		s.heal()
		if a := <-second; a.reply != 1 || a.err != nil {
			t.Errorf("%d, %v", a.reply, a.err)
		}
	})
}

// When a write fails, its commands fail. The entity is loaded again, and the commands of the next batch are decided again.
func TestCertainFailureFailsItsCommandsOnly(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		result := make(chan error)
		s.write = func(_ context.Context, _ written, next func() error) error {
			if err := <-result; err != nil {
				return err
			}
			return next()
		}
		rt := start(s, entity.Options{})
		first := ask(t.Context(), rt, 5)
		synctest.Wait()
		second := ask(t.Context(), rt, 6)
		synctest.Wait()
		result <- &annals.Error{Op: "test", Kind: annals.ErrFenced}
		answered(t, first, 0, annals.ErrFenced)
		unanswered(t, second)
		result <- nil
		answered(t, second, 6, nil)
	})
}

// When the store refuses a write because of one command, the other commands of the batch succeed.
func TestStoreRefusesOneOfABatch(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		g := make(chan struct{})
		s.write = func(_ context.Context, w written, next func() error) error {
			<-g
			for _, e := range w.commit.Events {
				if string(e.Data) == "13" {
					return &annals.Error{Op: "test", Kind: annals.ErrConstraint}
				}
			}
			if n := len(w.state.Data); n > 0 && strings.Contains("13 14 113 114", string(w.state.Data)) {
				return &annals.Error{Op: "test", Kind: annals.ErrConstraint}
			}
			return next()
		}
		rt := start(s, entity.Options{})
		first := ask(t.Context(), rt, 100)
		synctest.Wait()
		bad := ask(t.Context(), rt, 13)
		synctest.Wait()
		good := ask(t.Context(), rt, 1)
		synctest.Wait()
		read := ask(t.Context(), rt, 0)
		synctest.Wait()
		close(g)
		answered(t, first, 100, nil)
		answered(t, bad, 0, annals.ErrConstraint)
		answered(t, good, 101, nil)
		answered(t, read, 101, nil)
	})
}

// Guards the ErrUnknown case of entity.settle.
func TestUnknownIsNotDecidedAgain(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		for _, landed := range []bool{true, false} {
			s := newHooked()
			s.write = func(ctx context.Context, w written, next func() error) error {
				if landed && w.n == 1 {
					_ = next()
				}
				return &annals.Error{Op: "test", Kind: annals.ErrUnknown}
			}
			rt := start(s, entity.Options{WriteTimeout: 3 * time.Second})
			began := time.Now()
			first := ask(t.Context(), rt, 5)
			synctest.Wait()
			second := ask(t.Context(), rt, 7) // decided on what the first will produce, and not sent
			time.Sleep(time.Second)
			unanswered(t, first)
			a := <-first
			if !errors.Is(a.err, annals.ErrUnknown) || a.reply != 0 || time.Since(began) > 4*time.Second {
				t.Errorf("answered %d, %v after %v", a.reply, a.err, time.Since(began))
			}
			s.heal()
			want := 7
			if landed {
				want = 12
			}
			if a := <-second; a.err != nil || a.reply != want {
				t.Errorf("the second was answered %d, %v, want %d", a.reply, a.err, want)
			}
			mustAsk(t, rt, 0, want)
		}
	})
}

// A store that does not recognise repeated writes reports a write of this runtime as a conflict. Its outcome is unknown.
func TestConflictWithOneselfIsUnknown(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		s.caps.Repeatable, s.caps.IdempotentState = false, false
		s.write = func(_ context.Context, w written, next func() error) error {
			if w.n == 1 {
				_ = next()
				return errors.New("connection reset") // says nothing: as good as unknown
			}
			return &annals.Error{Op: "test", Kind: annals.ErrConflict}
		}
		rt := start(s, entity.Options{})
		_, err := rt.Ask(t.Context(), "a", 5)
		if !errors.Is(err, annals.ErrUnknown) || errors.Is(err, annals.ErrConflict) {
			t.Errorf("%v, want unknown and no conflict", err)
		}
		s.heal()
		mustAsk(t, rt, 0, 5)
	})
}

// When the store no longer knows who made a write, the outcome is unknown at once: the write is not repeated until WriteTimeout.
func TestForgottenWriteIsUnknownAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		other, _ := entity.NewState(s.mem, accountState, entity.Options{})
		s.write = func(_ context.Context, w written, next func() error) error {
			if w.n == 1 {
				_ = next()
				for range 5 {
					if _, err := other.Ask(t.Context(), "a", 1); err != nil {
						t.Error(err)
					}
				}
				return &annals.Error{Op: "test", Kind: annals.ErrUnknown}
			}
			return next()
		}
		rt, _ := entity.NewState(s, accountState, entity.Options{})
		began := time.Now()
		if _, err := rt.Ask(t.Context(), "a", 5); !errors.Is(err, annals.ErrUnknown) || time.Since(began) > time.Second {
			t.Errorf("%v after %v, want unknown at once", err, time.Since(began))
		}
		mustAsk(t, rt, 0, 10)
	})
}

// A first try that meets more events of others than the store remembers has written nothing. Its command is decided again.
func TestFirstTryFarBehindIsDecidedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		other, _ := entity.NewState(s.mem, accountState, entity.Options{})
		s.write = func(_ context.Context, w written, next func() error) error {
			if w.n == 1 {
				for i := range 6 {
					mustAsk(t, other, 1, i+1)
				}
			}
			return next()
		}
		rt, _ := entity.NewState(s, accountState, entity.Options{})
		mustAsk(t, rt, 5, 11)
	})
}

// Writes that the store does not take, however often they are sent, are logged, and not one by one.
func TestWritesThatAreGivenUpAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		var log bytes.Buffer
		rt, _ := entity.New(s, account, entity.Options{WriteTimeout: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		down := true
		s.write = func(_ context.Context, _ written, next func() error) error {
			if down {
				return &annals.Error{Op: "test", Kind: annals.ErrUnavailable}
			}
			return next()
		}
		for range 9 {
			if _, err := rt.Ask(t.Context(), "a", 5); !errors.Is(err, annals.ErrUnavailable) {
				t.Error(err)
			}
		}
		if n := strings.Count(log.String(), "a write was given up"); n != 4 || !strings.Contains(log.String(), `"writes given up in a row"=8`) || !strings.Contains(log.String(), "id=Account|a") {
			t.Errorf("9 writes that were given up are logged %d times:\n%s", n, log.String())
		}
		down = false
		mustAsk(t, rt, 5, 5)
		down = true
		_, _ = rt.Ask(t.Context(), "a", 5)
		if n := strings.Count(log.String(), "a write was given up"); n != 5 {
			t.Errorf("the first one after a write that succeeded is not logged:\n%s", log.String())
		}
	})
}

// refusing is a codec whose error, for numbers of 100 and more, is one that stores have.
type refusing struct {
	codec.Codec[int]
	encode, decode error
}

func (c refusing) Encode(n int) (annals.Payload, error) {
	if c.encode != nil && n >= 100 {
		return annals.Payload{}, c.encode
	}
	return c.Codec.Encode(n)
}

func (c refusing) Decode(p annals.Payload) (int, error) {
	n, err := c.Codec.Decode(p)
	if c.decode != nil && n >= 100 {
		err = c.decode
	}
	return n, err
}

// An error of a codec is about its value, also when it is one that stores have: its command fails at once, and no other.
func TestErrorsOfCodecsAreNotOfStores(t *testing.T) {
	t.Parallel()
	for _, fault := range []error{annals.ErrConflict, annals.ErrUnknown, annals.ErrTruncated} {
		for kind, with := range map[string]func(s annals.Store, c refusing) (*entity.Runtime[int, int, int], error){
			"events": func(s annals.Store, c refusing) (*entity.Runtime[int, int, int], error) {
				b := account
				c.Codec = b.Events
				b.Events = c
				return entity.New(s, b, entity.Options{Logger: quiet})
			},
			"state": func(s annals.Store, c refusing) (*entity.Runtime[int, int, int], error) {
				b := accountState
				c.Codec = b.States
				b.States = c
				return entity.NewState(s, b, entity.Options{Logger: quiet})
			},
		} {
			t.Run(kind+" "+fault.Error(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newHooked()
					g := gated(s)
					open := func(c refusing) *entity.Runtime[int, int, int] {
						rt, err := with(s, c)
						if err != nil {
							t.Fatal(err)
						}
						return rt
					}
					began, rt := time.Now(), open(refusing{encode: fault})
					inFlight := ask(t.Context(), rt, 1)
					synctest.Wait()
					before := ask(t.Context(), rt, 2)
					synctest.Wait()
					bad := ask(t.Context(), rt, 100)
					synctest.Wait()
					close(g.open)
					answered(t, inFlight, 1, nil)
					answered(t, before, 3, nil)
					answered(t, bad, 0, annals.ErrInvalid)
					mustShutdown(t, rt)

					rt = open(refusing{})
					mustAsk(t, rt, 100, 103)
					mustShutdown(t, rt)
					rt = open(refusing{decode: fault})
					if _, err := rt.Ask(t.Context(), "a", 1); !errors.Is(err, annals.ErrCorrupt) {
						t.Error(err)
					}
					mustShutdown(t, rt)
					if took := time.Since(began); took > 0 {
						t.Errorf("it took %v", took)
					}
				})
			})
		}
	}
}
