package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/contexts"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/valid"
	"github.com/annals-go/annals/memstore"
)

// The suite finds stores that break a promise. Each mutant must fail the cases in caught, and may fail others.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, m := range []struct {
		name   string
		open   func() annals.Store
		caught []string
	}{
		{"drops the conflict check", func() annals.Store { return around(memstore.New(), noConflicts) },
			[]string{"J-X9", "RACE-1", "RACE-2", "RACE-3", "HISTORY-1", "LINEAR-1"}},
		{"truncates at a page", func() annals.Store { return journaled{memstore.New(), onePage} },
			[]string{"J-P3", "PAGE-3"}},
		{"forgets WriteIDs", func() annals.Store { return around(memstore.New(), noWriteIDs) },
			[]string{"RETRY-1", "RETRY-2", "RETRY-4", "RETRY-7"}},
		{"takes the rest of a divided commit for the commit", func() annals.Store { return &halving{Store: memstore.New()} },
			[]string{"RECEIPT-1"}},
		{"reuses numbers after a delete", func() annals.Store { return &reusing{Store: memstore.New()} },
			[]string{"J-14", "DELETE-1", "RACE-5", "RECOVER-2", "HISTORY-1", "LINEAR-2"}},
		{"frees a deleted number to a stale writer", func() annals.Store { return &freeing{Store: memstore.New()} },
			[]string{"RACE-3", "RACE-4"}},

		{"stores the first event of a batch only", func() annals.Store { return journaled{memstore.New(), halfBatches} },
			[]string{"J-01", "J-A1", "BATCH-3"}},
		{"ends a replay without an error when its pages are deleted", func() annals.Store { return journaled{memstore.New(), silentPages} },
			[]string{"TRUNCATE-1", "TRUNCATE-2", "TRUNCATE-6"}},
		{"replays from after what it has looked for", func() annals.Store { return journaled{memstore.New(), hastyTail} },
			[]string{"REPLAY-6"}},
		{"reads one of its shards late", func() annals.Store { return journaled{memstore.New(), lateShard} },
			[]string{"REPLAY-6", "TRUNCATE-4"}},
		{"gives each event of a commit a time of its own", func() annals.Store { return around(memstore.New(), ownTimes) },
			[]string{"REPLAY-4"}},
		{"recovers without looking again", func() annals.Store { return hastyRecovery{memstore.New()} },
			[]string{"RECOVER-20"}},
		{"recovers on two connections of a pool", func() annals.Store { return &pooled{Store: memstore.New(), free: 4} },
			[]string{"RACE-7"}},
		{"recovers again from event 1 on top of a snapshot", func() annals.Store { return forgetfulRecovery{memstore.New()} },
			[]string{"RECOVER-21"}},
		{"lets an older snapshot replace a newer one", func() annals.Store { return memoryAround(lastSaved) },
			[]string{"SNAPSHOT-1", "SNAPSHOT-2", "RECOVER-6"}},
		{"looks for snapshots in one half of its numbers, then in the other", func() annals.Store { return halfLooks{memstore.New()} },
			[]string{"SNAPSHOT-9"}},
		{"shows when the event of a snapshot was", func() annals.Store {
			return memoryAround(func(_ context.Context, c *faulty.Call, run func() error) error {
				err := run()
				if s, ok := c.Result.(*annals.Snapshot); ok {
					s.EventTime = s.Time
				}
				return err
			})
		},
			[]string{"S-04", "SNAPSHOT-8"}},
		{"reads the halves of a snapshot one after the other", func() annals.Store { return tornSnapshots{memstore.New()} },
			[]string{"SNAPSHOT-10"}},
		{"says conflict where it cannot know", func() annals.Store { return memoryAround(surePuts) },
			[]string{"STATE-22", "STATE-23"}},
		{"forgets revisions after a delete", func() annals.Store { return &freshStates{Store: memstore.New()} },
			[]string{"D-06", "STATE-1", "HISTORY-2"}},
		{"cuts pages between events of one time", func() annals.Store { return queried{memstore.New(), tiesLost} },
			[]string{"QUERY-4"}},
		{"ignores contexts", func() annals.Store { return journaled{memstore.New(), deaf} },
			[]string{"CONTEXT-1"}},
		{"leaks a goroutine for every replay that breaks off", func() annals.Store { return journaled{memstore.New(), leaking} },
			[]string{"REPLAY-1"}},
		{"forgets at once whatever the age", func() annals.Store { return hastyForgetter{memstore.New()} },
			[]string{"FORGET-3", "FORGET-8"}},
		{"forgets at once what was skipped, or had a state", func() annals.Store { return &agelessForgetter{Store: memstore.New()} },
			[]string{"FORGET-3"}},
		{"forgets what is still there", func() annals.Store { return carelessForgetter{memstore.New()} },
			[]string{"FORGET-4", "FORGET-5", "FORGET-13"}},
		{"forgets a state that was written after its look", func() annals.Store { return lateForgetter{&freshStates{Store: memstore.New()}} },
			[]string{"FORGET-16"}},
		{"skips an event that is lost", func() annals.Store { return &silentLosses{Store: memstore.New()} },
			[]string{"LOSS-1", "LOSS-3"}},
		{"takes an event that is lost behind a snapshot for a deleted one", func() annals.Store { return &silentLosses{Store: memstore.New(), noticed: true} },
			[]string{"LOSS-3"}},
		{"takes ids with more characters than it claims", func() annals.Store {
			return claiming{memstore.New(), func(c *annals.Capabilities) { c.Limits.MaxIDBytes, c.Limits.MaxIDChars = 0, 255 }}
		},
			[]string{"ID-4"}},
		{"commits when its function ends the goroutine", func() annals.Store { return exitCommits{memstore.New()} },
			[]string{"TX-11"}},
		{"refuses reads of the outer store in a transaction", func() annals.Store { return memoryAround(refusesOutside) },
			[]string{"TX-12"}},
		{"breaks a transaction by a call that fails", func() annals.Store { return breaksInside{memstore.New()} },
			[]string{"TX-13"}},
		{"looks at what its transactions have read before it commits, not at the commit", func() annals.Store { return looking{Store: memstore.New(), before: true} },
			[]string{"GUARD-1", "GUARD-2", "GUARD-3"}},
		{"guards nothing that its transactions write after having read it", func() annals.Store { return looking{Store: memstore.New(), elsewhere: true} },
			[]string{"GUARD-5"}},
		{"takes a number whose event was deleted for a change", func() annals.Store { return guardingEvents{memstore.New()} },
			[]string{"GUARD-4"}},
		{"has no transaction where none is seen", func() annals.Store { return loose{memstore.New()} },
			[]string{"TX-2", "TX-4"}},
		{"skips nothing in a transaction", func() annals.Store { return stays{memstore.New()} },
			[]string{"TX-16"}},
		{"weighs payloads only", func() annals.Store { return lightLimits{memstore.New()} },
			[]string{"REFUSE-7"}},
		{"repeats an id of any length", func() annals.Store { return memoryAround(longErrors) },
			[]string{"REFUSE-8"}},
		{"takes an After above the last number", func() annals.Store { return memoryAround(fillsHoles) },
			[]string{"REFUSE-9"}},
		{"gives the time of a slow clock", func() annals.Store { return around(memstore.New(), ownClock) },
			[]string{"TIME-4", "TIME-9"}},
		{"calls an operation by another name", func() annals.Store { return memoryAround(misnamed) },
			[]string{"CONTEXT-1", "CLOSE-1"}},
		{"goes on with a loop when it is closed", func() annals.Store { return readsAhead{memstore.New()} },
			[]string{"CLOSE-4"}},
		{"waits in Close for the functions of a recovery", func() annals.Store { return &waitingClose{Store: memstore.New()} },
			[]string{"CLOSE-5"}},
		{"closes without waiting", func() annals.Store { return hastyClose{memstore.New()} },
			[]string{"TX-14"}},
		{"reads when its transaction has ended", func() annals.Store { return endless{memstore.New()} },
			[]string{"TX-5"}},
		{"takes any filter", func() annals.Store {
			return memoryAround(changing(func(f *annals.Filter) {
				if valid.Filter("", *f) != nil {
					*f = annals.Filter{}
				}
			}))
		},
			[]string{"FILTER-1"}},
		{"ignores the slices when there is a limit", func() annals.Store {
			return memoryAround(changing(func(f *annals.Filter) {
				if f.Limit > 0 {
					f.Slices = annals.SliceRange{}
				}
			}))
		},
			[]string{"FILTER-2", "FILTER-3"}},
		{"looks for the newest event among the first", func() annals.Store {
			return memoryAround(func(_ context.Context, c *faulty.Call, run func() error) error {
				err := run()
				if f, ok := c.Arg.(*annals.Filter); ok && c.Op == "query newest" && f.Limit > 0 {
					*c.Result.(*annals.Offset) = annals.Offset{}
				}
				return err
			})
		},
			[]string{"FILTER-2"}},
		{"shows nothing where it holds back", func() annals.Store {
			return memoryAround(changing(func(f *annals.Filter) {
				if f.Behind > 0 {
					f.Type = "None"
				}
			}))
		},
			[]string{"FILTER-4"}},
		{"recovers events without their metadata", func() annals.Store { return bareRecovery{memstore.New()} },
			[]string{"RECOVER-13"}},
		{"finds events without their metadata", func() annals.Store {
			return memoryAround(func(_ context.Context, c *faulty.Call, run func() error) error {
				if c.Op == "query events" {
					c.Each = func(value any) error { value.(*annals.Event).Metadata = annals.Payload{}; return nil }
				}
				return run()
			})
		},
			[]string{"FILTER-2"}},
		{"keeps the payloads of deletes", func() annals.Store { return memoryAround(keepsDeleted()) },
			[]string{"D-06", "STATE-1"}},
		{"drops the tags of snapshots", func() annals.Store {
			return memoryAround(func(_ context.Context, c *faulty.Call, run func() error) error {
				if s, ok := c.Arg.(*annals.Snapshot); ok {
					s.Tags = nil
				}
				return run()
			})
		},
			[]string{"S-O2"}},
		{"lists ids from the beginning when their type is not given", func() annals.Store { return queried{memstore.New(), allFromTheBeginning} },
			[]string{"Q-P2"}},
		{"lists the ids of types that begin alike", func() annals.Store { return queried{memstore.New(), alikeIDs} },
			[]string{"Q-P1"}},
		{"lists ids of snapshots alone", func() annals.Store { s := memstore.New(); return queried{s, scannedIDs(s)} },
			[]string{"QUERY-11"}},
		{"repeats payloads in its errors", func() annals.Store {
			return memoryAround(func(_ context.Context, c *faulty.Call, run func() error) error {
				err := run()
				if commit, ok := c.Arg.(*annals.Commit); ok && err != nil {
					err = errors.Join(err, fmt.Errorf("of %v", commit.Events))
				}
				return err
			})
		},
			[]string{"REFUSE-5"}},
		{"leaves out events without data", func() annals.Store { return journaled{memstore.New(), dataless} },
			[]string{"J-O2"}},
		{"begins each page of states at the first", func() annals.Store {
			return memoryAround(changing(func(f *annals.Filter) { f.After = annals.Offset{} }))
		},
			[]string{"QUERY-4", "QUERY-21"}},
		{"ends a query when there are new events", func() annals.Store {
			s := memstore.New()
			return queried{s, endsWhenWritten(s)}
		},
			[]string{"QUERY-9"}},
		{"does not find the state of an entity that has skipped", func() annals.Store { return queried{memstore.New(), skippedUnseen} },
			[]string{"SKIP-4"}},
		{"ends a loop with another filter without an error", func() annals.Store { return quietRefusals{memstore.New()} },
			[]string{"SUBSCRIBE-6", "SUBSCRIBE-9"}},
		{"has the watermark at its clock, though events appear late", func() annals.Store {
			return late{Store: memstore.New(), watermark: func(now time.Time) time.Time { return now }}
		},
			[]string{"WATERMARK-3", "WATERMARK-4"}},
		{"claims an order in which events do not appear", func() annals.Store { return disordered{late{Store: memstore.New()}} },
			[]string{"WATERMARK-3", "WATERMARK-4", "FOLLOW-1"}},
		{"has the watermark further back than it claims", func() annals.Store {
			return late{Store: memstore.New(), watermark: func(now time.Time) time.Time { return now.Add(-2 * lateness) }}
		},
			[]string{"WATERMARK-2"}},
		{"has the watermark at its newest event", func() annals.Store { return memoryAround(stopsShort) },
			[]string{"WATERMARK-1"}},
		{"puts snapshots where they were taken", func() annals.Store { return queried{memstore.New(), takenOrder} },
			[]string{"QUERY-30", "QUERY-31", "QUERY-32", "QUERY-34"}},
		{"keeps imported times in seconds", func() annals.Store {
			return memoryAround(writing(func(e *annals.NewEvent) { e.Time = e.Time.Truncate(time.Second) }))
		},
			[]string{"TIME-6"}},
		{"wraps imported times around", func() annals.Store { return memoryAround(wrappedTimes) },
			[]string{"TIME-8"}},
		{"shows events in the order of their numbers", func() annals.Store { return queried{memstore.New(), byNumber} },
			[]string{"TIME-7"}},
		{"skips to another number, and over what is there", func() annals.Store { return carelessSkips{memstore.New()} },
			[]string{"SKIP-1", "SKIP-2", "SKIP-3", "SKIP-4", "SKIP-5", "SKIP-6", "SKIP-7"}},
		{"looks for the last number before it skips", func() annals.Store { return hastySkips{memstore.New(), make(chan struct{})} },
			[]string{"SKIP-8"}},
		{"drops the metadata of deleted states", func() annals.Store { return memoryAround(bareDeletes) },
			[]string{"STATE-10"}},
		{"joins positions at the newest", func() annals.Store { return memoryAround(resumesAtTheNewest) },
			[]string{"OFFSET-3", "OFFSET-14", "OFFSET-20"}},
		{"saves events that were handled before", func() annals.Store { return saving(ignoresOnce) },
			[]string{"OFFSET-15", "OFFSET-16", "OFFSET-20"}},
		{"looks whether events were handled before it saves", func() annals.Store { return saving(looksFirst()) },
			[]string{"OFFSET-16"}},
		{"ignores epochs", func() annals.Store { return saving(unfenced) },
			[]string{"OFFSET-6", "OFFSET-7", "OFFSET-17", "OFFSET-20"}},
		{"orders the events of an entity by time", func() annals.Store { return saving(ordersByTime) },
			[]string{"OFFSET-18"}},
		{"joins the lives of an entity", func() annals.Store { return saving(joinsLives) },
			[]string{"OFFSET-21"}},
		{"keeps the offsets of forgotten entities", func() annals.Store { return memoryAround(forgetsNothing) },
			[]string{"OFFSET-22"}},
		{"forgets Through", func() annals.Store { return saving(forgetsThrough) },
			[]string{"OFFSET-9", "OFFSET-13", "OFFSET-14", "OFFSET-20"}},
		{"lets the loops of a name have any filters", func() annals.Store { return filteredNames{memstore.New()} },
			[]string{"SUBSCRIBE-9"}},
		{"delivers no number twice", func() annals.Store { return risingNumbers{memstore.New()} },
			[]string{"SUBSCRIBE-8"}},
		{"acknowledges a delivery when the next is asked for", func() annals.Store { return hastyAcks{memstore.New()} },
			[]string{"SUBSCRIBE-2", "SUBSCRIBE-3"}},
		{"takes acknowledgements of loops that have ended", func() annals.Store { return acksOfTheEnded{memstore.New()} },
			[]string{"SUBSCRIBE-7"}},
		{"finds nothing", func() annals.Store { return checking{memstore.New(), nil} },
			[]string{"VERIFY-1", "VERIFY-4", "VERIFY-5"}},
		{"takes what is deleted for lost", func() annals.Store { return checking{memstore.New(), firstLost} },
			[]string{"VERIFY-1", "VERIFY-3"}},
		{"takes a write in progress for damage", func() annals.Store { return checking{memstore.New(), grown} },
			[]string{"VERIFY-3"}},
		{"scans one type only", func() annals.Store {
			return scanning{memstore.New(), func(_, after string) (string, string) { return "Thing", after }}
		},
			[]string{"VERIFY-2", "VERIFY-5"}},
		{"scans from the beginning again", func() annals.Store {
			return scanning{memstore.New(), func(entityType, _ string) (string, string) { return entityType, "" }}
		},
			[]string{"VERIFY-2"}},
		{"writes to check its health", func() annals.Store { return writingHealth{memstore.New()} },
			[]string{"HEALTH-1", "CONTEXT-1"}},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			c := Config{Open: func(testing.TB) annals.Store { return m.open() }, Short: true,
				Damage:    func(tb testing.TB) (annals.Store, []string, map[ability.Code]string) { return damaged(tb, m.open()) },
				SlowClock: func(_ testing.TB, s annals.Store) annals.Store { return around(s, slowed) },
				LoseEvent: func(_ testing.TB, s annals.Store, id annals.PersistenceID, n annals.SeqNr) {
					s.(*silentLosses).lose(id, n)
				}}
			wantCaught(t, m.caught, c)
		})
	}
}

