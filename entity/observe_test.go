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

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
)

// recorder is an Observer that writes down what it is told.
type recorder struct {
	mu    sync.Mutex
	calls []string
}

type span struct{}

func (r *recorder) Start(ctx context.Context, c annals.Call) context.Context {
	return context.WithValue(ctx, span{}, c.Op)
}

func (r *recorder) End(ctx context.Context, c annals.Call, res annals.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf("%s %s %s %d %v %t", c.Store, c.Op, c.ID, res.Events, res.Duration, res.Err != nil))
}

func TestObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		s.write = func(ctx context.Context, _ written, next func() (annals.Receipt, error)) (annals.Receipt, error) {
			if ctx.Value(span{}) != "append" {
				t.Error("the Observer's context does not reach the store")
			}
			time.Sleep(time.Millisecond)
			return next()
		}
		s.save = func(context.Context, annals.Snapshot, func() error) error { return errors.New("disk full") }
		r := &recorder{}
		rt, _ := entity.New(s, journaled(1), entity.Options{Observer: r, Logger: quiet})
		mustAsk(t, rt, 5, 5)
		synctest.Wait()
		if _, err := rt.Fresh(t.Context(), "a", 0); err != nil {
			t.Error(err)
		}
		want := []string{
			"entity recover Account|a 0 0s false", "entity append Account|a 1 1ms false",
			"entity save snapshot Account|a 0 0s true", "entity check Account|a 0 0s false",
		}
		if !slices.Equal(r.calls, want) {
			t.Errorf("told %q, want %q", r.calls, want)
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
		rt, _ := entity.New(s, account, entity.Options{Metadata: func(ctx context.Context) annals.Payload {
			p, _ := users.Encode(ctx.Value(user{}).(string))
			return p
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
