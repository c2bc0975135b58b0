package leases

import (
	"cmp"
	"slices"
)

// Part is a part of the work that members share.
type Part struct {
	Owner  string // the member whose share has the part; "" and one that has left are none
	Holder string // the member that works on the part, and has to hand it over before another one does; "" is none
}

// Share returns the owner of each part. The shares of two members differ by one part at most, and no more parts than needed change their
// owner: first those that need not be handed over. able reports whether a member can work on a part; a part gets a member that cannot only
// if all cannot. nil: all can. Who calls Share with the same arguments gets the same owners. Without members a part has none.
func Share(parts []Part, members []string, able func(part int, member string) bool) (owners []string) {
	if able == nil {
		able = func(int, string) bool { return true }
	}
	owners = make([]string, len(parts))
	if len(members) == 0 {
		return owners
	}
	members = slices.Sorted(slices.Values(members))
	shares := map[string]int{}
	give := func(part int, to string) {
		shares[owners[part]]--
		shares[to]++
		owners[part] = to
	}
	for i, p := range parts {
		if slices.Contains(members, p.Owner) && able(i, p.Owner) {
			give(i, p.Owner)
		}
	}
	byShare := func(a, b string) int { return cmp.Compare(shares[a], shares[b]) }
	for i := range parts {
		if owners[i] == "" {
			some := slices.DeleteFunc(slices.Clone(members), func(m string) bool { return !able(i, m) })
			if len(some) == 0 {
				some = members
			}
			give(i, slices.MinFunc(some, byShare))
		}
	}
	for {
		most, fewest := slices.MaxFunc(members, byShare), slices.MinFunc(members, byShare)
		if shares[most] <= shares[fewest]+1 {
			return owners
		}
		moved := -1
		for i, p := range parts {
			if owners[i] == most && able(i, fewest) && (moved < 0 || p.Holder != most && parts[moved].Holder == most) {
				moved = i
			}
		}
		if moved < 0 {
			return owners
		}
		give(moved, fewest)
	}
}