// wantCaught checks that the cases fail for the stores of c.
func wantCaught(t *testing.T, cases []string, c Config) {
	t.Helper()
	p := c.probe(t)
	for _, id := range cases {
		tc := caseOf(t, id)
		if !tc.applies(p) || len(tc.missing(p)) > 0 || !fails(t, tc, p) {
			t.Errorf("%s: passes or does not apply, want it to fail", id)
		}
	}
}

// fails reports whether tc fails. A case of random histories or schedules may need several runs for that.
func fails(t *testing.T, tc testCase, p probe) bool {
	for range 30 {
		if len(record(t, func(tb testing.TB) { tc.run(newHarness(tb, p)) })) > 0 {
			return true
		}
	}
	return false
}

func caseOf(t *testing.T, id string) testCase {
	all := cases()
	i := slices.IndexFunc(all, func(tc testCase) bool { return tc.id == id })
	if i < 0 {
		t.Fatalf("there is no case %s", id)
	}
	return all[i]
}

// around is s with a, and without abilities.
func around(s annals.Store, a faulty.Around) annals.Store {
	return &faulty.Store{Store: s, Around: a}
}

// writing changes the events of commits.
func writing(change func(e *annals.NewEvent)) faulty.Around {
	return func(_ context.Context, c *faulty.Call, run func() error) error {
		if commit, ok := c.Arg.(*annals.Commit); ok {
			commit.Events = slices.Clone(commit.Events)
			for i := range commit.Events {
				change(&commit.Events[i])
			}
		}
		return run()
	}
}

