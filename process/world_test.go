package process_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/process"
	"github.com/annals-go/annals/projection"
)

// silent is a Logger for tests with failures on purpose.
var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

// wish is an event of a source: what an instance of the process of these tests is to do. Name is of a timer, or of a recipient.
type wish struct {
	For, Do, Name string
	After         time.Duration
}

// source is an entity with wishes. Its commands are its events.
func source(entities string) behavior.EventSourced[wish, wish, int, int] {
	return behavior.EventSourced[wish, wish, int, int]{
		Type:   entities,
		Decide: func(_ int, w wish) ([]wish, error) { return []wish{w}, nil },
		Evolve: func(n int, _ wish) int { return n + 1 },
	}
}

// note is an event of the process: an input that it has handled.
type note struct {
	From  annals.PersistenceID // of an event
	SeqNr annals.SeqNr
	wish
	Due     time.Time // of the timer that it sets
	Version int
	step    annals.SeqNr // the number of its step, when it was read
}

// box is a recipient: it keeps the ids of the commands it has got, each once, and rejects those that say so.
type box struct{ Keys []string }

type letter struct{ Key, Text string }

var (
	errRejected = errors.New("the box rejects it")
	errHang     = errors.New("does not answer")                                                             // of world.fail
	errSlow     = &annals.Error{Op: "ask", Kind: annals.ErrUnavailable, Err: errors.New("after 5 seconds")} // of world.fail
)

var boxes = behavior.EventSourced[letter, letter, box, int]{
	Type: "Box",
	Decide: func(b box, l letter) ([]letter, error) {
		switch {
		case slices.Contains(b.Keys, l.Key):
			return nil, nil
		case l.Text == "reject":
			return nil, errRejected
		}
		return []letter{l}, nil
	},
	Evolve: func(b box, l letter) box { b.Keys = append(b.Keys, l.Key); return b },
	Reply:  func(b box, l letter, _ []letter) int { return slices.Index(b.Keys, l.Key) },
}

var toBoxes = process.NewTarget("boxes", codec.JSON[string]("text"))

// listing is a process whose state is how many notes it has made of each kind.
var listing = process.Process[note, map[string]int]{
	Type:    "Listing",
	Version: 1,
	Init:    func(string) map[string]int { return map[string]int{} },
	React: func(s map[string]int, in process.Input) (process.Step[note], error) {
		switch v := in.Value.(type) {
		case wish:
			n := note{From: in.Event.ID, SeqNr: in.Event.SeqNr, wish: v, Version: in.Version}
			switch v.Do {
			case "ask":
				return process.Step[note]{Events: []note{n}, Commands: []process.Command{toBoxes.Ask(v.Name, "ask"), toBoxes.Tell(v.Name+"'", "tell")}}, nil
			case "reject":
				return process.Step[note]{Events: []note{n}, Commands: []process.Command{toBoxes.Ask(v.Name, "reject"), toBoxes.Tell(v.Name, "reject")}}, nil
			case "set":
				n.Due = in.Time.Add(v.After)
				return process.Step[note]{Events: []note{n}, Timers: []process.Timer{{Name: v.Name, Due: n.Due}}}, nil
			case "cancel":
				return process.Step[note]{Events: []note{n}, Cancel: []string{v.Name}}, nil
			case "end":
				return process.Step[note]{Events: []note{n}, End: true}, nil
			case "ignore":
				return process.Step[note]{}, nil
			case "fail":
				return process.Step[note]{}, errors.New("it fails on purpose")
			case "panic":
				panic("on purpose")
			}
			return process.Step[note]{}, fmt.Errorf("no case for %s", v.Do)
		case process.Answer:
			do := fmt.Sprintf("answered %s %v", v.Command.Value, v.Err)
			return process.Step[note]{Events: []note{{wish: wish{Do: do, Name: v.Command.Recipient}, Version: in.Version}}}, nil
		case process.Fired:
			return process.Step[note]{Events: []note{{wish: wish{Do: "fired", Name: v.Name}}}, Commands: []process.Command{toBoxes.Tell("timers of "+in.ID, v.Name)}}, nil
		}
		return process.Step[note]{}, fmt.Errorf("no case for %T", in.Value)
	},
	Evolve:        func(s map[string]int, n note) map[string]int { s[n.Do]++; return s },
	SnapshotEvery: 7,
}

