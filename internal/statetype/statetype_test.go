package statetype_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/statetype"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	bind := func(annals.State) (annals.Columns, error) { return nil, nil }
	own := func(column string) bool { return column == "revision" }
	valid := func(what, name string) error {
		if name == "long" {
			return fmt.Errorf("%s %q is too long", what, name)
		}
		return nil
	}
	for fault, c := range map[string]struct {
		name string
		t    annals.StateType[int]
	}{
		"":                                 {"T", annals.StateType[int]{Columns: []string{"Colour"}, Bind: bind}},
		`state type "": a type has a name`: {"", annals.StateType[int]{}},
		"the name of a type has no |":      {"T|1", annals.StateType[int]{}},
		"Columns and Bind go together":     {"T", annals.StateType[int]{Columns: []string{"colour"}}},
		`column "Revision" is the store's`: {"T", annals.StateType[int]{Columns: []string{"Revision"}, Bind: bind}},
		`column "" is the store's own`:     {"T", annals.StateType[int]{Columns: []string{""}, Bind: bind}},
		`table "long" is too long`:         {"T", annals.StateType[int]{Table: "long"}},
		`column "long" is too long`:        {"T", annals.StateType[int]{Columns: []string{"long"}, Bind: bind}},
		`column "Colour" is named twice`:   {"T", annals.StateType[int]{Columns: []string{"colour", "Colour"}, Bind: bind}},
	} {
		err := statetype.Faults(map[string]annals.StateType[int]{c.name: c.t}, own, strings.ToLower, valid)
		if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("got %v, want %q", err, fault)
		}
	}
}

func TestHandle(t *testing.T) {
	t.Parallel()
	mine, rule := errors.New("mine"), errors.New("rule")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		fn     func() error
		kind   error
		causes error
	}{
		"fine":              {t.Context(), func() error { return nil }, nil, nil},
		"its own error":     {t.Context(), func() error { return mine }, nil, mine},
		"a constraint":      {t.Context(), func() error { return rule }, annals.ErrConstraint, rule},
		"an annals error":   {t.Context(), func() error { return &annals.Error{Kind: annals.ErrConstraint, Err: mine} }, annals.ErrConstraint, mine},
		"a panic":           {ended, func() error { panic("of the test") }, annals.ErrPanic, nil},
		"too late":          {ended, func() error { return nil }, annals.ErrUnavailable, context.Canceled},
		"too late and more": {ended, func() error { return mine }, annals.ErrUnavailable, context.Canceled},
	} {
		err := statetype.Handle(c.ctx, c.fn, func(err error) bool { return errors.Is(err, rule) })
		e := (*annals.Error)(nil)
		if errors.As(err, &e) != (c.kind != nil || c.causes != nil) || e != nil && e.Kind != c.kind || c.causes != nil && !errors.Is(err, c.causes) {
			t.Errorf("%s: got %#v", name, err)
		}
	}
}
