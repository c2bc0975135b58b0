package storetest

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// testCase is one case of the suite.
type testCase struct {
	id     string
	about  string
	needs  []need // the case runs when all are met, and is listed in the log otherwise
	unless []need // the case runs when none is met: it checks what a store does that claims none of them
	shares bool   // the case may run on a store that has data of other cases
	own    bool   // the case needs an empty store, or closes its store; this counts more than shares
	run    func(h *harness)
}

// sharing lets the cases of the topics run one after the other on few stores, because opening a store takes longer than most cases. They
// look only at entities with ids of harness.id. Cases that query, and those that need a field of Config, have a store of their own.
func sharing(topics ...[]testCase) (all []testCase) {
	for _, topic := range topics {
		for _, tc := range topic {
			tc.shares = !tc.own && !slices.ContainsFunc(tc.needs, func(n need) bool { return n.part.Queries || n.config })
			all = append(all, tc)
		}
	}
	return all
}

// need is a condition on the store or on the Config.
type need struct {
	name   string
	part   Parts // the part of the store that the condition is about, or none
	config bool  // the condition is about a field of Config
	met    func(p probe) bool
}

// probe is what conditions are checked on.
type probe struct {
	caps  annals.Capabilities
	store annals.Store // closed: conditions only ask for its abilities
	cfg   Config
}

// claims is the condition that a capability of a part is claimed.
func claims(part Parts, name string, has func(c annals.Capabilities) bool) need {
	return need{name: name, part: part, met: func(p probe) bool { return has(p.caps) }}
}

// offers is the condition that the store has the ability A.
func offers[A any](name string) need {
	return need{name: name, met: func(p probe) bool { return is[A](p.store) }}
}

// given is the condition that a field of Config is set.
func given(name string, set func(c Config) bool) need {
	return need{name: "Config." + name, config: true, met: func(p probe) bool { return set(p.cfg) }}
}

var (
	events           = claims(Parts{Journal: true}, "Events", func(c annals.Capabilities) bool { return c.Events })
	snapshots        = claims(Parts{Snapshots: true}, "Snapshots", func(c annals.Capabilities) bool { return c.Snapshots })
	states           = claims(Parts{States: true}, "States", func(c annals.Capabilities) bool { return c.States })
	eventQueries     = claims(Parts{Queries: true}, "EventQueries", func(c annals.Capabilities) bool { return c.EventQueries })
	stateQueries     = claims(Parts{Queries: true}, "StateQueries", func(c annals.Capabilities) bool { return c.StateQueries })
	snapshotQueries  = claims(Parts{Snapshots: true}, "SnapshotQueries", func(c annals.Capabilities) bool { return c.SnapshotQueries })
	idQueries        = claims(Parts{Queries: true}, "IDQueries", func(c annals.Capabilities) bool { return c.IDQueries })
	offsets          = claims(Parts{Offsets: true}, "Offsets", func(c annals.Capabilities) bool { return c.Offsets })
	commitSnapshot   = claims(Parts{Snapshots: true}, "CommitSnapshot", func(c annals.Capabilities) bool { return c.CommitSnapshot })
	manySnapshots    = claims(Parts{Snapshots: true}, "ManySnapshots", func(c annals.Capabilities) bool { return c.ManySnapshots })
	tags             = claims(Parts{}, "Tags", func(c annals.Capabilities) bool { return c.Tags })
	metadata         = claims(Parts{}, "Metadata", func(c annals.Capabilities) bool { return c.Metadata })
	stateMetadata    = claims(Parts{States: true}, "StateMetadata", func(c annals.Capabilities) bool { return c.StateMetadata })
	times            = claims(Parts{}, "Times", func(c annals.Capabilities) bool { return c.Times })
	eventTimes       = claims(Parts{}, "EventTimes", func(c annals.Capabilities) bool { return c.EventTimes })
	tagQueries       = claims(Parts{Queries: true}, "TagQueries", func(c annals.Capabilities) bool { return c.TagQueries })
	deletesStates    = claims(Parts{States: true}, "DeletesStates", func(c annals.Capabilities) bool { return c.DeletesStates })
	stateEvents      = claims(Parts{States: true}, "StateEvents", func(c annals.Capabilities) bool { return c.StateEvents })
	idempotentState  = claims(Parts{States: true}, "IdempotentState", func(c annals.Capabilities) bool { return c.IdempotentState })
	orderedFeed      = claims(Parts{Queries: true}, "Lateness 0", func(c annals.Capabilities) bool { return c.Lateness == 0 })
	repeatable       = claims(Parts{}, "Repeatable", func(c annals.Capabilities) bool { return c.Repeatable })
	fenceAfterDelete = claims(Parts{}, "FenceAfterDelete", func(c annals.Capabilities) bool { return c.FenceAfterDelete })
	guardsReads      = claims(Parts{}, "GuardsReads", func(c annals.Capabilities) bool { return c.GuardsReads })
	sizeLimit        = claims(Parts{}, "Limits.MaxBytes", func(c annals.Capabilities) bool { return c.Limits.MaxBytes > 0 })
	offsetLimit      = claims(Parts{Offsets: true}, "Limits.MaxOffsets", func(c annals.Capabilities) bool { return c.Limits.MaxOffsets > 0 })
	queries          = claims(Parts{Queries: true}, "EventQueries or StateQueries", func(c annals.Capabilities) bool { return c.EventQueries || c.StateQueries })
	firstSnapshot    = claims(Parts{Snapshots: true}, "Limits.FirstSnapshot", func(c annals.Capabilities) bool { return c.Limits.FirstSnapshot })

	transacts     = need{name: "ability.Atomic", part: Parts{Transactions: true}, met: func(p probe) bool { return is[ability.Atomic](p.store) }}
	forgets       = offers[ability.Forgetter]("ability.Forgetter")
	skips         = offers[ability.Skipper]("ability.Skipper")
	skipsStates   = offers[ability.StateSkipper]("ability.StateSkipper")
	subscribes    = offers[ability.Subscriber]("ability.Subscriber")
	healthChecker = offers[ability.HealthChecker]("ability.HealthChecker")
	watcher       = offers[ability.Watcher]("ability.Watcher")
	checker       = offers[ability.Checker]("ability.Checker")
	scanner       = offers[ability.Scanner]("ability.Scanner")

	openObserved = given("OpenObserved", func(c Config) bool { return c.OpenObserved != nil })
	reopen       = given("Reopen", func(c Config) bool { return c.Reopen != nil })
	loseAnswer   = given("LoseAnswer", func(c Config) bool { return c.LoseAnswer != nil })
	undo         = given("Undo", func(c Config) bool { return c.Undo != nil })
	slowClock    = given("SlowClock", func(c Config) bool { return c.SlowClock != nil })
	faults       = given("Faults", func(c Config) bool { return c.Faults != nil })
	damage       = given("Damage", func(c Config) bool { return c.Damage != nil })
	loseEvent    = given("LoseEvent", func(c Config) bool { return c.LoseEvent != nil })
)

