package verify

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/backoff"
)

// Options of a run. The zero Options check everything.
type Options struct {
	IDs   []annals.PersistenceID // check these only; nil: all
	Type  string                 // only entities of this type; "": any, and what the library keeps of its own
	After string                 // go on behind a Step with this After; "": at the beginning
	// Since leaves out entities whose newest event and state are older. It costs the reads of the last number, the last event and the state of each
	// entity. ErrUnsupported for a store that claims neither Times nor States.
	Since time.Time
	Rate  int // at most so many entities in a second; 0 is no limit
	// Decode is called for the payloads of all entities but the library's own, and returns an error for one that no codec reads; nil for an entity
	// that the program does not know. An error that is annals.ErrUnavailable says nothing of a payload and ends the run. nil: payloads are not decoded.
	Decode func(id annals.PersistenceID, p ability.Stored) error
	// Running are the names of all projections and leases and the types of all process managers that there are, in all programs that use the store;
	// what it keeps for others is a finding. nil: this is not known.
	Running []string
	// Sources are the stores of the events, by projection, where that is another store than the one that has the position: a position is compared with the
	// events that it is about.
	Sources map[string]annals.Store
	// Settle is how long after the first look what may be a write in progress is looked at again; 0 is a quarter of a second.
	Settle time.Duration
}

// Step is one entity, or what belongs to none.
type Step struct {
	ID      annals.PersistenceID // "": none. Ids whose types begin with "annals." are the library's own
	Found   []Finding            // by codes and numbers; nil: nothing is wrong
	Skipped bool                 // by Options.Since
	After   string               // for a run that goes on: all that is before is checked. "" with Options.IDs
}

// Finding is something that is wrong, or may be.
type Finding struct {
	*ability.Damage
	Projection string // whose position or parked entities it is about; "": none
}

// about orders findings by what they are about, compare also by numbers.
func (f Finding) about(g Finding) int {
	return cmp.Or(cmp.Compare(f.Projection, g.Projection), cmp.Compare(f.Code, g.Code), cmp.Compare(f.ID, g.ID))
}

func (f Finding) compare(g Finding) int {
	return cmp.Or(cmp.Compare(f.Projection, g.Projection), f.Damage.Compare(g.Damage))
}

// Accepted reports whether readers accept it: it is damage only if another system has not left the numbers unused.
func (f Finding) Accepted() bool { return f.Code == ability.Hole }

// suspects is how many entities wait for a second look.
const suspects = 64

// Store checks the store, and yields a step for each entity. An entity with findings comes after its second look, so later than others. An error of the
// store comes last. ErrInvalid for an empty id in Options.IDs. ErrUnsupported for a store that is no ability.Checker, or, without Options.IDs, no ability.Scanner.
func Store(ctx context.Context, s annals.Store, o Options) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		r, err := newRun(ctx, s, o)
		if err == nil {
			err = r.all(func(s Step) bool { return yield(s, nil) })
		}
		if err != nil && !errors.Is(err, errLeft) {
			yield(Step{After: r.after()}, err)
		}
	}
}

// errLeft ends a run whose caller has left the loop.
var errLeft = errors.New("the loop was left")

// run is one run.
type run struct {
	Options
	ctx     context.Context
	store   annals.Store
	checker ability.Checker
	scanner ability.Scanner // nil with IDs

	at      string // the After of the last step
	waiting []suspect
	listed  []string // the projections of which there is a record
	yield   func(Step) bool
}

// suspect waits for the second look.
type suspect struct {
	Step
	before string // the After of the step before it
	seen   time.Time
	looked []Finding // of the first look. Those of the scan are in Step: they are no write in progress
}

func newRun(ctx context.Context, s annals.Store, o Options) (r *run, err error) {
	if o.Settle == 0 {
		o.Settle = time.Second / 4
	}
	r = &run{Options: o, ctx: ctx, store: s, at: o.After}
	if r.checker, err = ability.Of[ability.Checker](s); err != nil {
		return r, err
	}
	if slices.Contains(o.IDs, "") {
		return r, &annals.Error{Op: "verify", Kind: annals.ErrInvalid, Err: errors.New("an id is empty")}
	}
	if caps := s.Capabilities(); !o.Since.IsZero() && !caps.Times && !caps.States {
		return r, &annals.Error{Op: "verify", Kind: annals.ErrUnsupported, Err: errors.New("the store keeps no times, so it does not know what has changed since")}
	}
	if o.IDs == nil {
		r.scanner, err = ability.Of[ability.Scanner](s)
	}
	return r, err
}

// after is behind which step everything is checked.
func (r *run) after() string {
	if len(r.waiting) > 0 {
		return r.waiting[0].before
	}
	return r.at
}

