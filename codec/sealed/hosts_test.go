package sealed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/sealed"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/entitytest"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
)

// profile is the state of a person: all names so far, and who has changed the last one.
type profile struct {
	Subject string
	Names   []string
	By      string
}

// by is the metadata: who sends a command.
type by struct{ Subject, Name string }

type caller struct{}

// person is a behavior with sealed events, snapshots and metadata. A command is a new name, "" a read.
func person(keys *sealed.Keys) behavior.EventSourced[string, named, profile, profile] {
	return behavior.EventSourced[string, named, profile, profile]{
		Type: "Person",
		Init: func(id string) profile { return profile{Subject: id} },
		Decide: func(s profile, name string) ([]named, error) {
			if name == "" {
				return nil, nil
			}
			return []named{{s.Subject, name}}, nil
		},
		EvolveStored: func(s profile, e named, info behavior.Info) profile {
			s.By, _ = info.Metadata.(string)
			if e.Name == gone {
				return profile{Names: append(s.Names, gone), By: s.By} // without a subject: what comes now is not personal
			}
			s.Names = append(slices.Clone(s.Names), e.Name)
			return s
		},
		Reply:         func(s profile, _ string, _ []named) profile { return s },
		Events:        newCodec(keys),
		States:        profiles(keys),
		Metadata:      metadata{callers(keys)},
		SnapshotEvery: 2,
	}
}

func profiles(keys *sealed.Keys) codec.Codec[profile] {
	return sealed.Payloads(codec.JSON[profile]("profile"), keys, func(p profile) string { return p.Subject },
		func(string) profile { return profile{Names: []string{gone}} })
}

func callers(keys *sealed.Keys) codec.Codec[by] {
	return sealed.Payloads(codec.JSON[by]("by"), keys, func(b by) string { return b.Subject }, func(string) by { return by{"", gone} })
}

// metadata decodes a by as its Name.
type metadata struct{ codec.Codec[by] }

func (m metadata) Encode(any) (annals.Payload, error) {
	return annals.Payload{}, errors.New("not used")
}
func (m metadata) Decode(p annals.Payload) (any, error) {
	b, err := m.Codec.Decode(p)
	return b.Name, err
}

func from(ctx context.Context, c by) context.Context { return context.WithValue(ctx, caller{}, c) }

func options(keys *sealed.Keys) entity.Options {
	return entity.Options{Metadata: func(ctx context.Context) (annals.Payload, error) {
		if c, ok := ctx.Value(caller{}).(by); ok {
			return callers(keys).Encode(c)
		}
		return annals.Payload{}, nil
	}}
}

// settings are the durable state of a person.
func settings(keys *sealed.Keys) behavior.DurableState[string, profile, profile] {
	return behavior.DurableState[string, profile, profile]{
		Type: "Settings",
		Init: func(id string) profile { return profile{Subject: id} },
		Decide: func(s profile, name string) (behavior.Effect[profile], error) {
			if name == "" {
				return behavior.Effect[profile]{}, nil
			}
			s.Names = []string{name}
			return behavior.Save(s), nil
		},
		Reply:    func(s profile, _ string) profile { return s },
		States:   profiles(keys),
		Metadata: metadata{callers(keys)},
		Stored: func(s profile, info behavior.Info) profile {
			s.By, _ = info.Metadata.(string)
			return s
		},
	}
}

// hosts opens both behaviors on store. stop waits for their snapshots.
func hosts(t testing.TB, store annals.Store, keys *sealed.Keys) (ask, askState func(ctx context.Context, name string) (profile, error), stop func()) {
	t.Helper()
	people, err := entity.New(store, person(keys), options(keys))
	if err != nil {
		t.Fatal(err)
	}
	states, err := entity.NewState(store, settings(keys), options(keys))
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := errors.Join(people.Shutdown(context.Background()), states.Shutdown(context.Background())); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return func(ctx context.Context, name string) (profile, error) { return people.Ask(ctx, "7", name) },
		func(ctx context.Context, name string) (profile, error) { return states.Ask(ctx, "7", name) }, stop
}

