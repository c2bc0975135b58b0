package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/valid"
)

// mutantJournal is a journal with some operations replaced.
type mutantJournal struct {
	annals.Journal
	append func(ctx context.Context, c annals.Commit) (annals.Receipt, error)
	replay func(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error]
	last   func(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error)
	delete func(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error
}

func (j mutantJournal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	if j.append != nil {
		return j.append(ctx, c)
	}
	return j.Journal.Append(ctx, c)
}

func (j mutantJournal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	if j.replay != nil {
		return j.replay(ctx, id, from, to)
	}
	return j.Journal.Replay(ctx, id, from, to)
}

func (j mutantJournal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	if j.last != nil {
		return j.last(ctx, id)
	}
	return j.Journal.LastSeqNr(ctx, id)
}

func (j mutantJournal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	if j.delete != nil {
		return j.delete(ctx, id, to)
	}
	return j.Journal.DeleteTo(ctx, id, to)
}

func noConflicts(_ context.Context, c *faulty.Call, run func() error) error {
	for {
		err := run()
		e := (*annals.Error)(nil)
		commit, ok := c.Arg.(*annals.Commit)
		if !ok || !errors.As(err, &e) || e.Kind != annals.ErrConflict {
			return err
		}
		commit.After, commit.Snapshot = e.Last, nil
	}
}

func onePage(j annals.Journal) annals.Journal {
	return mutantJournal{Journal: j, replay: func(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
		n := 0
		return without(j.Replay(ctx, id, from, to), func(annals.Event) bool { n++; return n > 500 })
	}}
}

func dataless(j annals.Journal) annals.Journal {
	return mutantJournal{Journal: j, replay: func(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
		return without(j.Replay(ctx, id, from, to), func(e annals.Event) bool { return len(e.Data) == 0 })
	}}
}

// hastyTail looks whether there is a first event. When there is none it reads on after it.
func hastyTail(j annals.Journal) annals.Journal {
	return mutantJournal{Journal: j, replay: func(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
		return func(yield func(annals.Event, error) bool) {
			if last, _ := j.LastSeqNr(ctx, id); from > 1 && last < from {
				for range 100 {
					runtime.Gosched() // as a network would
				}
				from++
			}
			j.Replay(ctx, id, from, to)(yield)
		}
	}}
}

// lateShard keeps even and odd numbers apart, and reads the odd ones later.
func lateShard(j annals.Journal) annals.Journal {
	return mutantJournal{Journal: j, replay: func(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
		return func(yield func(annals.Event, error) bool) {
			var all []annals.Event
			for shard := range annals.SeqNr(2) {
				for e, err := range j.Replay(ctx, id, from, to) {
					if err != nil {
						yield(e, err)
						return
					}
					if e.SeqNr%2 == shard {
						all = append(all, e)
					}
				}
				for range 100 {
					runtime.Gosched() // as a network would
				}
			}
			slices.SortFunc(all, func(a, b annals.Event) int { return int(a.SeqNr - b.SeqNr) })
			for _, e := range all {
				if !yield(e, nil) {
					return
				}
			}
		}
	}}
}

func noWriteIDs(_ context.Context, c *faulty.Call, run func() error) error {
	if commit, ok := c.Arg.(*annals.Commit); ok {
		commit.WriteID = annals.WriteID{}
	}
	return run()
}

// reusing begins again with 1 when all events of an entity have been deleted: each time with another id in the inner store.
type reusing struct {
	annals.Store
	mu    sync.Mutex
	lives map[annals.PersistenceID]int
}

func (s *reusing) inside(id annals.PersistenceID) annals.PersistenceID {
	if n := s.lives[id]; n > 0 {
		return annals.PersistenceID(fmt.Sprintf("%s life %d", id, n))
	}
	return id
}

func (s *reusing) Journal() annals.Journal {
	j := s.Store.Journal()
	locked := func(id annals.PersistenceID) (annals.PersistenceID, func()) {
		s.mu.Lock()
		return s.inside(id), s.mu.Unlock
	}
	return mutantJournal{
		Journal: j,
		append: func(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
			id, unlock := locked(c.ID)
			defer unlock()
			if id != c.ID {
				c.Snapshot = nil
			}
			c.ID = id
			return j.Append(ctx, c)
		},
		replay: func(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
			inside, unlock := locked(id)
			unlock()
			return func(yield func(annals.Event, error) bool) {
				for e, err := range j.Replay(ctx, inside, from, to) {
					if err == nil {
						e.ID = id
					}
					if !yield(e, err) {
						return
					}
				}
			}
		},
		last: func(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
			id, unlock := locked(id)
			defer unlock()
			return j.LastSeqNr(ctx, id)
		},
		delete: func(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
			inside, unlock := locked(id)
			defer unlock()
			last, err := j.LastSeqNr(ctx, inside)
			if err == nil && last > 0 && to >= last {
				if s.lives == nil {
					s.lives = map[annals.PersistenceID]int{}
				}
				s.lives[id]++
			}
			return j.DeleteTo(ctx, inside, to)
		},
	}
}

// freeing accepts an append whose numbers have been deleted.
type freeing struct {
	annals.Store
	mu      sync.Mutex
	deleted map[annals.PersistenceID]annals.SeqNr
}

func (s *freeing) Journal() annals.Journal {
	j := s.Store.Journal()
	return mutantJournal{
		Journal: j,
		append: func(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
			r, err := j.Append(ctx, c)
			s.mu.Lock()
			defer s.mu.Unlock()
			if end := c.After + annals.SeqNr(len(c.Events)); errors.Is(err, annals.ErrConflict) && end <= s.deleted[c.ID] {
				return annals.Receipt{SeqNr: end, Time: r.Time}, nil
			}
			return r, err
		},
		delete: func(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
			last, err := j.LastSeqNr(ctx, id)
			if err != nil {
				return err
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.deleted == nil {
				s.deleted = map[annals.PersistenceID]annals.SeqNr{}
			}
			s.deleted[id] = max(s.deleted[id], min(to, last))
			return j.DeleteTo(ctx, id, to)
		},
	}
}

func halfBatches(j annals.Journal) annals.Journal {
	return mutantJournal{Journal: j, append: func(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
		if err := valid.Commit(c, annals.Limits{}); err != nil {
			return annals.Receipt{}, err
		}
		n := annals.SeqNr(len(c.Events))
		c.Events, c.Snapshot = c.Events[:1], nil
		r, err := j.Append(ctx, c)
		r.SeqNr += n - 1
		return r, err
	}}
}

// silentPages reads page by page and does not notice that events are missing between pages.
func silentPages(j annals.Journal) annals.Journal {
	return mutantJournal{Journal: j, replay: func(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
		return func(yield func(annals.Event, error) bool) {
			for page := 100; page == 100; {
				page = 0
				for e, err := range j.Replay(ctx, id, from, to) {
					if !yield(e, err) {
						return
					}
					from = e.SeqNr + 1
					if page++; page == 100 {
						break
					}
				}
			}
		}
	}}
}

func deaf(j annals.Journal) annals.Journal {
	return mutantJournal{Journal: j,
		append: func(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
			return j.Append(context.WithoutCancel(ctx), c)
		},
	}
}

func leaking(j annals.Journal) annals.Journal {
	return mutantJournal{Journal: j, replay: func(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
		return func(yield func(annals.Event, error) bool) {
			type item struct {
				e   annals.Event
				err error
			}
			items := make(chan item)
			go func() {
				defer close(items)
				for e, err := range j.Replay(ctx, id, from, to) {
					select {
					case items <- item{e, err}:
					case <-ctx.Done(): // the suite's context ends with the test
						return
					}
				}
			}()
			for i := range items {
				if !yield(i.e, i.err) {
					return
				}
			}
		}
	}}
}

// silentLosses leaves out what is lost.
type silentLosses struct {
	annals.Store
	noticed bool // between two events
	lost    sync.Map
}

type lostEvent struct {
	id annals.PersistenceID
	n  annals.SeqNr
}

func (s *silentLosses) lose(id annals.PersistenceID, n annals.SeqNr) {
	s.lost.Store(lostEvent{id, n}, true)
}

func (s *silentLosses) Journal() annals.Journal {
	j := s.Store.Journal()
	return mutantJournal{Journal: j, replay: func(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
		return func(yield func(annals.Event, error) bool) {
			begun := false
			for e, err := range j.Replay(ctx, id, from, to) {
				_, lost := s.lost.Load(lostEvent{id, e.SeqNr})
				if lost && s.noticed && begun {
					yield(annals.Event{}, &annals.Error{Op: "replay", ID: id, Kind: annals.ErrCorrupt})
					return
				}
				if begun = begun || !lost; !lost && !yield(e, err) {
					return
				}
			}
		}
	}}
}

const slowTag = "slow"

var (
	// slowed marks events whose writer's clock is an hour slow. ownClock gives events the time of their writer's clock.
	slowed   = writing(func(e *annals.NewEvent) { e.Tags = []string{slowTag} })
	ownClock = replaying(func(e *annals.Event) {
		if slices.Contains(e.Tags, slowTag) {
			e.Time = e.Time.Add(-time.Hour)
		}
	})
	// ownTimes gives the events of a commit different times.
	ownTimes = replaying(func(e *annals.Event) {
		if e.SeqNr%2 == 1 {
			e.Time = e.Time.Add(-time.Microsecond)
		}
	})
)
