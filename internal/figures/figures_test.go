package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// values is a figure that measures these one after the other.
func values(name string, goal Goal, vs ...float64) Figure {
	i := 0
	return Figure{Name: name, About: "given values", Goal: goal, Run: func(context.Context) (float64, error) {
		v := vs[i%len(vs)]
		i++
		return v, nil
	}}
}

// only is one part with these figures.
func only(figures ...Figure) []part {
	return []part{{"some", []func() []Figure{func() []Figure { return figures }}}}
}

func broken(name string) Figure {
	return Figure{Name: name, About: "no server", Goal: AtMost(1), Run: func(context.Context) (float64, error) {
		return 0, errors.New("no server")
	}}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{100, 1, 1, 1, 100}, 1},
	} {
		given := slices.Clone(c.values)
		if got := median(given); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
		if !slices.Equal(given, c.values) {
			t.Errorf("median reordered %v to %v", c.values, given)
		}
	}
}

// A turn under load changes nothing, nor does the turn that warms up.
func TestRatio(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := [2]int{}
		side := func(i int, took time.Duration) func() error {
			return func() error {
				if begun[i]++; i == 0 && begun[i] <= 2 {
					time.Sleep(time.Minute)
				}
				time.Sleep(took)
				return nil
			}
		}
		got, err := ratio(5, clock, side(0, 3*time.Second), side(1, 2*time.Second))
		if got != 1.5 || err != nil || begun != [2]int{6, 6} {
			t.Errorf("got %v, %v after %v runs, want 1.5 after 6 of each", got, err, begun)
		}
		broken := errors.New("broken")
		if _, err := ratio(5, clock, side(0, time.Second), func() error { return broken }); !errors.Is(err, broken) {
			t.Errorf("got %v, want the error of a side", err)
		}
	})
}

func TestGoal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		goal  Goal
		value float64
		want  bool
	}{
		{AtLeast(8), 8, true}, {AtLeast(8), 7.999, false}, {AtLeast(8), 9, true},
		{AtMost(10), 10, true}, {AtMost(10), 10.001, false}, {AtMost(10), 0, true},
	} {
		if got := c.goal.Reached(c.value); got != c.want {
			t.Errorf("%v reaches %v: %v", c.value, c.goal, got)
		}
	}
	if got := AtLeast(0.9).String() + AtMost(10).String() + AtLeast(67000).String(); got != ">=0.9<=10>=67000" {
		t.Errorf("goals read %q", got)
	}
}

