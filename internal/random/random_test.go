package random_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/annals-go/annals/internal/random"
)

// With this environment variable, TestRepeats fails in the way that it names.
const fails = "ANNALS_TEST_FAILS"

// A test that fails logs one line, and a run with the arguments of that line makes the same choices.
func TestRepeats(t *testing.T) {
	t.Parallel()
	switch os.Getenv(fails) {
	case "New":
		fail(t, random.New(t))
	case "Rounds":
		for r := range random.Rounds(t, 3) {
			fail(t, r)
		}
	case "Each":
		random.Each(t, 1, fail)
	default:
		for _, way := range []string{"New", "Rounds", "Each"} {
			t.Run(way, func(t *testing.T) {
				t.Parallel()
				first := play(t, way, "-test.run=^TestRepeats$")
				m := regexp.MustCompile(`go test github.com/annals-go/annals/internal/random -run '(.*)' -random.seed=(\d+)\n`).FindAllStringSubmatch(first, -1)
				if len(m) != 1 {
					t.Fatalf("want one line:\n%s", first)
				}
				again := play(t, way, "-test.run="+m[0][1], "-random.seed="+m[0][2])
				chosen := regexp.MustCompile("chosen .*")
				if c := chosen.FindAllString(first, -1); len(c) != 1 || len(chosen.FindAllString(again, -1)) != 1 || c[0] != chosen.FindString(again) {
					t.Errorf("the choices differ:\n%s\n%s", first, again)
				}
			})
		}
	}
}

func fail(t *testing.T, r *random.Source) {
	t.Fatalf("chosen %d, %d, %s, %v, %v", r.IntN(1_000_000), r.Child().IntN(1_000_000), random.OneOf(r, "a", "b", "c"), r.OneIn(2), r.Below(time.Hour))
}

// play runs the test in another process, where it fails.
func play(t *testing.T, way string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), fails+"="+way)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("it passes:\n%s", out)
	}
	return string(out)
}

func TestSource(t *testing.T) {
	t.Parallel()
	r := random.New(t)
	if r.OneIn(0) || !r.OneIn(1) {
		t.Error("OneIn")
	}
	n := 0
	for range random.Rounds(t, 3) {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d rounds", n)
	}
}
