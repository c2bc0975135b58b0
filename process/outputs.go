package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/calendar"
	"github.com/annals-go/annals/internal/quote"
	"github.com/annals-go/annals/projection"
)

// job is one thing that a step says is to be done.
type job struct {
	projection.Envelope[*step]
	command int                     // its place; -1: the input that waits is handled
	noted   func() ([]place, error) // reads the instance, once for all jobs
}

// carryOut carries out steps: it sets their timers, and sends their commands, to several recipients at the same time. A step that has failed
// together with others is handed over again until it is alone, and those that have not failed are not carried out again for that.
func (r *Runner[E, S]) carryOut(ctx context.Context, es []projection.Envelope[*step]) error {
	left, err := r.results.take(es)
	if err != nil {
		return err
	}
	within, stop := context.WithTimeout(ctx, r.o.SendTimeout+sending)
	defer stop()
	var timers []calendar.Timer
	q, noted := queues[job]{}, map[annals.PersistenceID]func() ([]place, error){}
	for _, e := range left {
		if noted[e.ID] == nil {
			noted[e.ID] = sync.OnceValues(func() ([]place, error) {
				n, _, err := r.instances.Load(ctx, e.ID.EntityID())
				return n.Sent, err
			})
		}
		switch s := e.Value; {
		case s == nil:
		case s.Waits != nil:
			q.add(string(e.ID), job{Envelope: e, command: -1})
		default:
			for _, t := range r.results.unset(e) {
				timers = append(timers, calendar.Timer{ID: e.ID, Name: t.Name, Due: time.UnixMicro(t.Due).UTC()})
			}
			for i, c := range s.Commands {
				q.add(quote.Text(c.Target)+" "+c.Recipient, job{e, i, noted[e.ID]})
			}
		}
	}
	if len(timers) > 0 {
		if err := r.calendar.Add(ctx, timers); err != nil {
			return err
		}
	}
	var bad results
	var done executed
	err = q.run(r.o.Parallel, func(key string, j job) error {
		err := r.carry(within, key, j)
		if err == nil {
			done.add(j)
		}
		return err
	}, func(jobs []job, err error) (others []job) {
		for _, j := range jobs { // those behind the one that has failed wait, too, if they are of its instance
			if j.ID == jobs[0].ID {
				bad.put(j.Event, err)
			} else {
				others = append(others, j)
			}
		}
		return others
	})
	r.results.set(left, err != nil)
	if err != nil {
		err = errors.Join(err, r.note(ctx, es, &bad, &done))
	}
	if err != nil && ctx.Err() == nil && len(es) > 1 {
		for _, e := range left {
			if failed := bad.of[offsetOf(e.Event)]; failed == nil || within.Err() == nil { // those for which the time did not suffice have not failed
				r.results.put(e.Event, failed)
			}
		}
	}
	return err
}

func (j job) place() place { return place{j.SeqNr, j.command} }

// executed are commands by their instances.
type executed struct {
	mu sync.Mutex
	by map[annals.PersistenceID][]place
}

func (x *executed) add(j job) {
	if j.command >= 0 {
		x.mu.Lock()
		defer x.mu.Unlock()
		put(&x.by, j.ID, append(x.by[j.ID], j.place()))
	}
}

// note notes the commands that were executed of instances of which others have failed. Those may fail for longer than recipients recognise a key.
func (r *Runner[E, S]) note(ctx context.Context, es []projection.Envelope[*step], bad *results, done *executed) error {
	var errs []error
	since := map[annals.PersistenceID]annals.SeqNr{}
	for _, e := range es {
		if since[e.ID] == 0 {
			since[e.ID] = e.SeqNr
		}
	}
	for o := range bad.of {
		if sent := done.by[o.ID]; len(sent) > 0 {
			errs = append(errs, r.ask(ctx, addressed{o.ID.EntityID(), turn{sent: sent, since: since[o.ID]}}))
			delete(done.by, o.ID)
		}
	}
	return errors.Join(errs...)
}

// recognised is for how long after a step its commands are sent again without a look at what is noted. Each recipient knows a key for longer.
const recognised = time.Minute

// command returns what c was before it was stored, and its Target.
func (r *Runner[E, S]) command(c *command) (Recipients, Command, error) {
	to, ok := r.recipients[c.Target]
	if !ok {
		return to, Command{}, fmt.Errorf("a command is for target %q, and there is no such target", c.Target)
	}
	sent, err := to.decode(c.Value.payload())
	sent.Recipient, sent.Asks = c.Recipient, c.Asks
	return to, sent, err
}

