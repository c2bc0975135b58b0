package hosttest

import (
	"context"
	"testing"

	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/memstore"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	Keys(t, s, s)
}

// mutantHost is a host of keyedAccount with another DoOnce.
type mutantHost struct {
	*aggregate.Repository[int, int, int]
	once func(ctx context.Context, r *aggregate.Repository[int, int, int], key, id string, amount int) (behavior.Result[int], error)
}

func (h mutantHost) DoOnce(ctx context.Context, key, id string, amount int) (behavior.Result[int], error) {
	return h.once(ctx, h.Repository, key, id, amount)
}

func TestKeysFindsMutants(t *testing.T) {
	t.Parallel()
	for name, once := range map[string]func(ctx context.Context, r *aggregate.Repository[int, int, int], key, id string, amount int) (behavior.Result[int], error){
		"ignores the keys": func(ctx context.Context, r *aggregate.Repository[int, int, int], _, id string, amount int) (behavior.Result[int], error) {
			return r.Do(ctx, id, amount)
		},
		"replies with what is there now": func(ctx context.Context, r *aggregate.Repository[int, int, int], key, id string, amount int) (behavior.Result[int], error) {
			result, err := r.DoOnce(ctx, key, id, amount)
			if now, _, failed := r.Load(ctx, id); failed == nil {
				result.Reply = now
			}
			return result, err
		},
	} {
		r, err := aggregate.New(memstore.New(), keyedAccount, aggregate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		hosts := []keyedHost{mutantHost{r, once}, mutantHost{r, once}}
		if sendKeys(t.Context(), hosts, false, random.New(t)) == nil {
			t.Errorf("a host that %s is not found", name)
		}
	}
}
