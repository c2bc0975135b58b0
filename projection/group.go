package projection

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/leases"
	"github.com/annals-go/annals/internal/position"
)

// group shares the slices of a projection among the runners that take part in it, in any number of processes: each range of slices is
// handled by one of them. A runner that learns too late that others have taken its ranges is fenced by the epoch of its saves, so what a
// projection promises does not depend on a clock.
type group struct {
	store      annals.Store // of the offsets
	projection string
	source     source
	ranges     int           // into which the slices are divided, when there are no other runners
	spread     bool          // the ranges of a new projection are of annals.SpreadRanges
	lease      time.Duration // without a sign of life for so long, the others take the ranges of this runner; at least 1 ms
	log        *slog.Logger
	now        func() time.Time                                  // time.Now; only differences count
	steps      func(annals.SliceRange) int64                     // counts what this runner has saved
	orders     *atomic.Int64                                     // is set to record.Orders; may be nil
	health     func(annals.SliceRange) *condition                // may be nil
	tell       func(context.Context, annals.Call, annals.Result) // set where health is
}

// work handles the slices of r until ctx ends. It loads and saves the position under epoch. When ctx has ended, work finishes its batch (see
// finishing) and returns; others get the range after that, and the error does not count. When a save was fenced, work returns ErrFenced: the
// range is taken anew, under a higher epoch, and work is called again. Any other error ends run.
type work func(ctx context.Context, r annals.SliceRange, epoch int64) error

// run takes part in the group until ctx ends, which is not an error, or until a work fails. It calls work on a goroutine for each range
// that this runner holds, and returns after all of them.
func (g *group) run(ctx context.Context, work work) error {
	m := newMember(g, work)
	working, stop := context.WithCancel(ctx)
	err := m.loop(working)
	stop()
	m.wait.Wait()
	m.leave(context.WithoutCancel(ctx))
	return err
}

// member is one runner. Its fields are those of the goroutine of run.
type member struct {
	*group
	id    string
	work  work
	watch watch

	record   record // as it was read or written last
	revision annals.SeqNr
	newest   bool  // record is known to be the newest, unless another runner has joined
	beat     int64 // of this runner's last sign of life, also when it was removed from the record since
	beatAt   time.Time
	floor    int64 // higher than the epochs that have fenced this runner
	patience leases.Patience
	unsaved  time.Time // when the last work began that was fenced before it has saved anything, since record was written
	late     int64     // events that became visible too late and are not in the record yet
	lateAt   time.Time // when the last of them was found

	running map[annals.SliceRange]task // works that have not returned
	ended   chan ending
	wait    sync.WaitGroup
}

func newMember(g *group, work work) *member {
	return &member{group: g, id: rand.Text()[:16], work: work, running: map[annals.SliceRange]task{}, ended: make(chan ending)}
}

// task is a work that has not returned.
type task struct {
	epoch int64
	stop  context.CancelFunc
	began time.Time
	steps int64 // group.steps then
}

// ending says that a work has returned.
type ending struct {
	slices annals.SliceRange
	epoch  int64 // highest that is stored for the slices; 0 = the work was not fenced
	err    error
}

// loop looks at the record again and again, and earlier than planned when a work has returned.
func (m *member) loop(ctx context.Context) error {
	for failures := 0; ; {
		err := m.look(ctx)
		wait := leases.Pace(m.lease, m.record.waits(m.id))
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			failures = 0
		case final(err):
			return err
		default:
			wait = backoff.Delay(failures)
			if failures++; backoff.Seldom(failures) && !errors.Is(err, annals.ErrConflict) {
				m.log.WarnContext(ctx, "annals: the leases cannot be renewed", "projection", m.projection, "runner", m.id, "error", err, "try", failures)
			}
		}
		next := time.NewTimer(wait)
		select {
		case <-next.C:
		case <-ctx.Done():
		case e := <-m.ended:
			if err := m.end(e); err != nil {
				return err
			}
		}
		next.Stop()
	}
}

// end takes note of works that have returned, of e and of those that returned at the same time.
func (m *member) end(e ending) error {
	for {
		m.takeLate(e.slices)
		if e.epoch > 0 {
			m.fenced(e.slices)
		}
		delete(m.running, e.slices)
		m.floor = max(m.floor, e.epoch)
		if e.err != nil {
			return e.err
		}
		select {
		case e = <-m.ended:
		default:
			return nil
		}
	}
}

// fenced takes note that the work for r cannot save anything any more.
func (m *member) fenced(r annals.SliceRange) {
	if t := m.running[r]; m.steps(r) == t.steps && t.began.After(m.unsaved) {
		m.unsaved = t.began
	}
}

