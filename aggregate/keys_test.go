package aggregate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

// wantOnce sends amount under key to account a, and demands the reply and the number.
func wantOnce(t *testing.T, r *repository, key string, amount, reply int, number annals.SeqNr) {
	t.Helper()
	got, err := r.DoOnce(t.Context(), key, "a", amount)
	if want := (behavior.Result[int]{Reply: reply, SeqNr: number}); got != want || err != nil {
		t.Errorf("%d under %s: %+v, %v; want %+v", amount, key, got, err, want)
	}
}

// A command that is sent again under its key has no effect and gets its first reply, also one that decided nothing, and one that was sent to
// another process. A rejection is not remembered, and is returned unchanged.
func TestAskOnce(t *testing.T) {
	eachKind(t, func(t *testing.T, open func(s annals.Store, o aggregate.Options) *repository) {
		s := memstore.New()
		here, there := open(s, aggregate.Options{}), open(s, aggregate.Options{})
		wantOnce(t, here, "read", 0, 0, 0)
		if _, err := here.AskOnce(t.Context(), "poor", "a", -5); err != errPoor { // unchanged
			t.Errorf("a rejection: %v", err)
		}
		wantOnce(t, here, "seven", 7, 7, 1)
		wantOnce(t, there, "seven", 7, 7, 1)
		wantOnce(t, there, "poor", -5, 2, 2)
		sourced := strings.HasSuffix(t.Name(), "sourced")
		later := func(reply int) int {
			if sourced {
				return reply
			}
			return 2 // of the newest state
		}
		wantOnce(t, here, "seven", 7, later(7), 1)
		wantOnce(t, here, "read", 0, later(0), 0)
		if total, number, err := here.Load(t.Context(), "a"); total != 2 || number != 2 || err != nil {
			t.Errorf("%d, %d, %v", total, number, err)
		}
		// The keys are those of one entity.
		if total, err := here.AskOnce(t.Context(), "seven", "b", 7); total != 7 || err != nil {
			t.Errorf("in another entity: %d, %v", total, err)
		}
		if _, err := here.AskOnce(t.Context(), "", "a", 7); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("without a key: %v", err)
		}
		if _, err := here.AskOnce(t.Context(), "k", "", 7); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("without an id: %v", err)
		}
	})
}

// The reply to a repetition is made of the events of the command, whatever came before and after it, and whether a snapshot covers them.
func TestReplyOnce(t *testing.T) {
	t.Parallel()
	b := account
	b.Decide = func(_, amount int) ([]int, error) { return []int{amount, amount}, nil }
	b.Reply = func(balance, _ int, done []int) int { return 1000*balance + 10*len(done) + done[0] }
	b.SnapshotEvery = 2
	s := memstore.New()
	r, err := aggregate.New(s, b, aggregate.Options{KeepSnapshots: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		wantOnce(t, r, "1", 1, 2021, 2)
		wantOnce(t, r, "2", 2, 6022, 4)
		wantOnce(t, r, "3", 3, 12023, 6)
	}
	// The snapshot is there, but not the events.
	if err := s.Journal().DeleteTo(t.Context(), "Account|a", 6); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"1", "3"} {
		if _, err := r.AskOnce(t.Context(), key, "a", 1); !errors.Is(err, annals.ErrTruncated) || !strings.Contains(err.Error(), "was executed before") {
			t.Errorf("without events: %v", err)
		}
	}
	if _, number, err := r.Load(t.Context(), "a"); number != 6 || err != nil {
		t.Error(number, err)
	}
}

