package projection

import (
	"context"

	"github.com/annals-go/annals"
)

// Holders returns how many runners take part in projection, and how many of its ranges each of them holds.
func Holders(ctx context.Context, s annals.Store, projection string) (runners int, held map[string]int, err error) {
	r, _, err := recordOf(projection).Load(ctx, s)
	held = map[string]int{}
	for _, l := range r.Ranges {
		if l.Runner != "" {
			held[l.Runner]++
		}
	}
	return len(r.Runners), held, err
}

// ParkedSlices is the list of the slices of projection that may have parked entities.
func ParkedSlices(ctx context.Context, s annals.Store, projection string) ([]int, error) {
	list, _, err := parkedSlicesOf(projection).Load(ctx, s)
	return list, err
}

// With returns c with the store of the position s.
func (c *Control) With(s annals.Store) *Control { return &Control{s, c.name, c.runner} }

// Store is that of the position.
func (c *Control) Store() annals.Store { return c.store }
