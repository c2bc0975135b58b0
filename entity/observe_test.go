package entity_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/contexts"
)

// recorder is an Observer that writes down what it is told.
type recorder struct {
	mu    sync.Mutex
	calls []string
	asked []string // "ask", which ends when its caller has the answer
}

type span struct{}

func (r *recorder) Start(ctx context.Context, c annals.Call) context.Context {
	return context.WithValue(ctx, span{}, c.Op)
}

func (r *recorder) End(ctx context.Context, c annals.Call, res annals.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	callers := []context.Context{ctx}
	if all := annals.Callers(ctx); all != nil {
		callers = all
	}
	var names []any
	for _, c := range callers {
		names = append(names, c.Value(caller{}))
	}
	to := &r.calls
	if c.Op == "ask" {
		to = &r.asked
	}
	*to = append(*to, fmt.Sprint(c.Store, " ", c.Op, " ", c.ID, " for ", names, ": ", c.Events, " ", res.Events, " events ", res.Bytes, " bytes ",
		res.Retries, " retries ", res.Duration > 0, " ", res.Err != nil, " within ", ctx.Value(span{})))
}

// caller is the key of a caller's name.
type caller struct{}

func as(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, caller{}, name)
}

// told demands the calls since the last told.
func (r *recorder) told(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(want, r.calls); diff != "" {
		t.Error(diff)
	}
	r.calls = nil
}

// The Observer is told once of each operation, with counts and the contexts of all callers; the store gets the same context.
func TestObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		r := &recorder{}
		rt, _ := entity.New(s, journaled(3), entity.Options{Observer: r, Logger: quiet})
		fail := true
		s.write = func(ctx context.Context, _ written, next func() error) error {
			if ctx.Value(span{}) != "write" {
				t.Error("the Observer's context does not reach the store")
			}
			time.Sleep(time.Millisecond)
			if fail = !fail; !fail {
				_ = next()
				return &annals.Error{Op: "test", Kind: annals.ErrUnknown}
			}
			return next()
		}
		if _, err := rt.Ask(as(t.Context(), "ann"), "a", 5); err != nil {
			t.Error(err)
		}
		r.told(t, "entity load Account|a for [ann]: 0 0 events 0 bytes 0 retries false false within load",
			"entity write Account|a for [ann]: 1 1 events 1 bytes 1 retries true false within write")

		g := gated(s)
		first := ask(as(t.Context(), "ann"), rt, 10)
		synctest.Wait()
		second := ask(as(t.Context(), "bob"), rt, 10)
		synctest.Wait()
		third := ask(as(t.Context(), "cid"), rt, 0)
		synctest.Wait()
		s.save = func(ctx context.Context, _ annals.Snapshot, _ func() error) error {
			if len(annals.Callers(ctx)) != 2 || ctx.Err() != nil {
				t.Errorf("a snapshot for %d callers, %v", len(annals.Callers(ctx)), ctx.Err())
			}
			return errors.New("disk full")
		}
		g.pass()
		g.pass()
		answered(t, first, 15, nil)
		answered(t, second, 25, nil)
		answered(t, third, 25, nil)
		r.told(t, "entity write Account|a for [ann]: 1 1 events 2 bytes 0 retries false false within write",
			"entity write Account|a for [bob cid]: 1 1 events 2 bytes 0 retries false false within write",
			"entity snapshot Account|a for [bob cid]: 0 0 events 0 bytes 0 retries false true within snapshot")

		s.heal()
		if _, err := rt.Ask(as(t.Context(), "dan"), "a", 0); err != nil {
			t.Error(err)
		}
		rt, _ = entity.New(s, journaled(3), entity.Options{Observer: r})
		if _, err := rt.Ask(as(t.Context(), "eve"), "a", 0); err != nil {
			t.Error(err)
		}
		r.told(t, "entity confirm Account|a for [dan]: 0 0 events 0 bytes 0 retries false false within confirm",
			"entity load Account|a for [eve]: 0 3 events 5 bytes 0 retries false false within load")
		slices.Sort(r.asked)
		want := []string{}
		for _, name := range []string{"ann", "ann", "bob", "cid", "dan", "eve"} {
			want = append(want, fmt.Sprintf("entity ask Account|a for [%s]: 0 0 events 0 bytes 0 retries %t false within ask", name, len(want) == 1))
		}
		if diff := cmp.Diff(want, r.asked); diff != "" {
			t.Error(diff)
		}
	})
}

// A caller's context gives a write its values, but does not end it.
func TestCallersDoNotEndAWrite(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		ctx, cancel := context.WithTimeout(as(t.Context(), "ann"), time.Second)
		defer cancel()
		s.write = func(ctx context.Context, _ written, next func() error) error {
			time.Sleep(2 * time.Second)
			end, ok := ctx.Deadline()
			within, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			if ctx.Err() != nil || within.Err() != nil || within.Value(caller{}) != "ann" || !ok || time.Until(end) > 10*time.Second {
				t.Errorf("the write's context: %v, %v, value %v, ends %v", ctx.Err(), within.Err(), within.Value(caller{}), end)
			}
			return next()
		}
		rt := start(s, entity.Options{})
		if _, err := rt.Ask(ctx, "a", 5); !errors.Is(err, annals.ErrUnknown) {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		s.heal()
		mustAsk(t, rt, 0, 5)
	})
}

// A command that is sent with the context of a call for several callers is that of one caller.
func TestOneCallerWithinACallForSeveral(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		s.write = func(ctx context.Context, _ written, next func() error) error {
			if all := annals.Callers(ctx); all != nil || ctx.Value(caller{}) != "ann" {
				t.Errorf("%d callers, value %v", len(all), ctx.Value(caller{}))
			}
			return next()
		}
		ctx := as(t.Context(), "ann")
		if _, err := start(s, entity.Options{}).Ask(contexts.WithCallers(ctx, []context.Context{ctx, ctx}), "a", 5); err != nil {
			t.Error(err)
		}
	})
}

// Every event of a command carries what its caller's context says.
func TestMetadataIsTheCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type user struct{}
		users := codec.JSON[string]("user")
		s := newHooked()
		g := gated(s)
		rt, _ := entity.New(s, account, entity.Options{Metadata: func(ctx context.Context) (annals.Payload, error) {
			return users.Encode(ctx.Value(user{}).(string))
		}})
		names := []string{"ann", "bob", "cid"}
		for _, name := range names {
			ask(context.WithValue(t.Context(), user{}, name), rt, 1)
			synctest.Wait()
		}
		close(g.open)
		synctest.Wait()
		for e, err := range s.Journal().Replay(t.Context(), "Account|a", 1, annals.MaxSeqNr) {
			if name, decodeErr := users.Decode(e.Metadata); err != nil || decodeErr != nil || name != names[e.SeqNr-1] {
				t.Errorf("event %d has %q, %v, %v", e.SeqNr, name, err, decodeErr)
			}
		}
	})
}
