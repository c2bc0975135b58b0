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
	own, foreign, none := plan.Item{"w": plan.S("own")}, plan.Item{"w": plan.S("foreign")}, plan.Item{}
	ours := func(old plan.Item) bool { w, _ := plan.Text(old, "w"); return w == "own" }
	accept := func([]plan.Item, bool) error { return nil }
	unknown := func(_ []plan.Item, open bool) error {
		if open {
			return &annals.Error{Kind: annals.ErrUnknown}
		}
		return &annals.Error{Kind: annals.ErrConflict}
	}
	changed := func([]plan.Item, bool) error { return &annals.Error{Kind: annals.ErrConflict, Err: cause} }
	type ops = []plan.Op
	guard := plan.Write{Ops: ops{{}}, Refused: changed, Guards: true}
	tells, silent := plan.Op{Ours: ours}, plan.Op{}
	type items = []plan.Item
	for name, c := range map[string]struct {
		writes   []plan.Write
		failed   items
		own      bool
		open     bool
		repeated bool
		accepts  bool
		kind     error
	}{
		"the item that tells is ours":             {writes: []plan.Write{{Ops: ops{silent, tells}}}, failed: items{foreign, own}, repeated: true},
		"others have been deleted since":          {writes: []plan.Write{{Ops: ops{tells, tells}}}, failed: items{nil, own}, repeated: true},
		"the item that tells held":                {writes: []plan.Write{{Ops: ops{silent, tells}}}, failed: items{own, nil}, kind: annals.ErrConflict},
		"no item tells":                           {writes: []plan.Write{{Ops: ops{silent, silent}}}, failed: items{own, own}, kind: annals.ErrConflict},
		"no item existed":                         {writes: []plan.Write{{Ops: ops{tells, tells}}}, failed: items{none, none}, kind: annals.ErrConflict},
		"Refused accepts":                         {writes: []plan.Write{{Ops: ops{tells}, Refused: accept}}, failed: items{foreign}, accepts: true},
		"Refused accepts a lack of items":         {writes: []plan.Write{{Ops: ops{tells}, Refused: accept}}, failed: items{none}, accepts: true},
		"Refused refuses":                         {writes: []plan.Write{{Ops: ops{tells}, Refused: unknown}}, failed: items{foreign}, kind: annals.ErrConflict},
		"Refused refuses after a lost answer":     {writes: []plan.Write{{Ops: ops{tells}, Refused: unknown}}, failed: items{foreign}, open: true, kind: annals.ErrUnknown},
		"Refused is not asked about our own item": {writes: []plan.Write{{Ops: ops{tells}, Refused: unknown}}, failed: items{own}, repeated: true},
		"both writes are ours":                    {writes: []plan.Write{{Ops: ops{tells}}, {Ops: ops{silent, tells}}}, failed: items{own, nil, own}, repeated: true},
		"the other write cannot tell":             {writes: []plan.Write{{Ops: ops{tells}}, {Ops: ops{silent}}}, failed: items{own, nil}, repeated: true},
		"the other write was refused":             {writes: []plan.Write{{Ops: ops{tells}}, {Ops: ops{silent}}}, failed: items{own, foreign}, kind: annals.ErrConflict},
		"the other write held":                    {writes: []plan.Write{{Ops: ops{tells}}, {Ops: ops{tells}}}, failed: items{own, nil}, kind: annals.ErrConflict},
		"what one write expects fails the other":  {writes: []plan.Write{{Ops: ops{silent}, Refused: accept}, {Ops: ops{silent}}}, failed: items{foreign, nil}, kind: annals.ErrConflict},
		"what a write expects beside the own":     {writes: []plan.Write{{Ops: ops{silent}, Refused: accept}}, failed: items{foreign}, own: true, kind: annals.ErrConflict},
		"a guard":                                 {writes: []plan.Write{guard}, failed: items{none}, kind: annals.ErrConflict},
		"a guard beside a write":                  {writes: []plan.Write{{Ops: ops{tells}}, guard}, failed: items{nil, foreign}, kind: annals.ErrConflict},
		"a guard beside a write that is ours":     {writes: []plan.Write{{Ops: ops{tells}}, guard}, failed: items{own, foreign}, repeated: true},
		"a guard beside a part that is ours":      {writes: []plan.Write{{Ops: ops{tells}}, {Ops: ops{tells}}, guard}, failed: items{own, nil, foreign}, kind: annals.ErrConflict},
		"a guard beside what a write expects":     {writes: []plan.Write{{Ops: ops{silent}, Refused: accept}, guard}, failed: items{foreign, foreign}, kind: annals.ErrConflict},
		"a guard held, a write expects it":        {writes: []plan.Write{{Ops: ops{silent}, Refused: accept}, guard}, failed: items{foreign, nil}, accepts: true},
		"a guard and the caller's own":            {writes: []plan.Write{guard}, failed: items{foreign}, own: true, kind: annals.ErrConflict},
		"a guard held, and the caller's own":      {writes: []plan.Write{guard}, failed: items{nil}, own: true, kind: annals.ErrConstraint},
		"an item of the caller's own":             {writes: []plan.Write{{Ops: ops{tells}}}, failed: items{nil}, own: true, kind: annals.ErrConstraint},
	} {
		outcomes, err := plan.Judge(c.writes, c.failed, c.own, c.open, cause)
		var out plan.Outcome
		if err == nil {
			out = outcomes[0]
		}
		if out.Repeated != c.repeated || out.Refused != c.accepts || !errors.Is(err, c.kind) || (err == nil) != (c.kind == nil) {
			t.Errorf("%s: repeated %v, refused %v, %v", name, out.Repeated, out.Refused, err)
		}
		if c.writes[0].Refused == nil && c.kind != nil && !errors.Is(err, cause) {
			t.Errorf("%s: the error %v does not have the service's error", name, err)
		}
	}
}

// The token of some parts is that of no others, and has the length that the service takes.
func TestTokenOf(t *testing.T) {
	token := plan.TokenOf("table", "a", "bc")
	if len(token) != 36 || token != plan.TokenOf("table", "a", "bc") || token == plan.TokenOf("table", "ab", "c") || token == plan.TokenOf("table", "a", "bc", "") {
		t.Errorf("token %q", token)
	}
}