func wantProfile(t testing.TB, name, by string) func(profile, error) {
	return func(p profile, err error) {
		t.Helper()
		if got := strings.Join(p.Names, " "); err != nil || got != name || p.By != by {
			t.Errorf("got %q by %q, %v, want %q by %q", got, p.By, err, name, by)
		}
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	store, m := memstore.New(), newMaster(t)
	keys := newKeys(t, store, m)
	ask, askState, stop := hosts(t, store, keys)
	ctx := from(t.Context(), by{"9", "Clerk"})
	for _, name := range []string{"Ada", "Grace", "Joan"} {
		if _, err := ask(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	wantProfile(t, "Joan", "Clerk")(askState(ctx, "Joan"))
	stop()

	ask, askState, _ = hosts(t, store, newKeys(t, store, m))
	wantProfile(t, "Ada Grace Joan", "Clerk")(ask(ctx, ""))
	wantProfile(t, "Joan", "Clerk")(askState(ctx, ""))

	if err := keys.Destroy(t.Context(), "9"); err != nil { // the clerk
		t.Fatal(err)
	}
	fresh := newKeys(t, store, m)
	ask, askState, _ = hosts(t, store, fresh)
	wantProfile(t, "Ada Grace Joan", gone)(ask(ctx, ""))
	wantProfile(t, "Joan", gone)(askState(ctx, ""))
	if _, err := ask(ctx, "Mary"); !errors.Is(err, sealed.ErrForgotten) || !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("metadata of the clerk: %v, want ErrForgotten", err)
	}

	if err := keys.Destroy(t.Context(), "7"); err != nil {
		t.Fatal(err)
	}
	ask, askState, _ = hosts(t, store, newKeys(t, store, m))
	wantProfile(t, gone+" "+gone, gone)(ask(t.Context(), "")) // the snapshot, and the event after it
	wantProfile(t, gone, gone)(askState(t.Context(), ""))
	wantProfile(t, gone+" "+gone+" reopened", "")(ask(t.Context(), "reopened")) // goes on without a subject
	wantProfile(t, "reopened", "")(askState(t.Context(), "reopened"))
	n := 0
	c := newCodec(newKeys(t, store, m))
	for e, err := range store.Journal().Replay(t.Context(), "Person|7", 1, annals.MaxSeqNr) {
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.Decode(e.Payload)
		if n++; err != nil || n <= 3 && v != (named{"7", gone}) || n > 3 && v != (named{"", "reopened"}) {
			t.Errorf("event %d: %v, %v", n, v, err)
		}
	}
	if n != 4 {
		t.Errorf("%d events", n)
	}
}

// While keys cannot be read, hosts say ErrUnavailable and go on afterwards. A snapshot is not passed over: the events before it are deleted.
func TestHostsWithoutKeys(t *testing.T) {
	t.Parallel()
	store, m := memstore.New(), newMaster(t)
	down := false
	keyStore := &faulty.Store{Store: store, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		if down && c.ID.Type() == "SubjectKey" {
			return faulty.Failed(c)
		}
		return run()
	}}
	ask, askState, stop := hosts(t, store, newKeys(t, store, m))
	for _, name := range []string{"Ada", "Grace"} {
		if _, err := ask(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	wantProfile(t, "Joan", "")(askState(t.Context(), "Joan"))
	stop()
	if s, ok, err := store.Snapshots().Latest(t.Context(), "Person|7", annals.SnapshotCriteria{}); !ok || err != nil || s.SerializerID != sealed.Serializer {
		t.Fatalf("the snapshot: %v, %v, serializer %d", ok, err, s.SerializerID)
	}
	if err := store.Journal().DeleteTo(t.Context(), "Person|7", 2); err != nil {
		t.Fatal(err)
	}

	keys := newKeys(t, keyStore, m)
	ask, askState, _ = hosts(t, store, keys)
	down = true
	unavailable := func(what string) func(profile, error) {
		return func(_ profile, err error) {
			t.Helper()
			if e := (*annals.Error)(nil); !errors.As(err, &e) || e.Kind != annals.ErrUnavailable || errors.Is(err, annals.ErrCorrupt) || errors.Is(err, annals.ErrInvalid) {
				t.Errorf("%s: %v, want ErrUnavailable", what, err)
			}
		}
	}
	unavailable("load from a snapshot")(ask(t.Context(), ""))
	unavailable("load a state")(askState(t.Context(), ""))
	down = false
	wantProfile(t, "Ada Grace", "")(ask(t.Context(), ""))
	wantProfile(t, "Joan", "")(askState(t.Context(), ""))
	down = true
	ctx := from(t.Context(), by{"9", "Clerk"})
	unavailable("metadata of events")(ask(ctx, "Mary"))
	unavailable("metadata of a state")(askState(ctx, "Mary"))
	down = false
	wantProfile(t, "Ada Grace Mary", "Clerk")(ask(ctx, "Mary"))
	wantProfile(t, "Mary", "Clerk")(askState(ctx, "Mary"))

	if err := store.Snapshots().Delete(t.Context(), "Person|7", annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr}); err != nil {
		t.Fatal(err)
	}
	ask, askState, _ = hosts(t, store, newKeys(t, keyStore, m))
	down = true
	unavailable("load an event")(ask(t.Context(), ""))
	unavailable("load a state with metadata")(askState(t.Context(), ""))
}

// A command for a person whose key cannot be created now.
func TestFirstKeyUnavailable(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	keyStore := &faulty.Store{Store: store, Around: func(_ context.Context, c *faulty.Call, _ func() error) error { return faulty.Failed(c) }}
	ask, askState, _ := hosts(t, store, newKeys(t, keyStore, newMaster(t)))
	for _, ask := range []func(context.Context, string) (profile, error){ask, askState} {
		if _, err := ask(t.Context(), "Ada"); !errors.Is(err, annals.ErrUnavailable) || errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
	}
}

// A projection waits while keys cannot be read: OnError is not asked, whatever it would say. Afterwards it handles each event, the forgotten ones too.
func TestProjectionWaitsForKeys(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"least", "once", "grouped"} {
		for _, verdict := range []projection.Verdict{projection.Park, projection.Stop, projection.Skip} {
			t.Run(fmt.Sprint(kind, " ", verdict), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { waitsForKeys(t, kind, verdict) })
			})
		}
	}
}

