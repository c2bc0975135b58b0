package hosttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/faulty"
)

// Recovery checks on s what hosts bring back from a store: the state that was in memory, also where it depends on the times and the
// metadata of events or states, and the state of an entity whose snapshot cannot be decoded.
func Recovery(t *testing.T, s annals.Store) {
	t.Helper()
	for _, c := range recoveryCases(s.Capabilities()) {
		t.Run(c.name, func(t *testing.T) {
			if err := c.check(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
}

type recoveryCase struct {
	name  string
	check func(ctx context.Context, s annals.Store) error
}

func recoveryCases(c annals.Capabilities) []recoveryCase {
	cases := []recoveryCase{{"InfoOfEvents", infoOfEvents}}
	if c.States {
		cases = append(cases, recoveryCase{"InfoOfStates", infoOfStates})
	}
	if c.Snapshots && !c.Limits.FirstSnapshot {
		cases = append(cases, recoveryCase{"OtherSnapshot", otherSnapshot}, recoveryCase{"LiftedSnapshot", liftedSnapshot},
			recoveryCase{"OtherSnapshotWithoutEvents", otherSnapshotWithoutEvents})
	}
	return cases
}

// userKey is the key of a context's value: the user who sends a command.
type userKey struct{}

type user struct{ Name string }

var users = codec.JSON[user]("user")

func withUser(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, userKey{}, user{name})
}

func metadata(ctx context.Context) (annals.Payload, error) {
	u, ok := ctx.Value(userKey{}).(user)
	if !ok {
		return annals.Payload{}, nil
	}
	return users.Encode(u)
}

// entry is all that is known of one event or revision.
type entry struct {
	Amount int
	SeqNr  annals.SeqNr
	Time   time.Time
	User   string
}

func newEntry(amount int, i behavior.Info) entry {
	u, _ := i.Metadata.(user)
	return entry{amount, i.SeqNr, i.Time, u.Name}
}

// ledger is the entries of all events. A command of n has n events; 0 only reads.
var ledger = behavior.EventSourced[int, int, []entry, []entry]{
	Type: "Ledger",
	Decide: func(_ []entry, n int) (amounts []int, _ error) {
		for i := range n {
			amounts = append(amounts, i+1)
		}
		return amounts, nil
	},
	EvolveStored: func(s []entry, amount int, i behavior.Info) []entry { return append(s, newEntry(amount, i)) },
	Metadata:     codec.Union[any](users),
	Reply:        func(s []entry, _ int, _ []int) []entry { return slices.Clone(s) },
	Events:       codec.JSON[int]("moved"),
	States:       codec.JSON[[]entry]("ledger"),
}

// infoOfEvents compares the states that two hosts had in memory with the one that a recovery makes of the same events. Every second
// answer of the store to a write is lost, where the store recognises a repeated write.
func infoOfEvents(ctx context.Context, s annals.Store) error {
	b, caps := ledger, s.Capabilities()
	if caps.Snapshots {
		b.SnapshotEvery = 5
	}
	if caps.Limits.MaxEvents == 1 {
		b.Decide = func(_ []entry, n int) ([]int, error) { return make([]int, min(n, 1)), nil }
	}
	lossy := forgetful(s, caps.Repeatable)
	rt, err := entity.New(lossy, b, entity.Options{Metadata: metadata, MayDrop: true})
	if err != nil {
		return err
	}
	defer func() { _ = rt.Shutdown(context.WithoutCancel(ctx)) }()
	states, err := replies(ctx, rt.Ask)
	if err != nil {
		return err
	}
	repository, err := aggregate.New(lossy, b, aggregate.Options{Metadata: metadata, MayDrop: true})
	if err != nil {
		return err
	}
	more, err := laterReplies(ctx, repository.Ask)
	if err != nil {
		return err
	}
	reader, err := aggregate.New(s, b, aggregate.Options{MayDrop: true})
	if err != nil {
		return err
	}
	recovered, last, err := reader.Load(ctx, "a")
	if err != nil {
		return err
	}
	for _, r := range append(states, more...) {
		if len(r) > len(recovered) || !slices.Equal(r, recovered[:len(r)]) {
			return fmt.Errorf("a reply had the state\n%v, a recovery\n%v", r, recovered)
		}
	}
	if annals.SeqNr(len(recovered)) != last {
		return fmt.Errorf("%d entries, but the last number is %d", len(recovered), last)
	}
	for i, e := range recovered {
		if e.SeqNr != annals.SeqNr(i+1) || e.Time.IsZero() == caps.Times || (e.User != "") != caps.Metadata {
			return fmt.Errorf("entry %d is %v", i+1, e)
		}
	}
	if err := repository.Wait(ctx); err != nil || !caps.Snapshots {
		return err
	}
	if _, ok, err := s.Snapshots().Latest(ctx, "Ledger|a", annals.SnapshotCriteria{}); !ok || err != nil {
		return fmt.Errorf("there is no snapshot of %d events, error %v", last, err)
	}
	return nil
}

// replies asks for 0 to 2 changes again and again, from several goroutines, and last for none.
func replies[R any](ctx context.Context, ask func(context.Context, string, int) (R, error)) (all []R, failed error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for client := range 4 {
		wg.Go(func() {
			for i := range 6 {
				r, err := ask(withUser(ctx, fmt.Sprintf("user %d", client)), "a", (client+i)%3)
				mu.Lock()
				all, failed = append(all, r), errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	r, err := ask(ctx, "a", 0)
	return append(all, r), errors.Join(failed, err)
}

// laterReplies asks for 2, 1 and 0 changes.
func laterReplies[R any](ctx context.Context, ask func(context.Context, string, int) (R, error)) (all []R, failed error) {
	for _, n := range []int{2, 1, 0} {
		r, err := ask(withUser(ctx, "last user"), "a", n)
		all, failed = append(all, r), errors.Join(failed, err)
	}
	return all, failed
}

// page counts its writes and knows its newest revision, which is not part of what is stored.
type page struct {
	Writes int
	Newest entry `json:"-"`
}

var pages = behavior.DurableState[int, page, page]{
	Type: "Page",
	Decide: func(p page, n int) (none behavior.Effect[page], _ error) {
		if n == 0 {
			return none, nil
		}
		p.Writes += n
		return behavior.Save(p), nil
	},
	Stored:   func(p page, i behavior.Info) page { p.Newest = newEntry(p.Writes, i); return p },
	Metadata: codec.Union[any](users),
	Reply:    func(p page, _ int) page { return p },
	States:   codec.JSON[page]("page"),
}

// infoOfStates is infoOfEvents for a durable state.
func infoOfStates(ctx context.Context, s annals.Store) error {
	caps := s.Capabilities()
	lossy := forgetful(s, caps.IdempotentState)
	rt, err := entity.NewState(lossy, pages, entity.Options{Metadata: metadata, MayDrop: true})
	if err != nil {
		return err
	}
	defer func() { _ = rt.Shutdown(context.WithoutCancel(ctx)) }()
	repository, err := aggregate.NewState(lossy, pages, aggregate.Options{Metadata: metadata, MayDrop: true})
	if err != nil {
		return err
	}
	byRevision := map[annals.SeqNr]page{}
	for _, ask := range []func() ([]page, error){
		func() ([]page, error) { return replies(ctx, rt.Ask) },
		func() ([]page, error) { return laterReplies(ctx, repository.Ask) },
	} {
		all, err := ask()
		if err != nil {
			return err
		}
		recovered, last, err := repository.Load(ctx, "a")
		if err != nil {
			return err
		}
		if e := recovered.Newest; e.SeqNr != last || e.Amount != recovered.Writes || e.Time.IsZero() || (e.User != "") != caps.StateMetadata {
			return fmt.Errorf("revision %d is %v", last, recovered)
		}
		for _, p := range append(all, recovered) {
			n := p.Newest.SeqNr
			if known, ok := byRevision[n]; ok && known != p {
				return fmt.Errorf("revision %d was %v and %v", n, known, p)
			}
			byRevision[n] = p
		}
		if all[len(all)-1] != recovered {
			return fmt.Errorf("the last reply had the state %v, a recovery %v", all[len(all)-1], recovered)
		}
	}
	return nil
}

// sums is account with snapshots of the given shape every three events. It counts the events that are evolved.
func sums(manifest string, evolved *int, former ...codec.Former[int]) behavior.EventSourced[int, int, int, int] {
	b := account
	b.Type, b.SnapshotEvery, b.States = "Sums", 3, codec.JSON(manifest, former...)
	b.Evolve = func(balance, amount int) int { *evolved++; return balance + amount }
	return b
}

// written is a store with an entity of seven events and a snapshot of the shape "sum" of the first six.
func written(ctx context.Context, s annals.Store, id string, o aggregate.Options) error {
	r, err := aggregate.New(s, sums("sum", new(int)), o)
	if err != nil {
		return err
	}
	for n := range 7 {
		if _, err := r.Ask(ctx, id, n+1); err != nil {
			return err
		}
		if err := r.Wait(ctx); err != nil {
			return err
		}
	}
	return manifestIs(ctx, s, id, 6, "sum")
}

func manifestIs(ctx context.Context, s annals.Store, id string, n annals.SeqNr, manifest string) error {
	snapshot, _, err := s.Snapshots().Latest(ctx, annals.NewPersistenceID("Sums", id), annals.SnapshotCriteria{})
	if err != nil || snapshot.SeqNr != n || snapshot.Manifest != manifest {
		return fmt.Errorf("the newest snapshot has number %d and manifest %q, error %v, want %d and %q", snapshot.SeqNr, snapshot.Manifest, err, n, manifest)
	}
	return nil
}

// otherSnapshot demands of both hosts that they rebuild an entity from its events when its snapshot cannot be decoded, say so in
// the log, and replace the snapshot.
func otherSnapshot(ctx context.Context, s annals.Store) error {
	hosts := map[string]func(id string, logger *slog.Logger, evolved *int) (ask func(n int) (int, error), wait func() error, err error){
		"entity": func(id string, logger *slog.Logger, evolved *int) (func(int) (int, error), func() error, error) {
			rt, err := entity.New(s, sums("sum/2", evolved), entity.Options{Logger: logger})
			return func(n int) (int, error) { return rt.Ask(ctx, id, n) }, func() error { return rt.Shutdown(ctx) }, err
		},
		"aggregate": func(id string, logger *slog.Logger, evolved *int) (func(int) (int, error), func() error, error) {
			r, err := aggregate.New(s, sums("sum/2", evolved), aggregate.Options{Logger: logger})
			return func(n int) (int, error) { return r.Ask(ctx, id, n) }, func() error { return r.Wait(ctx) }, err
		},
	}
	for host, start := range hosts {
		id := "other, " + host
		if err := written(ctx, s, id, aggregate.Options{}); err != nil {
			return err
		}
		var log bytes.Buffer
		var evolved int
		ask, wait, err := start(id, slog.New(slog.NewTextHandler(&log, nil)), &evolved)
		if err != nil {
			return err
		}
		if sum, err := ask(0); sum != 28 || err != nil || evolved != 7 {
			return fmt.Errorf("%s: the sum is %d of %d events, error %v, want 28 of 7", host, sum, evolved, err)
		}
		if text := log.String(); !strings.Contains(text, "rebuilt") || !strings.Contains(text, "seq_nr=6") || !strings.Contains(text, id) {
			return fmt.Errorf("%s: the log is %q", host, text)
		}
		if _, err := ask(1); err != nil {
			return err
		}
		if err := wait(); err != nil {
			return err
		}
		if err := manifestIs(ctx, s, id, 8, "sum/2"); err != nil {
			return fmt.Errorf("%s: %w", host, err)
		}
	}
	return nil
}

// liftedSnapshot demands that a snapshot of a former shape is used when the codec can lift it.
func liftedSnapshot(ctx context.Context, s annals.Store) error {
	if err := written(ctx, s, "lifted", aggregate.Options{DeleteEvents: true, SingleOwner: true}); err != nil {
		return err
	}
	var evolved int
	lift := codec.Was(codec.JSON[int]("sum"), func(sum int) (int, error) { return sum, nil })
	r, err := aggregate.New(s, sums("sum/2", &evolved, lift), aggregate.Options{})
	if err != nil {
		return err
	}
	if sum, err := r.Ask(ctx, "lifted", 0); sum != 28 || err != nil || evolved != 1 {
		return fmt.Errorf("the sum is %d, with %d events after the snapshot, error %v, want 28 with 1", sum, evolved, err)
	}
	return nil
}

// otherSnapshotWithoutEvents demands an error that says what is missing when the events are deleted that the snapshot covers.
func otherSnapshotWithoutEvents(ctx context.Context, s annals.Store) error {
	if err := written(ctx, s, "deleted", aggregate.Options{DeleteEvents: true, SingleOwner: true}); err != nil {
		return err
	}
	r, err := aggregate.New(s, sums("sum/2", new(int)), aggregate.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	for range 2 {
		sum, err := r.Ask(ctx, "deleted", 0)
		e, unknown := (*annals.Error)(nil), (*codec.UnknownManifestError)(nil)
		if !errors.As(err, &e) || e.Kind != annals.ErrCorrupt || e.ID != annals.NewPersistenceID("Sums", "deleted") || e.Last != 6 ||
			!strings.Contains(err.Error(), "snapshot 6") || !errors.As(err, &unknown) {
			return fmt.Errorf("the sum is %d, error %v, want ErrCorrupt that names entity and snapshot", sum, err)
		}
	}
	return nil
}

// forgetful is s, of which every second answer to a write is lost, so that the write is repeated. Where the store would not
// recognise a repeated write, it is s.
func forgetful(s annals.Store, recognises bool) annals.Store {
	if !recognises {
		return s
	}
	var writes atomic.Int64
	return &faulty.Store{Store: s, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		err := run()
		if c.Op != "append" && c.Op != "put state" || err != nil || c.Result.(*annals.Receipt).Repeated || writes.Add(1)%2 == 1 {
			return err
		}
		return faulty.Lost(c)
	}}
}