// replaying changes the events of replays.
func replaying(change func(e *annals.Event)) faulty.Around {
	return func(_ context.Context, c *faulty.Call, run func() error) error {
		if c.Op == "replay" {
			c.Each = func(value any) error { change(value.(*annals.Event)); return nil }
		}
		return run()
	}
}

// memoryAround is a memstore with a, and with the abilities of memstore.
func memoryAround(a faulty.Around) annals.Store {
	return faulty.Able{Store: &faulty.Store{Store: memstore.New(), Around: a}}
}

func surePuts(_ context.Context, c *faulty.Call, run func() error) error {
	err := run()
	if c.Op == "put state" && errors.Is(err, annals.ErrUnknown) {
		err = &annals.Error{Op: c.Op, ID: c.ID, Kind: annals.ErrConflict}
	}
	return err
}

// freshStates keeps no revision of a deleted state: the next put has another id in the inner store, and begins with revision 1.
type freshStates struct {
	annals.Store
	lives sync.Map
}

func (s *freshStates) States() annals.StateStore { return freshStateStore{s.Store.States(), s} }

func (s *freshStates) inside(id annals.PersistenceID) annals.PersistenceID {
	if n, ok := s.lives.Load(id); ok {
		return annals.PersistenceID(fmt.Sprintf("%s life %d", id, n))
	}
	return id
}

