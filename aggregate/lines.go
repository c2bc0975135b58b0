package aggregate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/host"
)

// keepLine is how long a line is kept in which no command waits. It covers the turns of other owners.
const keepLine = 5 * time.Second

// lines are those of the entities whose commands have met conflicts lately. Commands to other entities do not wait for each other.
type lines struct {
	mu sync.Mutex
	of map[annals.PersistenceID]*line
}

// line is where the commands of a Repository to one entity wait for each other, and for the turns of other owners. So they do not overtake
// each other, and the owners write in turns.
type line struct {
	front    chan struct{} // holds one element while a command is at the front; the next three are that command's
	turns    host.Turns
	number   annals.SeqNr // after the newest command of the line that wrote
	resume   time.Time    // not before may the entity be loaded again
	commands int          // in the line; guarded by lines.mu
	expiry   *time.Timer  // set when there are none; guarded by lines.mu
}

// join is the line of the entity id, with one command more. When there is none, join makes one, or is nil if make is false.
func (s *lines) join(id annals.PersistenceID, create bool) *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[id]
	if l == nil {
		if !create {
			return nil
		}
		l = &line{front: make(chan struct{}, 1)}
		s.of[id] = l
	}
	l.commands++
	return l
}

// leave is the end of a command that has joined l. After some time without one the line is dropped.
func (s *lines) leave(id annals.PersistenceID, l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.commands--; l.commands > 0 {
		return
	}
	if l.expiry != nil {
		l.expiry.Reset(keepLine)
		return
	}
	l.expiry = time.AfterFunc(keepLine, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.commands == 0 && s.of[id] == l {
			delete(s.of, id)
		}
	})
}

// toFront waits until the command is at the front, and reports whether it is before ctx ends. The command then receives from front at its end.
func (l *line) toFront(ctx context.Context) bool {
	select {
	case l.front <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// loaded, sent, stored and overtaken tell the turns of l, if there is a line, what the command at the front has done.
func (l *line) loaded(began time.Time, number annals.SeqNr) {
	if l != nil {
		l.turns.Loaded(began, number != l.number)
	}
}

func (l *line) sent() (last bool) { return l != nil && l.turns.Sent() }

func (l *line) stored(number annals.SeqNr, last bool) {
	if l != nil {
		l.number, l.resume = number, time.Now().Add(l.turns.Stored(last))
	}
}

func (l *line) overtaken() {
	if l != nil {
		l.resume = time.Now().Add(l.turns.Overtaken())
	}
}

// queue executes c in the line of the entity. conflict is the error of the try before, or nil.
func (r *Repository[C, S, R]) queue(ctx context.Context, l *line, id string, pid annals.PersistenceID, c C, conflict error) (result behavior.Result[R], err error) {
	defer r.lines.leave(pid, l)
	patience, cancel := context.WithTimeout(ctx, r.o.ConflictTimeout)
	defer cancel()
	if !l.toFront(patience) {
		return result, gaveUp(ctx, pid, conflict)
	}
	defer func() { <-l.front }()
	for {
		if backoff.Sleep(patience, time.Until(l.resume)) != nil {
			return result, gaveUp(ctx, pid, conflict)
		}
		result, overtaken, err := r.once(ctx, l, id, pid, c, host.AnyNumber, r.send)
		if !overtaken {
			return result, err
		}
		conflict = err
	}
}

// gaveUp is the error of a command that has waited in a line until its context or ConflictTimeout ended. conflict is that of its last try,
// nil when it was not tried.
func gaveUp(ctx context.Context, pid annals.PersistenceID, conflict error) error {
	switch {
	case conflict != nil:
		return conflict
	case ctx.Err() != nil:
		return &annals.Error{Op: host.OpAsk, ID: pid, Kind: annals.ErrUnavailable, Err: ctx.Err()}
	}
	return &annals.Error{Op: host.OpAsk, ID: pid, Kind: annals.ErrConflict, Err: errors.New("other commands and other owners write all the time")}
}