// A key is known for KeyAge. When there are KeepKeys within that time, commands are refused: no key is forgotten earlier.
func TestKeyAge(t *testing.T) {
	eachKind(t, func(t *testing.T, open func(s annals.Store, o aggregate.Options) *repository) {
		synctest.Test(t, func(t *testing.T) {
			r := open(memstore.New(), aggregate.Options{KeyAge: time.Hour, KeepKeys: 3})
			for i := range 3 {
				wantOnce(t, r, fmt.Sprint(i), 1, i+1, annals.SeqNr(i+1))
				time.Sleep(time.Minute)
			}
			if _, err := r.AskOnce(t.Context(), "3", "a", 1); !errors.Is(err, annals.ErrOverloaded) {
				t.Errorf("one key too many: %v", err)
			}
			if total, err := r.AskOnce(t.Context(), "0", "a", 1); err != nil || total > 3 {
				t.Errorf("a repetition: %d, %v", total, err)
			}
			if total, err := r.Ask(t.Context(), "a", 1); total != 4 || err != nil {
				t.Errorf("without a key: %d, %v", total, err)
			}
			time.Sleep(58 * time.Minute)
			wantOnce(t, r, "3", 1, 5, 5)
			time.Sleep(2 * time.Minute)
			wantOnce(t, r, "4", 1, 6, 6)
			wantOnce(t, r, "1", 1, 7, 7) // is not known any more
			wantOnce(t, r, "1", 1, 7, 7)
		})
	})
}

// A key is known for all of KeyAge, also when it was executed at the end of a second.
func TestKeyAgeOfASecond(t *testing.T) {
	eachKind(t, func(t *testing.T, open func(s annals.Store, o aggregate.Options) *repository) {
		synctest.Test(t, func(t *testing.T) {
			r := open(memstore.New(), aggregate.Options{KeyAge: time.Second, KeepKeys: 1})
			time.Sleep(time.Second - 1)
			wantOnce(t, r, "0", 1, 1, 1)
			time.Sleep(time.Second)
			if _, err := r.AskOnce(t.Context(), "1", "a", 1); !errors.Is(err, annals.ErrOverloaded) {
				t.Errorf("another key: %v", err)
			}
			wantOnce(t, r, "0", 1, 1, 1)
		})
	})
}

// What a caller does beside the command is in the transaction too, and undone with the key.
func TestAskOnceInTx(t *testing.T) {
	eachKind(t, func(t *testing.T, open func(s annals.Store, o aggregate.Options) *repository) {
		s, failed := memstore.New(), errors.New("failed")
		for i, want := range []error{failed, nil, nil} {
			err := s.InTx(t.Context(), func(ctx context.Context, tx memstore.Tx, in annals.Store) error {
				n, _ := tx.Value("n").(int)
				tx.SetValue("n", n+1)
				total, err := open(in, aggregate.Options{}).AskOnce(ctx, "k", "a", 5)
				if total != 5 || err != nil {
					t.Errorf("transaction %d: %d, %v", i, total, err)
				}
				return want
			})
			if !errors.Is(err, want) {
				t.Error(err)
			}
		}
		if n := s.Value("n"); n != 2 {
			t.Errorf("%v transactions are stored, want 2", n)
		}
		wantOnce(t, open(s, aggregate.Options{}), "k", 5, 5, 1)
	})
}

// unwrapped is a faulty store within a transaction, which has the abilities of the store in it.
type unwrapped struct {
	*faulty.Store
	inner annals.Store
}

func (s unwrapped) Unwrap() annals.Store { return s.inner }

// When the key cannot be stored, the transaction is not stored either, whatever its function makes of the error: otherwise the command would be
// there without its key.
func TestAskOnceWithoutKey(t *testing.T) {
	eachKind(t, func(t *testing.T, open func(s annals.Store, o aggregate.Options) *repository) {
		s := memstore.New()
		for _, amount := range []int{0, 5} { // 0 decides nothing
			err := s.InTx(t.Context(), func(ctx context.Context, _ memstore.Tx, in annals.Store) error {
				refusing := unwrapped{&faulty.Store{Store: in, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
					if c.Writes && strings.HasPrefix(string(c.ID), "annals.keys|") {
						return &annals.Error{Op: c.Op, ID: c.ID, Kind: annals.ErrConflict}
					}
					return run()
				}}, in}
				if _, err := open(refusing, aggregate.Options{}).AskOnce(ctx, "k", "a", amount); !errors.Is(err, annals.ErrConflict) {
					t.Errorf("in the function: %v", err)
				}
				return nil
			})
			if !errors.Is(err, annals.ErrConflict) {
				t.Errorf("%d: of the transaction: %v", amount, err)
			}
		}
		wantOnce(t, open(s, aggregate.Options{}), "k", 5, 5, 1)
		wantOnce(t, open(s, aggregate.Options{}), "k", 5, 5, 1)
	})
}