func (r *run) all(yield func(Step) bool) error {
	r.yield = yield
	var pace <-chan time.Time
	if r.Rate > 0 {
		t := time.NewTicker(max(time.Second/time.Duration(r.Rate), 1))
		defer t.Stop()
		pace = t.C
	}
	for step, err := range r.steps() {
		if err != nil {
			return err
		}
		if err := r.step(step); err != nil {
			return err
		}
		for len(r.waiting) > 0 && (len(r.waiting) >= suspects || time.Since(r.waiting[0].seen) >= r.Settle) {
			if err := r.settle(); err != nil {
				return err
			}
		}
		if pace != nil && step.ID != "" {
			select {
			case <-pace:
			case <-r.ctx.Done():
				return ended(r.ctx)
			}
		}
	}
	for len(r.waiting) > 0 {
		if err := r.settle(); err != nil {
			return err
		}
	}
	return r.unlisted()
}

func ended(ctx context.Context) error {
	return &annals.Error{Op: "verify", Kind: annals.ErrUnavailable, Err: ctx.Err()}
}

// steps are the entities to check.
func (r *run) steps() iter.Seq2[ability.Scanned, error] {
	if r.scanner != nil {
		return r.scanner.Scan(r.ctx, r.Type, r.After)
	}
	return func(yield func(ability.Scanned, error) bool) {
		for _, id := range r.IDs {
			if !yield(ability.Scanned{ID: id}, nil) {
				return
			}
		}
	}
}

// step looks at an entity for the first time.
func (r *run) step(scanned ability.Scanned) error {
	if r.Type != "" && scanned.ID != "" && scanned.ID.Type() != r.Type {
		r.at = scanned.After
		return nil
	}
	step := Step{ID: scanned.ID}
	for _, d := range scanned.Damage {
		step.Found = append(step.Found, Finding{Damage: d})
	}
	var found []Finding
	var err error
	if step.ID != "" {
		if step.Skipped, err = r.unchanged(step.ID); err == nil && !step.Skipped {
			found, err = r.look(step.ID)
		}
	}
	if err != nil {
		return err // a run that goes on begins with this step
	}
	before := r.at
	r.at = scanned.After
	if len(found) == 0 {
		return r.give(step)
	}
	r.waiting = append(r.waiting, suspect{step, before, time.Now(), found})
	return nil
}

// settle looks at the first suspect again: what is found twice is no write in progress.
func (r *run) settle() error {
	s := r.waiting[0]
	if backoff.Sleep(r.ctx, r.Settle-time.Since(s.seen)) != nil {
		return ended(r.ctx)
	}
	found, err := r.look(s.ID)
	if err != nil {
		return err
	}
	r.waiting, s.Found = r.waiting[1:], append(s.Found, agreed(s.looked, found, Finding.about)...)
	return r.give(s.Step)
}

func (r *run) give(s Step) error {
	s.Found = distinct(s.Found, Finding.compare)
	if s.After = r.after(); r.scanner == nil {
		s.After = ""
	}
	if !r.yield(s) {
		return errLeft
	}
	return nil
}

// unchanged reports whether everything of id is older than Since.
func (r *run) unchanged(id annals.PersistenceID) (bool, error) {
	if r.Since.IsZero() {
		return false, nil
	}
	number, at, err := newest(r.ctx, r.store, id)
	switch {
	case unreadable(err), errors.Is(err, annals.ErrTruncated):
		return false, nil
	case err != nil:
		return false, err
	}
	return number > 0 && !at.IsZero() && at.Before(r.Since), nil
}

// unreadable reports whether err says that a row is damaged, or that a later version wrote it: a check finds that.
func unreadable(err error) bool {
	return errors.Is(err, annals.ErrCorrupt) || errors.Is(err, annals.ErrUnsupported)
}

// newest returns the highest number and the latest time of the last event and the state of id. The time is zero where the last event is deleted and there is
// no state.
func newest(ctx context.Context, s annals.Store, id annals.PersistenceID) (number annals.SeqNr, at time.Time, err error) {
	caps := s.Capabilities()
	if caps.Events {
		if number, err = s.Journal().LastSeqNr(ctx, id); err != nil {
			return 0, at, err
		}
		if number > 0 {
			for e, err := range s.Journal().Replay(ctx, id, number, number) {
				if err != nil {
					return 0, at, err
				}
				at = e.Time
			}
		}
	}
	if caps.States {
		state, _, err := s.States().Get(ctx, id)
		if err != nil {
			return 0, at, err
		}
		number = max(number, state.Revision)
		if state.Time.After(at) {
			at = state.Time
		}
	}
	return number, at, nil
}