func TestValueText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		goal  Goal
		value float64
		want  string
	}{
		{AtLeast(8), 9.5678, "9.57"},
		{AtLeast(50), 67.123, "67.1"},
		{AtLeast(50), 67123.9, "67124"},
		{AtLeast(0.7), 0.93456, "0.935"},
		{AtMost(10), 0, "0"},
		{AtMost(10), 9, "9.00"},
		{AtMost(0.001), 0.00012345, "0.000123"},
		{AtLeast(8), 7.9999, "7.9999"}, // 8.00 would look like enough
		{AtMost(10), 10.004, "10.004"}, // 10.0 too
		{AtMost(-1), -1.2345, "-1.23"}, // whatever a figure counts
		{AtLeast(100), 99.96, "99.96"}, // 100.0 too
		{AtLeast(1), 123456789, "123456789"},
	} {
		if got := c.goal.text(c.value); got != c.want {
			t.Errorf("%v with goal %v reads %s, want %s", c.value, c.goal, got, c.want)
		}
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	fast := values("sqlite-append-1", AtLeast(0.9), 1.5, 0.5, 1.0)
	slow := values("sqlite-replay", AtLeast(0.7), 0.6)
	for name, c := range map[string]struct {
		figures []Figure
		args    []string
		out     string
		status  int
	}{
		"median of the runs": {[]Figure{fast}, []string{"-count", "3"}, "figure sqlite-append-1 1.00 >=0.9 ok\n", 0},
		"short":              {[]Figure{slow, values("x", AtMost(1), 1)}, []string{"-count", "1"}, "figure sqlite-replay 0.600 >=0.7 short\nfigure x 1.00 <=1 ok\n", 1},
		"only some":          {[]Figure{slow, values("x", AtMost(1), 1)}, []string{"-only", "^x$"}, "figure x 1.00 <=1 ok\n", 0},
		"an error is no ok":  {[]Figure{broken("pg"), values("x", AtMost(1), 1)}, nil, "figure pg - <=1 error\nfigure x 1.00 <=1 ok\n", 1},
		"no number is an error": {[]Figure{values("x", AtMost(1), math.NaN()), values("y", AtLeast(1), math.Inf(1))}, nil,
			"figure x - <=1 error\nfigure y - >=1 error\n", 1},
		"none matches":        {[]Figure{slow}, []string{"-only", "pg"}, "", 2},
		"no figures":          {nil, nil, "", 2},
		"bad expression":      {[]Figure{slow}, []string{"-only", "("}, "", 2},
		"bad count":           {[]Figure{slow}, []string{"-count", "0"}, "", 2},
		"unknown flag":        {[]Figure{slow}, []string{"-fast"}, "", 2},
		"argument":            {[]Figure{slow}, []string{"sqlite"}, "", 2},
		"a name twice":        {[]Figure{slow, slow}, nil, "", 2},
		"a name of two words": {[]Figure{values("a b", AtMost(1), 1)}, nil, "", 2},
		"without a goal":      {[]Figure{values("a", Goal{}, 1)}, nil, "", 2},
		"without measurement": {[]Figure{{Name: "a", Goal: AtMost(1)}}, nil, "", 2},
	} {
		var out, log bytes.Buffer
		status := run(t.Context(), only(c.figures...), c.args, &out, &log)
		if out.String() != c.out || status != c.status {
			t.Errorf("%s: status %d, want %d; output %q, want %q; log %q", name, status, c.status, out.String(), c.out, log.String())
		}
		if status != 0 && log.Len() == 0 {
			t.Errorf("%s: failed without a word", name)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	figures := []Figure{values("a", AtLeast(2), 3, 1, 5), broken("b")}
	if status := run(t.Context(), only(figures...), []string{"-json", "-count=3"}, &out, io.Discard); status != 1 {
		t.Errorf("status %d", status)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("output %q", out.String())
	}
	var a, b result
	if err := errors.Join(json.Unmarshal([]byte(lines[0]), &a), json.Unmarshal([]byte(lines[1]), &b)); err != nil {
		t.Fatal(err)
	}
	if a.Name != "a" || a.Value != 3 || !slices.Equal(a.Runs, []float64{3, 1, 5}) || a.Goal != ">=2" || a.State != "ok" || a.Error != "" {
		t.Errorf("first %+v", a)
	}
	if b.Name != "b" || b.State != "error" || b.Error != "no server" || len(b.Runs) != 0 {
		t.Errorf("second %+v", b)
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := Figure{Name: "a", About: "is interrupted", Goal: AtLeast(1), Run: func(context.Context) (float64, error) {
		cancel()
		return 2, nil // what it measured by then is worth nothing
	}}
	var out bytes.Buffer
	status := run(ctx, only(stopped, values("b", AtLeast(1), 2)), nil, &out, io.Discard)
	if want := "figure a - >=1 error\n"; status != 1 || out.String() != want {
		t.Errorf("status %d, output %q, want 1 and %q", status, out.String(), want)
	}
}

// The figures of the project are well formed; make figures measures them.
func TestAll(t *testing.T) {
	t.Parallel()
	var all []Figure
	for _, p := range parts {
		all = append(all, p.figures()...)
	}
	if _, err := choose(all, "", 1); err != nil {
		t.Error(err)
	}
}