// Within a transaction of another store a command with a key has a transaction of its own: with the first one the key could not be stored.
func TestAskOnceInTxOfAnotherStore(t *testing.T) {
	eachKind(t, func(t *testing.T, open func(s annals.Store, o aggregate.Options) *repository) {
		other, mem, refused := memstore.New(), memstore.New(), false
		s := faulty.NewTx(mem, func(_ context.Context, c *faulty.Call, run func() error) error {
			if c.Writes && strings.HasPrefix(string(c.ID), "annals.keys|") && !refused {
				refused = true
				return &annals.Error{Op: c.Op, ID: c.ID, Kind: annals.ErrConflict}
			}
			return run()
		})
		if err := other.InTx(t.Context(), func(ctx context.Context, _ memstore.Tx, _ annals.Store) error {
			total, err := open(s, aggregate.Options{}).AskOnce(ctx, "k", "a", 5)
			if total != 5 || err != nil || !refused {
				t.Errorf("%d, %v, refused %v", total, err, refused)
			}
			plain := struct{ annals.Store }{mem} // has no transactions
			if _, err := open(plain, aggregate.Options{}).AskOnce(ctx, "k2", "a", 5); !errors.Is(err, annals.ErrUnsupported) {
				t.Errorf("without transactions: %v", err)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		if total, number, err := open(mem, aggregate.Options{}).Load(t.Context(), "a"); total != 5 || number != 1 || err != nil {
			t.Errorf("%d at %d, %v", total, number, err)
		}
	})
}

// Two transactions decide the same command at the same time, and whichever answer gets lost, one of them takes effect.
func TestAskOnceAgain(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(c *faulty.Call, run func() error) error{
		"lost":        func(c *faulty.Call, run func() error) error { return errors.Join(run(), faulty.Lost(c)) },
		"not stored":  func(c *faulty.Call, _ func() error) error { return faulty.Lost(c) },
		"unavailable": func(c *faulty.Call, _ func() error) error { return faulty.Failed(c) },
		"conflict":    func(c *faulty.Call, _ func() error) error { return &annals.Error{Op: c.Op, Kind: annals.ErrConflict} },
	} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, open func(s annals.Store, o aggregate.Options) *repository) {
				synctest.Test(t, func(t *testing.T) {
					mem, faults := memstore.New(), 3
					s := faulty.NewTx(mem, func(_ context.Context, c *faulty.Call, run func() error) error {
						if c.Op == "transaction" && faults > 0 {
							faults--
							return fault(c, run)
						}
						return run()
					})
					wantOnce(t, open(s, aggregate.Options{}), "k", 5, 5, 1)
					wantOnce(t, open(mem, aggregate.Options{}), "k", 5, 5, 1)
					if name == "lost" {
						return // the second try has found the key
					}
					if faults > 0 {
						t.Errorf("%d faults are left", faults)
					}
					// It gives up after a time, with the last error.
					faults = 1 << 30
					began := time.Now()
					if _, err := open(s, aggregate.Options{}).AskOnce(t.Context(), "other", "a", 1); err == nil || time.Since(began) > time.Minute {
						t.Errorf("%v after %v", err, time.Since(began))
					}
				})
			})
		})
	}
}

// The command is executed by another process between the reads of its keys and of the entity. Then it would be rejected because of its own effect.
func TestAskOnceMeanwhile(t *testing.T) {
	eachKind(t, func(t *testing.T, open func(s annals.Store, o aggregate.Options) *repository) {
		mem, meanwhile := memstore.New(), false
		s := faulty.NewTx(mem, func(_ context.Context, c *faulty.Call, run func() error) error {
			err := run()
			if strings.HasPrefix(string(c.ID), "annals.keys|") && !meanwhile {
				meanwhile = true
				wantOnce(t, open(mem, aggregate.Options{}), "k", -5, 0, 2)
			}
			return err
		})
		if _, err := open(mem, aggregate.Options{}).Ask(t.Context(), "a", 5); err != nil {
			t.Fatal(err)
		}
		wantOnce(t, open(s, aggregate.Options{}), "k", -5, 0, 2)
	})
}