type freshStateStore struct {
	annals.StateStore
	s *freshStates
}

func (st freshStateStore) Get(ctx context.Context, id annals.PersistenceID) (annals.State, bool, error) {
	state, ok, err := st.StateStore.Get(ctx, st.s.inside(id))
	state.ID = id
	return state, ok, err
}

func (st freshStateStore) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	w.ID = st.s.inside(w.ID)
	return st.StateStore.Put(ctx, w)
}

func (st freshStateStore) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	outside := w.ID
	w.ID = st.s.inside(w.ID)
	r, err := st.StateStore.Delete(ctx, w)
	if err == nil {
		st.s.lives.Store(outside, annals.NewWriteID())
	}
	return r, err
}

// keepsDeleted returns the payload of the last delete with each tombstone.
func keepsDeleted() faulty.Around {
	var deleted sync.Map
	return func(_ context.Context, c *faulty.Call, run func() error) error {
		err := run()
		if w, ok := c.Arg.(*annals.StateWrite); ok && c.Op == "delete state" {
			deleted.Store(c.ID, w.Payload)
		}
		if s, ok := c.Result.(*annals.State); ok && s.Deleted {
			kept, _ := deleted.Load(c.ID)
			s.Payload, _ = kept.(annals.Payload)
		}
		return err
	}
}