// carry does what j says.
func (r *Runner[E, S]) carry(ctx context.Context, key string, j job) error {
	id := j.ID.EntityID()
	switch {
	case ctx.Err() != nil: // nothing more begins
		return ctx.Err()
	case j.command < 0:
		return r.resume(ctx, id, j.SeqNr, j.Value)
	}
	c := j.Value.Commands[j.command]
	to, sent, err := r.command(&c)
	if err != nil {
		return err
	}
	if !j.Rebuilding && (j.Time.IsZero() || time.Since(j.Time) > recognised) {
		if noted, err := j.noted(); err != nil || slices.Contains(noted, j.place()) {
			return err
		}
	}
	reply, rejection, err := r.send(ctx, to, key, commandID(j.ID, j.SeqNr, j.command), sent)
	switch {
	case err != nil:
		return fmt.Errorf("command for %s of target %q: %w", quote.Text(c.Recipient), c.Target, err)
	case c.Asks:
		t := answerTurn(number(j.SeqNr, j.command), Answer{sent, reply, rejection})
		t.answer = func() *waiting {
			if rejection != nil { // nothing was executed: what the recipient says when it is asked again counts
				return nil
			}
			if stored := to.reply(reply); stored != nil {
				return &waiting{Value: stored, Command: &c}
			}
			return nil
		}
		return r.hand(ctx, addressed{id, t})
	case rejection != nil:
		r.o.Logger.LogAttrs(ctx, slog.LevelInfo, "annals: a command was rejected", slog.String("process", r.p.Type),
			slog.String("instance", id), slog.String("target", c.Target), slog.Any("rejection", rejection))
	}
	return nil
}

// send sends a command. A recipient that has not answered in time, or whose failures have taken long together, is left alone for a while, so that it does not
// hold up the others again and again.
func (r *Runner[E, S]) send(ctx context.Context, to Recipients, key, id string, c Command) (reply any, rejection, err error) {
	alone, f := 2*r.o.SendTimeout, r.results.failures(key)
	if since := time.Since(f.at); since < alone && f.took > r.o.SendTimeout/10 {
		return nil, nil, fmt.Errorf("the recipient did not answer, or has failed slowly, %v ago", since.Round(time.Second))
	}
	begun := time.Now()
	within, cancel := context.WithTimeout(ctx, r.o.SendTimeout)
	defer cancel()
	reply, err = to.send(within, id, c.Recipient, c.Value)
	late := within.Err() != nil
	if err != nil && (late || failed(err)) {
		if ctx.Err() == nil {
			r.results.fail(key, time.Since(begun), alone)
		}
		return nil, nil, err
	}
	if f.took > 0 {
		r.results.answered(key, r.o.SendTimeout/10)
	}
	return reply, err, nil
}

// results remembers for a moment what has become of steps, and of recipients.
type results struct {
	mu      sync.Mutex
	of      map[annals.Offset]error
	timers  map[annals.Offset]bool // of steps that have failed after their timers were set
	failing map[string]failing
}

// failing is a recipient that has failed.
type failing struct {
	at   time.Time     // of its last failure
	took time.Duration // its failures, of which none came much later than the one before, or after an answer
}

// mostResults keeps what is remembered small. What is forgotten is carried out again.
const mostResults = 10_000

// offsetOf is the offset of e with the one form that its time has here. The instance may have been forgotten, and have begun again.
func offsetOf(e annals.Event) annals.Offset {
	return annals.Offset{Time: time.UnixMicro(micros(e.Time)).UTC(), ID: e.ID, SeqNr: e.SeqNr}
}

func (x *results) put(e annals.Event, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.of) >= mostResults {
		clear(x.of)
	}
	o := offsetOf(e)
	if before := x.of[o]; before == nil {
		put(&x.of, o, err)
	}
}

// take returns those of es of which nothing is known, or the error with which one of them has failed. It forgets what is not needed any more. What is
// known of steps that Control.Reset has taken back may be from before, and does not count.
func (x *results) take(es []projection.Envelope[*step]) (left []projection.Envelope[*step], err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.of) == 0 {
		return es, nil
	}
	for _, e := range es {
		if err := x.of[offsetOf(e.Event)]; err != nil && !e.Rebuilding {
			if len(es) == 1 { // it is parked, and what comes later for its instance is handed over again
				maps.DeleteFunc(x.of, func(o annals.Offset, _ error) bool { return o.ID == e.ID })
			}
			return nil, err
		}
	}
	for _, e := range es {
		o := offsetOf(e.Event)
		if _, done := x.of[o]; !done || e.Rebuilding {
			left = append(left, e)
		}
		delete(x.of, o)
	}
	return left, nil
}

// unset returns the timers of e, unless they were set before something else of e failed.
func (x *results) unset(e projection.Envelope[*step]) []timer {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.timers[offsetOf(e.Event)] {
		return nil
	}
	return e.Value.Timers
}

// set notes that the timers of es are set, and whether es have failed after that.
func (x *results) set(es []projection.Envelope[*step], failed bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.timers) >= mostResults {
		clear(x.timers)
	}
	for _, e := range es {
		if o := offsetOf(e.Event); !failed {
			delete(x.timers, o)
		} else if e.Value != nil && len(e.Value.Timers) > 0 {
			put(&x.timers, o, true)
		}
	}
}

// fail notes that a recipient has failed, which took so long. Failures that are far apart do not count together.
func (x *results) fail(key string, took, apart time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.failing) >= mostResults {
		clear(x.failing)
	}
	if f := x.failing[key]; time.Since(f.at) < apart {
		took += f.took
	}
	put(&x.failing, key, failing{time.Now(), took})
}

// answered forgets the failures of a recipient, unless they have taken longer than most.
func (x *results) answered(key string, most time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.failing[key].took <= most {
		delete(x.failing, key)
	}
}

func (x *results) failures(key string) failing {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.failing[key]
}
