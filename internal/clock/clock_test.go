package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

const name = "the clock of the test"

func TestAhead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		clock func(at time.Duration) time.Duration                       // how far the clock is from the right time
		ahead func(at time.Duration) (ahead time.Duration, warning bool) // what is wanted
	}{
		{"right", func(time.Duration) time.Duration { return 0 }, none},
		{"a little off", func(at time.Duration) time.Duration { return -at / 1000 }, none},
		{"ahead for five seconds", func(at time.Duration) time.Duration { return during(at, 10*time.Second, 15*time.Second, time.Hour) },
			func(at time.Duration) (time.Duration, bool) {
				d := during(at, 10*time.Second, 15*time.Second, time.Hour)
				return d, d > 0
			}},
		{"ahead from the start", func(at time.Duration) time.Duration { return during(at, 0, 15*time.Second, time.Hour) },
			func(at time.Duration) (time.Duration, bool) {
				d := during(at, 0, 15*time.Second, time.Hour)
				return d, d > 0
			}},
		{"set forward", func(at time.Duration) time.Duration { return during(at, 10*time.Second, time.Hour, time.Hour) },
			func(at time.Duration) (time.Duration, bool) {
				d := during(at, 10*time.Second, 10*time.Second+hold, time.Hour)
				return d, d > 0
			}},
		{"behind from the start", func(time.Duration) time.Duration { return -time.Hour }, none},
		{"set back", func(at time.Duration) time.Duration { return -during(at, 10*time.Second, time.Hour, time.Hour) },
			func(at time.Duration) (time.Duration, bool) { return 0, at == 10*time.Second }},
	} {
		synctest.Test(t, func(t *testing.T) {
			var g Guard
			begun := time.Now()
			for at := time.Duration(0); at < 2*time.Minute; at = time.Since(begun) {
				ahead, warning := g.Ahead(name, time.Now().Add(c.clock(at)), time.Now())
				if want, warns := c.ahead(at); (ahead-want).Abs() > Step || (warning != nil) != warns {
					t.Errorf("%s, after %v: ahead by %v, %v; want %v, a warning: %v", c.what, at, ahead, warning, want, warns)
				}
				time.Sleep(time.Second)
			}
		})
	}
}

func none(time.Duration) (time.Duration, bool) { return 0, false }

// during is by from the time from to the time to, and 0 elsewhere.
func during(at, from, to, by time.Duration) time.Duration {
	if at >= from && at < to {
		return by
	}
	return 0
}

// A slow answer says little of the clock.
func TestSlowAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Guard
		for _, late := range []time.Duration{0, 10 * time.Second, 0, 10 * time.Second} {
			for range 2 {
				asked := time.Now()
				said := asked
				time.Sleep(late)
				if late > 0 {
					said = asked.Add(late / 2)
				}
				if ahead, err := g.Ahead(name, said, asked); ahead != 0 || err != nil {
					t.Errorf("answer after %v: %v, %v", late, ahead, err)
				}
			}
		}
	})
}
