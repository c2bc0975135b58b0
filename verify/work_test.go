package verify

import (
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// The work for an entity with very many findings grows with their number, and not with its square.
func TestWorkOfManyFindings(t *testing.T) {
	t.Parallel()
	const n = 100_000
	lost := errors.New("lost")
	var all []Finding
	for i := range annals.SeqNr(n) {
		d := Finding{Damage: &ability.Damage{Code: ability.Hole, ID: "T|1", From: 2*i + 1, To: 2*i + 1, Err: lost}}
		all = append(all, d, d)
	}
	compared := 0
	count := func(compare func(f, g Finding) int) func(f, g Finding) int {
		return func(f, g Finding) int { compared++; return compare(f, g) }
	}
	all = distinct(all, count(Finding.compare))
	if len(all) != n || compared > 30*n {
		t.Errorf("%d findings are left, after %d comparisons", len(all), compared)
	}
	compared = 0
	if both := agreed(all, all, count(Finding.about)); len(both) != n || compared > 2*n {
		t.Errorf("two looks agree on %d findings, after %d comparisons", len(both), compared)
	}
}

// Two looks agree on what both have found, also where ranges overlap in part or are within others.
func TestAgreed(t *testing.T) {
	t.Parallel()
	found := func(ranges ...annals.SeqNr) (all []Finding) {
		for i := 0; i < len(ranges); i += 2 {
			all = append(all, Finding{Damage: &ability.Damage{Code: ability.Hole, From: ranges[i], To: ranges[i+1], Err: errors.New("lost")}})
		}
		return distinct(all, Finding.compare)
	}
	for _, c := range []struct{ first, second, want []annals.SeqNr }{
		{[]annals.SeqNr{0, 0}, []annals.SeqNr{0, 0}, []annals.SeqNr{0, 0}},
		{[]annals.SeqNr{1, 5}, []annals.SeqNr{6, 9}, nil},
		{[]annals.SeqNr{1, 5, 8, 9}, []annals.SeqNr{2, 3, 5, 8}, []annals.SeqNr{2, 3, 5, 5, 8, 8}},
		{[]annals.SeqNr{1, 9, 2, 3}, []annals.SeqNr{1, 9, 2, 3}, []annals.SeqNr{1, 9, 2, 3}},
	} {
		got, want := agreed(found(c.first...), found(c.second...), Finding.about), found(c.want...)
		same := len(got) == len(want)
		for i := range got {
			same = same && got[i].compare(want[i]) == 0
		}
		if !same {
			t.Errorf("%v and %v: %d findings: %+v", c.first, c.second, len(got), got)
		}
	}
}
