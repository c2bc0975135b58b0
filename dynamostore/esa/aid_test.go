package esa

import (
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"pgregory.net/rapid"
)

func TestAID(t *testing.T) {
	t.Parallel()
	dashed := aids{types: []string{"user-account", "order", "order-item"}}
	for name, tt := range map[string]struct {
		rule aids
		id   annals.PersistenceID
		want string // "" is ErrInvalid
	}{
		"type and value":                             {aids{}, "UserAccount|01H42K", "UserAccount-01H42K"},
		"empty value":                                {aids{}, "UserAccount|", "UserAccount-"},
		"empty type":                                 {aids{}, "|1", "-1"},
		"neither":                                    {aids{}, "|", "-"},
		"value with hyphens":                         {aids{}, "UserAccount|-with-dash-", "UserAccount--with-dash-"},
		"value with bars":                            {aids{}, "a|b|c", "a-b|c"},
		"without a type":                             {aids{}, "1", "|-1"},
		"without a type, with hyphens":               {aids{}, "order-1", "|-order-1"},
		"type with a hyphen that is not listed":      {aids{}, "order-item|1", ""},
		"value that another rule takes for a type":   {aids{}, "order|item-1", "order-item-1"},
		"listed type":                                {dashed, "user-account|1", "user-account-1"},
		"longest listed type":                        {dashed, "order-item|1", "order-item-1"},
		"type and value that make the longer type":   {dashed, "order|item-1", ""},
		"the longer type without the second hyphen":  {dashed, "order|item", "order-item"},
		"listed type as a part of a longer one":      {dashed, "user-account-x|1", ""},
		"value alone":                                {aids{bare: true}, "thread|01H42K", "01H42K"},
		"value alone, of a type that is not listed":  {aids{bare: true}, "order-item|1", ""},
		"value alone, with hyphens":                  {aids{bare: true}, "order|item-1", "item-1"},
		"value alone, of a listed type":              {aids{dashed.types, true}, "order-item|1", "1"},
		"value alone, of a type that fits a longer ": {aids{dashed.types, true}, "order|item-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := tt.rule.split(tt.id)
			have := tt.rule.aid(tt.id)
			if refused := tt.want == ""; have != tt.want || errors.Is(err, annals.ErrInvalid) != refused || refused == (err == nil) {
				t.Errorf("%q: got %q, %v, want %q", tt.id, have, err, tt.want)
			}
		})
	}
}

// No two ids have the same aggregate id, and each aggregate id is read as the id that it was made of.
func TestIDIsTheInverse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[ab|-]{0,5}`)
		r := aids{types: rapid.SliceOf(rapid.StringMatching(`[ab-]{1,4}`)).Draw(t, "types")}
		a, b := annals.PersistenceID(part.Draw(t, "a")), annals.PersistenceID(part.Draw(t, "b"))
		x, y := r.aid(a), r.aid(b)
		if x != "" && a != b && x == y {
			t.Fatalf("%q and %q are both %q", a, b, x)
		}
		if x != "" && r.id(x) != a {
			t.Fatalf("%q is %q, which is read as %q", a, x, r.id(x))
		}
	})
}