// world is a store with sources, instances and boxes.
type world struct {
	store annals.Store // without faults
	wants map[string]*aggregate.Repository[wish, int, int]
	boxes *aggregate.Repository[letter, box, int]

	mu    sync.Mutex
	fails map[string]error // of recipients
	sent  map[string]int   // by recipient
	flaky func() error     // is asked before and after each command; nil: recipients do not fail at random
}

var sourceTypes = []string{"Here", "There"}

func newWorld(store annals.Store) (*world, error) {
	w := &world{store: store, wants: map[string]*aggregate.Repository[wish, int, int]{}, fails: map[string]error{}, sent: map[string]int{}}
	var err error
	for _, s := range sourceTypes {
		if w.wants[s], err = aggregate.New(store, source(s), aggregate.Options{}); err != nil {
			return nil, err
		}
	}
	w.boxes, err = aggregate.New(store, boxes, aggregate.Options{})
	return w, err
}

// newWorldInMemory returns a world on a store in memory.
func newWorldInMemory(t *testing.T) *world {
	t.Helper()
	w, err := newWorld(memstore.New())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// runner is a Runner on the store of w, or on one that does the same with faults.
func (w *world) runner(store annals.Store, p process.Process[note, map[string]int], o process.Options) (*process.Runner[note, map[string]int], error) {
	o.Logger = silent
	var sources []process.Source
	for _, s := range sourceTypes {
		sources = append(sources, process.From(projection.Source[wish]{Store: store, Type: s, Codec: codec.JSON[wish](s)},
			func(e projection.Envelope[wish]) string { return e.Value.For }))
	}
	send := func(ctx context.Context, key, recipient, text string) (int, error) {
		w.mu.Lock()
		err := w.fails[recipient]
		w.sent[recipient]++
		w.mu.Unlock()
		if errors.Is(err, errHang) {
			<-ctx.Done()
			err = ctx.Err()
		}
		if errors.Is(err, errSlow) {
			<-time.After(5 * time.Second)
		}
		if err == nil && w.flaky != nil {
			err = w.flaky()
		}
		if err != nil {
			return 0, err
		}
		n, err := w.boxes.Ask(ctx, recipient, letter{key, text})
		if w.flaky != nil {
			if failed := w.flaky(); failed != nil {
				return 0, failed
			}
		}
		return n, err
	}
	return process.New(store, p, sources, []process.Recipients{process.To(toBoxes, send)}, o)
}

func (w *world) fail(recipient string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails[recipient] = err
}

// want makes entity an event of a source.
func (w *world) want(ctx context.Context, entity string, x wish) error {
	kind, id, _ := strings.Cut(entity, "|")
	_, err := w.wants[kind].Ask(ctx, id, x)
	return err
}

// notes are those of an instance, with their times.
func (w *world) notes(ctx context.Context, id string) (all []note, times []time.Time, err error) {
	for e, err := range w.store.Journal().Replay(ctx, annals.NewPersistenceID("Listing", id), 1, annals.MaxSeqNr) {
		if err != nil {
			return nil, nil, err
		}
		if e.Manifest != "Listing" {
			continue
		}
		n, err := codec.JSON[note]("Listing").Decode(e.Payload)
		if err != nil {
			return nil, nil, err
		}
		n.step = e.SeqNr - 1
		all, times = append(all, n), append(times, e.Time)
	}
	return all, times, nil
}

// did are what the notes of an instance say.
func (w *world) did(ctx context.Context, id string) ([]string, error) {
	notes, _, err := w.notes(ctx, id)
	var all []string
	for _, n := range notes {
		all = append(all, strings.TrimSpace(n.Do+" "+n.Name))
	}
	return all, err
}

func (w *world) got(ctx context.Context, recipient string) ([]string, error) {
	b, _, err := w.boxes.Load(ctx, recipient)
	return b.Keys, err
}
