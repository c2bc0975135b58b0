package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
)

// testCase is one row of the suite.
type testCase struct {
	id     string
	about  string
	needs  []need // all must be there, else the case is listed as not claimed
	unless []need // none may be there: the case checks that they are not claimed in vain
	run    func(h *harness)
}

// need is something a case asks of the store or of the Config.
type need struct {
	name string
	met  func(p probe) bool
}

// probe is what a case may ask for.
type probe struct {
	caps  annals.Capabilities
	store annals.Store // closed; only its type counts
	cfg   Config
}

func claims(name string, has func(c annals.Capabilities) bool) need {
	return need{name, func(p probe) bool { return has(p.caps) }}
}

// offers asks for an optional ability, which is an interface.
func offers[A any](name string) need {
	return need{name, func(p probe) bool { _, ok := p.store.(A); return ok }}
}

var (
	events           = claims("Events", func(c annals.Capabilities) bool { return c.Events })
	snapshots        = claims("Snapshots", func(c annals.Capabilities) bool { return c.Snapshots })
	states           = claims("States", func(c annals.Capabilities) bool { return c.States })
	eventQueries     = claims("EventQueries", func(c annals.Capabilities) bool { return c.EventQueries })
	stateQueries     = claims("StateQueries", func(c annals.Capabilities) bool { return c.StateQueries })
	offsets          = claims("Offsets", func(c annals.Capabilities) bool { return c.Offsets })
	commitSnapshot   = claims("CommitSnapshot", func(c annals.Capabilities) bool { return c.CommitSnapshot })
	manySnapshots    = claims("ManySnapshots", func(c annals.Capabilities) bool { return c.ManySnapshots })
	tags             = claims("Tags", func(c annals.Capabilities) bool { return c.Tags })
	metadata         = claims("Metadata", func(c annals.Capabilities) bool { return c.Metadata })
	eventTimes       = claims("EventTimes", func(c annals.Capabilities) bool { return c.EventTimes })
	tagQueries       = claims("TagQueries", func(c annals.Capabilities) bool { return c.TagQueries })
	stateEvents      = claims("StateEvents", func(c annals.Capabilities) bool { return c.StateEvents })
	idempotentState  = claims("IdempotentState", func(c annals.Capabilities) bool { return c.IdempotentState })
	orderedFeed      = claims("OrderedFeed", func(c annals.Capabilities) bool { return c.OrderedFeed })
	repeatable       = claims("Repeatable", func(c annals.Capabilities) bool { return c.Repeatable })
	fenceAfterDelete = claims("FenceAfterDelete", func(c annals.Capabilities) bool { return c.FenceAfterDelete })
	sizeLimit        = claims("Limits.MaxBytes", func(c annals.Capabilities) bool { return c.Limits.MaxBytes > 0 })
	firstSnapshot    = claims("Limits.FirstSnapshot", func(c annals.Capabilities) bool { return c.Limits.FirstSnapshot })

	skipper   = offers[annals.Skipper]("annals.Skipper")
	watcher   = offers[annals.Watcher]("annals.Watcher")
	forgetter = need{"Forgets, and annals.Forgetter", func(p probe) bool { _, ok := p.store.(annals.Forgetter); return ok && p.caps.Forgets }}

	reopen     = need{"Config.Reopen", func(p probe) bool { return p.cfg.Reopen != nil }}
	loseAnswer = need{"Config.LoseAnswer", func(p probe) bool { return p.cfg.LoseAnswer != nil }}
	undo       = need{"Config.Undo", func(p probe) bool { return p.cfg.Undo != nil }}
	slowClock  = need{"Config.SlowClock", func(p probe) bool { return p.cfg.SlowClock != nil }}
	loseEvent  = need{"Config.LoseEvent", func(p probe) bool { return p.cfg.LoseEvent != nil }}
)

func needs(n ...need) []need { return n }

// name is the name of the case's subtest.
func (tc testCase) name() string { return tc.id + " " + tc.about }

// missing are the names of the needs that are not met.
func (tc testCase) missing(p probe) (names []string) {
	for _, n := range tc.needs {
		if !n.met(p) {
			names = append(names, n.name)
		}
	}
	return names
}

// applies is false where what the case expects to be unclaimed is claimed.
func (tc testCase) applies(p probe) bool {
	return !slices.ContainsFunc(tc.unless, func(n need) bool { return n.met(p) })
}

// run runs each case as a subtest of t, and lists those that are not claimed.
func run(t *testing.T, c Config, all []testCase) {
	t.Helper()
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	p := c.probe(t)
	for _, tc := range all {
		if !tc.applies(p) {
			continue
		}
		if missing := tc.missing(p); len(missing) > 0 {
			t.Logf("not claimed: %s (needs %s)", tc.name(), strings.Join(missing, ", "))
			continue
		}
		t.Run(tc.name(), func(t *testing.T) {
			t.Parallel()
			if reason, ok := c.Except[tc.id]; ok {
				mustFail(t, p, tc, reason)
				return
			}
			tc.run(newHarness(t, p))
		})
	}
}

// mustFail runs a case that the store is known to fail.
func mustFail(t testing.TB, p probe, tc testCase, reason string) {
	failures := record(t, func(tb testing.TB) { tc.run(newHarness(tb, p)) })
	if len(failures) == 0 {
		t.Errorf("%s passes, though Config.Except says that it fails: %s", tc.name(), reason)
		return
	}
	t.Logf("fails, as Config.Except says: %s\n%s", reason, strings.Join(failures, "\n"))
}

// check says what is wrong with c.
func (c Config) check() error {
	if c.Open == nil {
		return fmt.Errorf("storetest: Config.Open is nil")
	}
	known := map[string]bool{}
	for _, tc := range slices.Concat(cases(), transactorCases[struct{}](), stateTypeCases[struct{}](nil), faultCases(nil)) {
		known[tc.id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(c.Except)) {
		if !known[id] {
			return fmt.Errorf("storetest: Config.Except names %q, which is no case of the suite", id)
		}
	}
	return nil
}

// probe opens a store to ask what it claims.
func (c Config) probe(t testing.TB) probe {
	t.Helper()
	s := c.Open(t)
	p := probe{s.Capabilities(), s, c}
	if err := s.Close(); err != nil {
		t.Fatalf("Close of a store that did nothing: got %v, want nil", err)
	}
	return p
}