// look reads the record, decides, writes what it decided, and then starts and stops works as the record says. A member that is alone does
// not read: its write fails if another one has joined.
func (m *member) look(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, max(m.lease, leases.LookTime))
	defer cancel()
	document, now := recordOf(m.projection), m.now()
	if !m.newest {
		read, revision, err := document.Load(within, m.store)
		if err != nil {
			return err
		}
		if m.record, err = m.begun(within, read); err != nil {
			return err
		}
		m.revision = revision
	}
	self, joined := m.record.Runners[m.id]
	var lost time.Time
	if !joined { // the others have taken it for dead, if it has joined before
		for r := range m.running {
			m.fenced(r)
		}
		lost = m.unsaved
	}
	if lease := m.patience.Lease(m.lease, lost, m.now()); !joined || now.Sub(m.beatAt) >= lease/4 {
		m.beat++
		self = runner{Beat: m.beat, Lease: lease.Milliseconds()}
	}
	epochs := map[annals.SliceRange]int64{}
	for r, t := range m.running {
		epochs[r] = t.epoch
	}
	self.Troubles = m.troubles()
	watch := m.watch
	dead := watch.Look(m.record.signs(), now)
	if !joined && len(dead) == 0 && m.record.able() >= len(m.record.Ranges) {
		// No range is left. Without an entry for this runner the record stays small; it joins when another one has left, hangs or is dead.
		m.watch = watch
		m.apply(ctx)
		return nil
	}
	next := m.record.decide(m.id, self, epochs, dead, m.floor)
	m.addLate(&next)
	if !reflect.DeepEqual(next, m.record) {
		m.newest = false
		if err := document.Save(within, m.store, m.revision, next); err != nil {
			m.watch.At = m.now() // the time since the last look does not count: the others may not be able to write either
			return err
		}
		if len(dead) > 0 {
			m.log.WarnContext(ctx, "annals: others take the ranges of runners without a sign of life", "projection", m.projection, "runners", dead)
		}
		m.record, m.revision, m.newest, m.beatAt, m.late, m.unsaved = next, m.revision+1, len(next.Runners) == 1, now, 0, time.Time{}
	}
	m.watch = watch
	m.apply(ctx)
	return nil
}

// takeLate takes the events of r that became visible too late. They are m.late until they are in the record.
func (m *member) takeLate(r annals.SliceRange) {
	if m.health != nil {
		n, at := m.health(r).takeLate()
		if m.late += n; at.After(m.lateAt) {
			m.lateAt = at
		}
	}
}

// addLate adds to next the events that became visible too late.
func (m *member) addLate(next *record) {
	for r := range m.running {
		m.takeLate(r)
	}
	if next.Late += m.late; m.late > 0 && m.lateAt.After(next.LateAt) {
		next.LateAt = m.lateAt
	}
}

// troubles are those of the ranges of which a work has not returned.
func (m *member) troubles() (all []trouble) {
	if m.health == nil {
		return nil
	}
	for r := range m.running {
		if t := m.health(r).trouble(r.From); t != (trouble{From: r.From}) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b trouble) int { return cmp.Compare(a.From, b.From) })
	return all
}

// report says again and again that r does not go on, as long as that is so, until ctx ends. It does not use the store, which a handler that does
// not return may hold up.
func (m *member) report(ctx context.Context, r annals.SliceRange) {
	for backoff.Sleep(ctx, m.lease/3) == nil {
		t := m.health(r).trouble(r.From)
		if !m.health(r).say(t) {
			continue
		}
		m.log.WarnContext(ctx, "annals: a range has not gone on", "projection", m.projection, "runner", m.id, "slices", r,
			"since", t.Since, "the handler does not return", t.Hangs, "cause", t.Cause)
		m.tell(ctx, annals.Call{Op: opStuck}, annals.Result{Duration: m.now().Sub(t.Since), Warning: fmt.Errorf("slices %s have not gone on; the handler does not return: %t", r, t.Hangs)})
	}
}

// begun returns r with the ranges of this group, if there are no runners. A projection follows the same events for ever. Its ranges are of the kind of the
// positions that were saved before there was a record, if any.
func (g *group) begun(ctx context.Context, r record) (record, error) {
	spread := position.Spread(r.whole())
	if len(r.Ranges) == 0 {
		positions, err := g.store.Offsets().Load(ctx, g.projection, annals.SliceRange{})
		if err != nil {
			return r, err
		}
		r.Source, spread = g.source, g.spread
		if i := slices.IndexFunc(positions, saved); i >= 0 {
			spread = position.Spread(positions[i].Slices)
		}
	}
	if len(r.Runners) == 0 && len(r.Ranges) != g.ranges {
		r.Ranges = nil
		for _, s := range position.Divide(g.ranges, spread) {
			r.Ranges = append(r.Ranges, lease{From: s.From, To: s.To})
		}
	}
	if r.Source != g.source {
		return r, &stopped{&annals.Error{Op: "run projection", ID: recordOf(g.projection).ID, Kind: annals.ErrInvalid,
			Err: fmt.Errorf("it follows %v, not %v", r.Source, g.source)}}
	}
	return r, nil
}