type exitCommits struct{ *memstore.Store }

func (s exitCommits) Atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	return ability.Atomically(ctx, s.Store, func(ctx context.Context, in annals.Store) (err error) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			err = fn(ctx, in)
		}()
		<-ended
		return err
	})
}

func refusesOutside(ctx context.Context, c *faulty.Call, run func() error) error {
	if c.Op == "last number" && contexts.InTx(ctx, c.Store) {
		return &annals.Error{Op: c.Op, ID: c.ID, Kind: annals.ErrInvalid}
	}
	return run()
}

type breaksInside struct{ *memstore.Store }

func (s breaksInside) Atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	return ability.Atomically(ctx, s.Store, func(ctx context.Context, in annals.Store) error {
		return fn(ctx, &broken{Store: in})
	})
}

type stays struct{ *memstore.Store }

func (s stays) Atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	return ability.Atomically(ctx, s.Store, func(ctx context.Context, in annals.Store) error { return fn(ctx, noSkip{in}) })
}

type noSkip struct{ annals.Store }

func (noSkip) SkipTo(context.Context, annals.PersistenceID, annals.SeqNr, annals.SeqNr) error {
	return nil
}

// broken is a store that fails all calls after one that failed.
type broken struct {
	annals.Store
	err error
}

func (b *broken) Journal() annals.Journal {
	j := b.Store.Journal()
	return mutantJournal{Journal: j, append: func(ctx context.Context, c annals.Commit) (r annals.Receipt, err error) {
		if b.err == nil {
			r, b.err = j.Append(ctx, c)
		}
		return r, b.err
	}}
}
