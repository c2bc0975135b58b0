package operate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
)

// A dry run handles nothing. With --yes the new projection handles all events, then the readers are switched over; what fails in between leaves
// the old one in use, and the next run goes on.
func TestRebuild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		metered(t, s, "a", 3)
		runner := func(name string, sum *int) *projection.Runner {
			source := projection.Source[added]{Store: s, Type: "Meter", Codec: meter.Events}
			r, err := projection.AtLeastOnce(name, source, s, func(_ context.Context, e projection.Envelope[added]) error { *sum += e.Value.N; return nil }, projection.Options{Ranges: 1})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		before, after, used := 0, 0, "before"
		old, next := runner("sums", &before), runner("sums-2", &after)
		if err := old.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		var refuses error
		c := config(s)
		if o := run(t, c, "projection", "rebuild", "sums"); o.status != 4 || !strings.Contains(o.text, "next: annals projection pause sums") || !strings.Contains(o.errors, "no Config.Rebuilds for sums") {
			t.Errorf("%+v", o)
		}
		c.Rebuilds = map[string]func(context.Context, annals.Store) (projection.Rebuild, error){
			"sums": func(context.Context, annals.Store) (projection.Rebuild, error) {
				return projection.Rebuild{Old: old.Control(), Next: next, SwitchOver: func(context.Context) error {
					if refuses == nil {
						used = "after"
					}
					return refuses
				}}, nil
			},
		}
		for _, step := range []struct {
			args   string
			fails  error
			status int
			text   string
			after  int
			used   string
		}{
			{"", nil, 0, "would have sums-2 handle all events, then pause sums and switch over\nnothing was changed\n  next: annals projection rebuild sums --yes\n", 0, "before"},
			{"--yes", errors.New("not now"), 4, "sums is in use as before; run this again, and it goes on\n  next: annals projection rebuild sums --yes\n", 6, "before"},
			{"", nil, 0, "would have sums-2 handle 0 events", 6, "before"},
			{"--yes", nil, 0, "sums-2 has taken its place, after 0s: run that from now on; sums stays paused\n", 6, "after"},
		} {
			refuses = step.fails
			o := run(t, c, append([]string{"projection", "rebuild", "sums"}, strings.Fields(step.args)...)...)
			if o.status != step.status || !strings.Contains(o.text, step.text) || after != step.after || used != step.used {
				t.Errorf("%q: %+v, handled %d, %s is in use", step.args, o, after, used)
			}
		}
		if status, err := old.Control().Status(t.Context(), s); err != nil || !status.Paused || before != 6 {
			t.Errorf("the old one: %+v, %v, handled %d", status, err, before)
		}
	})
}