// apply starts and stops works, so that those are running that the record says.
func (m *member) apply(ctx context.Context) {
	if m.orders != nil {
		m.orders.Store(m.record.Orders)
	}
	handles := m.record.handles(m.id)
	for r, t := range m.running {
		if handles[r] != t.epoch {
			t.stop()
		}
	}
	for r, epoch := range handles {
		if _, runs := m.running[r]; !runs {
			m.start(ctx, r, epoch)
		}
	}
}

// start runs the work for r.
func (m *member) start(ctx context.Context, r annals.SliceRange, epoch int64) {
	working, stop := context.WithCancel(context.WithValue(ctx, runKey{}, ctx))
	watching, end := context.WithCancel(ctx)
	if m.health != nil {
		m.health(r).begins()
		m.wait.Go(func() { m.report(watching, r) })
	}
	m.running[r] = task{epoch, stop, m.now(), m.steps(r)}
	m.log.DebugContext(ctx, "annals: a range is taken", "projection", m.projection, "runner", m.id, "slices", r, "epoch", epoch)
	m.changes(ctx, opTake)
	m.wait.Go(func() {
		defer stop()
		seen, err := m.hold(working, r, epoch)
		end()
		if seen > 0 && err == nil {
			m.log.WarnContext(ctx, "annals: another runner has taken over a range, or the projection was set back", "projection", m.projection, "runner", m.id,
				"slices", r, "epoch", epoch, "newer", seen)
			m.changes(ctx, opLose)
		}
		m.changes(ctx, opRelease)
		m.log.DebugContext(ctx, "annals: a range is given up", "projection", m.projection, "runner", m.id, "slices", r, "epoch", epoch)
		select {
		case m.ended <- ending{r, seen, err}:
		case <-ctx.Done(): // run ends
		}
	})
}

// changes tells that the runner takes, loses or gives up a range.
func (m *member) changes(ctx context.Context, op string) {
	if m.tell != nil {
		m.tell(ctx, annals.Call{Op: op}, annals.Result{})
	}
}

// runKey is the key of run's context in that of a work.
type runKey struct{}

// finishing returns a context for a batch of a work whose context is ctx: it does not end when the range is to be handed over, but when run
// ends.
func finishing(ctx context.Context) context.Context {
	if run, ok := ctx.Value(runKey{}).(context.Context); ok {
		return run
	}
	return ctx
}

// hold saves the epoch, so that former holders of r are fenced, and then works. When it was fenced itself, as by a Reset, it returns the
// highest epoch that is stored.
func (m *member) hold(ctx context.Context, r annals.SliceRange, epoch int64) (seen int64, err error) {
	offsets := m.store.Offsets()
	err = m.retried(ctx, r, func() error {
		return offsets.Save(ctx, annals.Progress{Projection: m.projection, Slices: r, Epoch: epoch})
	})
	if err == nil {
		err = m.work(ctx, r, epoch)
	}
	if errors.Is(err, annals.ErrFenced) {
		err = m.retried(ctx, r, func() error {
			stored, err := offsets.Load(ctx, m.projection, r)
			for _, p := range stored {
				seen = max(seen, p.Epoch)
			}
			return err
		})
	}
	if ctx.Err() != nil {
		err = nil
	}
	return seen, err
}

// leave removes the runner from the record, so that the others need not wait until it is dead.
func (m *member) leave(ctx context.Context) {
	if m.beatAt.IsZero() {
		return // it has not joined
	}
	within := min(m.patience.Lease(m.lease, time.Time{}, m.now()), max(m.lease, leases.LookTime)) // the others would wait for that longer lease
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := recordOf(m.projection).Change(ctx, m.store, func(r *record) error {
		*r = r.without(m.id)
		m.addLate(r)
		return nil
	})
	if err != nil {
		m.log.WarnContext(ctx, "annals: others take the ranges only after the lease", "projection", m.projection, "runner", m.id, "error", err)
	}
}

// retried calls fn until it succeeds, fails for good, or ctx ends.
func (m *member) retried(ctx context.Context, r annals.SliceRange, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		if err == nil || final(err) {
			return err
		}
		if backoff.Seldom(try) {
			m.log.WarnContext(ctx, "annals: a range cannot be taken", "projection", m.projection, "runner", m.id, "slices", r, "error", err, "try", try)
		}
		if backoff.Wait(ctx, try) != nil {
			return err
		}
	}
}