func needs(n ...need) []need { return n }

// name returns the name of the case's subtest.
func (tc testCase) name() string { return tc.id + " " + tc.about }

// topic returns what the id begins with.
func (tc testCase) topic() string {
	topic, _, _ := strings.Cut(tc.id, "-")
	return topic
}

// missing returns the names of the needs that are not met.
func (tc testCase) missing(p probe) (names []string) {
	for _, n := range tc.needs {
		if !n.met(p) {
			names = append(names, n.name)
		}
	}
	return names
}

// leftOut is the field of Config that leaves the case out, "" for none.
func (tc testCase) leftOut(c Config) string {
	switch {
	case len(c.Topics) > 0 && !slices.Contains(c.Topics, tc.topic()):
		return "Topics"
	case c.Only != (Parts{}) && slices.ContainsFunc(tc.needs, func(n need) bool { return !c.Only.have(n.part) }):
		return "Only"
	}
	return ""
}

// have reports whether p has all parts of q.
func (p Parts) have(q Parts) bool {
	return (p.Journal || !q.Journal) && (p.Snapshots || !q.Snapshots) && (p.States || !q.States) && (p.Queries || !q.Queries) && (p.Offsets || !q.Offsets) && (p.Transactions || !q.Transactions)
}

// applies is false when the store claims what the case expects to be unclaimed.
func (tc testCase) applies(p probe) bool {
	return !slices.ContainsFunc(tc.unless, func(n need) bool { return n.met(p) })
}

// run runs each case as a subtest of t, and logs those that do not run, with the reason. It is an error when none runs.
func run(t *testing.T, c Config, all []testCase) {
	t.Helper()
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	p, ran := c.probe(t), 0
	var shared chan annals.Store // those that no case uses now
	for _, tc := range all {
		if !tc.applies(p) {
			continue
		}
		if field := tc.leftOut(c); field != "" {
			t.Logf("left out by Config.%s: %s", field, tc.name())
			continue
		}
		if missing := tc.missing(p); len(missing) > 0 {
			t.Logf("not claimed: %s (needs %s)", tc.name(), strings.Join(missing, ", "))
			continue
		}
		ran++
		if tc.shares && shared == nil {
			shared = openShared(t, c)
		}
		t.Run(tc.name(), func(t *testing.T) {
			t.Parallel()
			if reason, ok := c.Except[tc.id]; ok {
				mustFail(t, p, tc, reason)
				return
			}
			if !tc.shares {
				tc.run(newHarness(t, p))
				return
			}
			s := <-shared
			defer func() { shared <- s }()
			tc.run(sharingHarness(t, p, s, tc.id))
		})
	}
	if ran == 0 {
		t.Fatalf("none of %d cases runs: the store claims too little, or Config.Only and Config.Topics leave all of them out", len(all))
	}
}

// openShared opens a store for each case that may run at the same time, at most eight. They are closed when t ends.
func openShared(t *testing.T, c Config) chan annals.Store {
	n := min(runtime.GOMAXPROCS(0), 8)
	stores := make(chan annals.Store, n)
	for range n {
		s := c.Open(t)
		t.Cleanup(func() { _ = s.Close() })
		stores <- s
	}
	return stores
}

// mustFail runs a case that the store is known to fail, and fails when the case passes.
func mustFail(t testing.TB, p probe, tc testCase, reason string) {
	failures := record(t, func(tb testing.TB) { tc.run(newHarness(tb, p)) })
	if len(failures) == 0 {
		t.Errorf("%s passes, though Config.Except says that it fails: %s", tc.name(), reason)
		return
	}
	t.Logf("fails, as Config.Except says: %s\n%s", reason, strings.Join(failures, "\n"))
}

// check returns an error that says what is wrong with c.
func (c Config) check() error {
	if c.Open == nil {
		return fmt.Errorf("storetest: Config.Open is nil")
	}
	known := map[string]bool{}
	for _, tc := range slices.Concat(cases(), stateTypeCases[struct{}](nil)) {
		known[tc.id], known[tc.topic()+"-"] = true, true
	}
	for _, topic := range c.Topics {
		if !known[topic+"-"] {
			return fmt.Errorf("storetest: Config.Topics names %q, which is no topic of the suite", topic)
		}
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