func waitsForKeys(t *testing.T, kind string, verdict projection.Verdict) {
	store, m := memstore.New(), newMaster(t)
	keys := newKeys(t, store, m)
	c := newCodec(keys)
	for i, subject := range []string{"", "7", "8", ""} {
		p := encode(t, c, named{subject, fmt.Sprint("name ", i)})
		id := annals.PersistenceID(fmt.Sprint("Person|", i))
		if _, err := store.Journal().Append(t.Context(), annals.Commit{ID: id, Events: []annals.NewEvent{{Payload: p}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := keys.Destroy(t.Context(), "8"); err != nil {
		t.Fatal(err)
	}
	up := time.Now().Add(time.Minute)
	keyStore := &faulty.Store{Store: store, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		if time.Now().Before(up) {
			return faulty.Failed(c)
		}
		return run()
	}}
	var handled []string
	source := projection.Source[named]{Store: store, Type: "Person", Codec: newCodec(newKeys(t, keyStore, m))}
	o := projection.Options{OnError: func(_ context.Context, f projection.Failure) projection.Verdict {
		t.Errorf("event of %s failed: %v", f.Event.ID, f.Err)
		return verdict
	}}
	handle := func(e projection.Envelope[named]) {
		handled = append(handled, e.Value.Name)
	}
	var r *projection.Runner
	var err error
	switch kind {
	case "least":
		r, err = projection.AtLeastOnce("names", source, store, func(_ context.Context, e projection.Envelope[named]) error { handle(e); return nil }, o)
	case "once":
		r, err = projection.ExactlyOnce("names", source, store, func(_ context.Context, _ memstore.Tx, e projection.Envelope[named]) error { handle(e); return nil }, o)
	default:
		r, err = projection.AtLeastOnceGrouped("names", source, store, func(_ context.Context, es []projection.Envelope[named]) error {
			for _, e := range es {
				handle(e)
			}
			return nil
		}, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := r.CatchUp(ctx); err != nil {
		t.Error(err)
	}
	slices.Sort(handled)
	if want := []string{gone, "name 0", "name 1", "name 3"}; !slices.Equal(handled, want) || time.Now().Before(up) {
		t.Errorf("handled %q, want %q", handled, want)
	}
}

// entitytest passes values through the codec, and compares what two encodings have in them.
func TestEntitytest(t *testing.T) {
	t.Parallel()
	keys := newKeys(t, memstore.New(), newMaster(t))
	b := person(keys)
	b.Metadata = nil
	entitytest.New(t, b, "7").Given(named{"7", "Ada"}).When("Grace").Then(named{"7", "Grace"}).
		Reply(profile{Subject: "7", Names: []string{"Ada", "Grace"}})
	s := settings(keys)
	s.Metadata = nil
	entitytest.NewState(t, s, "7").Given(behavior.Save(profile{Subject: "7"})).When("Grace").
		Then(behavior.Save(profile{Subject: "7", Names: []string{"Grace"}}))
}
