package projection

import "github.com/annals-go/annals/internal/leases"

// watch finds runners that are dead.
type watch = leases.Watch[int64]

// signs are the signs of life of the runners in r.
func (r record) signs() map[string]leases.Sign[int64] {
	all := make(map[string]leases.Sign[int64], len(r.Runners))
	for id, x := range r.Runners {
		all[id] = leases.Sign[int64]{Beat: x.Beat, Lease: x.lease()}
	}
	return all
}