// A command that was stored, and whose reply cannot be made, is not executed again.
func TestReplyPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, b, began := memstore.New(), account, time.Now()
		b.Evolve, b.EvolveStored = nil, func(int, int, behavior.Info) int { panic("sprung") }
		r, err := aggregate.New(s, b, aggregate.Options{Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := r.AskOnce(t.Context(), "k", "a", 5); err == nil || annals.SafeToRetry(err) {
				t.Errorf("got %v", err)
			}
		}
		if last, err := s.Journal().LastSeqNr(t.Context(), "Account|a"); last != 1 || err != nil || time.Since(began) > time.Second {
			t.Errorf("%d events, %v, after %v", last, err, time.Since(began))
		}
	})
}

// A store that does not answer holds up a command for as long as WriteTimeout allows, also one that decides nothing.
func TestAskOnceHangs(t *testing.T) {
	eachKind(t, func(t *testing.T, open func(s annals.Store, o aggregate.Options) *repository) {
		synctest.Test(t, func(t *testing.T) {
			s := faulty.NewTx(memstore.New(), func(ctx context.Context, c *faulty.Call, run func() error) error {
				if c.Writes && strings.HasPrefix(string(c.ID), "annals.keys|") {
					<-ctx.Done()
					return faulty.Failed(c)
				}
				return run()
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			for _, amount := range []int{0, 5} {
				began := time.Now()
				if _, err := open(s, aggregate.Options{WriteTimeout: time.Second}).AskOnce(ctx, "k", "a", amount); !errors.Is(err, annals.ErrUnavailable) || time.Since(began) > time.Second {
					t.Errorf("%d: %v after %v", amount, err, time.Since(began))
				}
			}
		})
	})
}

// A write that fails in a transaction is not sent again in it, because it holds up others: the transaction is executed again.
func TestAskOnceFailsInside(t *testing.T) {
	eachKind(t, func(t *testing.T, open func(s annals.Store, o aggregate.Options) *repository) {
		synctest.Test(t, func(t *testing.T) {
			transactions := 0
			s := faulty.NewTx(memstore.New(), func(_ context.Context, c *faulty.Call, run func() error) error {
				switch {
				case c.Op == "transaction":
					transactions++
					began := time.Now()
					defer func() {
						if held := time.Since(began); held > 0 {
							t.Errorf("transaction %d took %v", transactions, held)
						}
					}()
				case c.InTx && c.Writes && transactions == 1: // the database has undone it
					return faulty.Failed(c)
				}
				return run()
			})
			wantOnce(t, open(s, aggregate.Options{}), "k", 5, 5, 1)
			if transactions != 2 {
				t.Errorf("%d transactions", transactions)
			}
		})
	})
}

// A store without transactions, or without states, is refused, and nothing is written.
func TestAskOnceIsRefused(t *testing.T) {
	t.Parallel()
	mem := memstore.New()
	plain := struct{ annals.Store }{mem}
	r, err := aggregate.New(plain, account, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.AskOnce(t.Context(), "k", "a", 1); !errors.Is(err, annals.ErrUnsupported) || !strings.Contains(err.Error(), "ability.Atomic") {
		t.Errorf("without transactions: %v", err)
	}
	if last, err := mem.Journal().LastSeqNr(t.Context(), "Account|a"); last != 0 || err != nil {
		t.Error(last, err)
	}
	for _, o := range []aggregate.Options{{KeyAge: -1}, {KeepKeys: -1}} {
		if _, err := aggregate.New(mem, account, o); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// Keys that were changed by hand are an error, and nothing is decided.
func TestBrokenKeys(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	r, err := aggregate.New(s, account, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantOnce(t, r, "k", 1, 1, 1)
	state, _, err := s.States().Get(t.Context(), "annals.keys|Account|a")
	if err != nil || strings.Contains(string(state.Data), `"k":"k"`) {
		t.Fatalf("%s, %v", state.Data, err)
	}
	for i, data := range []string{`[{"k":"","n":1}]`, `[{"k":"x","n":1,"e":2}]`, `[{"k":"x","n":-1}]`, `no JSON`} {
		state.Data = []byte(data)
		if _, err := s.States().Put(t.Context(), annals.StateWrite{ID: "annals.keys|Account|a", After: annals.SeqNr(i + 1), Payload: state.Payload}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.AskOnce(t.Context(), "k2", "a", 1); !errors.Is(err, annals.ErrCorrupt) {
			t.Errorf("%s: %v", data, err)
		}
	}
}
