package plan_test

import (
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	cause := errors.New("the condition failed")
	own := plan.Item{"w": plan.S("own")}
	foreign := plan.Item{"w": plan.S("foreign")}
	ours := func(old plan.Item) bool { w, _ := plan.Text(old, "w"); return w == "own" }
	accept := func([]plan.Item, bool) error { return nil }
	unknown := func(_ []plan.Item, open bool) error {
		if open {
			return &annals.Error{Kind: annals.ErrUnknown}
		}
		return &annals.Error{Kind: annals.ErrConflict}
	}
	for name, c := range map[string]struct {
		old               []plan.Item
		refused           func([]plan.Item, bool) error
		open              bool
		repeated, accepts bool
		kind              error
	}{
		"all items are ours":                        {old: []plan.Item{own, own}, repeated: true},
		"one item is ours, the other did not exist": {old: []plan.Item{nil, own}, repeated: true},
		"the first item is ours, the second is not": {old: []plan.Item{own, foreign}, kind: annals.ErrConflict},
		"the second item is ours, the first is not": {old: []plan.Item{foreign, own}, kind: annals.ErrConflict},
		"no item existed":                           {old: []plan.Item{nil, nil}, kind: annals.ErrConflict},
		"Refused accepts":                           {old: []plan.Item{foreign, nil}, refused: accept, accepts: true},
		"Refused refuses":                           {old: []plan.Item{foreign, nil}, refused: unknown, kind: annals.ErrConflict},
		"Refused refuses after a lost answer":       {old: []plan.Item{foreign, nil}, refused: unknown, open: true, kind: annals.ErrUnknown},
		"Refused is not asked about our own items":  {old: []plan.Item{own, nil}, refused: unknown, repeated: true},
	} {
		w := plan.Write{Ops: []plan.Op{{Ours: ours}, {Ours: ours}}, Refused: c.refused}
		out, err := w.Judge(c.old, c.open, cause)
		if out.Repeated != c.repeated || out.Refused != c.accepts || !errors.Is(err, c.kind) {
			t.Errorf("%s: repeated %v, refused %v, %v", name, out.Repeated, out.Refused, err)
		}
		if c.refused == nil && c.kind != nil && !errors.Is(err, cause) {
			t.Errorf("%s: the error %v does not have the service's error", name, err)
		}
	}
	if _, err := (plan.Write{Ops: []plan.Op{{}}}).Judge([]plan.Item{own}, false, cause); !errors.Is(err, annals.ErrConflict) {
		t.Errorf("a write that never recognises itself: %v", err)
	}
}

// The token of some parts is that of no others, and has the length that the service takes.
func TestTokenOf(t *testing.T) {
	token := plan.TokenOf("table", "a", "bc")
	if len(token) != 36 || token != plan.TokenOf("table", "a", "bc") || token == plan.TokenOf("table", "ab", "c") || token == plan.TokenOf("table", "a", "bc", "") {
		t.Errorf("token %q", token)
	}
}
