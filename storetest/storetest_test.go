package storetest

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/verify"
)

// Stores that fail on purpose must not write files of failing histories, nor take long to shrink the histories.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "0s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	m.Run()
}

func openMem(testing.TB) annals.Store { return memstore.New() }

func openMemObserved(tb testing.TB, o annals.Observer) annals.Store {
	s, err := memstore.Open(memstore.Options{Observer: o})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestMemstore(t *testing.T) {
	t.Parallel()
	Run(t, Config{Open: openMem, OpenObserved: openMemObserved, Damage: func(tb testing.TB) (annals.Store, []string, map[ability.Code]string) {
		return damaged(tb, memstore.New())
	}})
}

// damaged is a memstore with the damage that can be done through the contracts.
func damaged(tb testing.TB, s annals.Store) (annals.Store, []string, map[ability.Code]string) {
	_, err := s.Journal().Append(tb.Context(), annals.Commit{ID: "T|1", Events: newEvents(0, 2)})
	for _, snapshot := range []annals.Snapshot{snapshotOf("T|1", 5), snapshotOf("T|2", 1)} {
		err = errors.Join(err, s.Snapshots().Save(tb.Context(), snapshot))
	}
	if err != nil {
		tb.Fatal(err)
	}
	impossible := map[ability.Code]string{}
	for _, k := range verify.Kinds() {
		if k.Code != ability.Orphan {
			impossible[k.Code] = "the data are in the memory of the process, as typed values"
		}
	}
	return s, []string{"orphan T|1 5 5", "orphan T|2 1 1"}, impossible
}

// A kind of damage that Config.Damage leaves out, or of which it says two things, fails, and so does damage that was not done.
func TestDamageOfEachKind(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(found *[]string, impossible map[ability.Code]string){
		"left out":    func(_ *[]string, impossible map[ability.Code]string) { delete(impossible, ability.Head) },
		"no reason":   func(_ *[]string, impossible map[ability.Code]string) { impossible[ability.Head] = "" },
		"two things":  func(_ *[]string, impossible map[ability.Code]string) { impossible[ability.Orphan] = "it has none" },
		"not found":   func(found *[]string, _ map[ability.Code]string) { *found = append(*found, "orphan T|1 7 7") },
		"not planted": func(found *[]string, _ map[ability.Code]string) { *found = (*found)[1:] },
	} {
		c := Config{Open: openMem, Damage: func(tb testing.TB) (annals.Store, []string, map[ability.Code]string) {
			s, found, impossible := damaged(tb, memstore.New())
			change(&found, impossible)
			return s, found, impossible
		}}
		if !fails(t, caseOf(t, "VERIFY-4"), c.probe(t)) {
			t.Errorf("%s: the case passes", name)
		}
	}
}

// A store with low limits that requires a snapshot with the first commit.
func TestLimitedStore(t *testing.T) {
	t.Parallel()
	Run(t, Config{Short: true, Open: func(testing.TB) annals.Store {
		return newLimited(memstore.New(), annals.Limits{MaxEvents: 7, MaxBytes: 64 << 10, MaxIDBytes: 600, MaxIDChars: 255, FirstSnapshot: true})
	}})
}

// A store that claims as little as possible.
func TestModestStore(t *testing.T) {
	t.Parallel()
	Run(t, Config{Short: true, Open: func(testing.TB) annals.Store { return modest{Store: memstore.New()} }})
}

// plain is a driver that has all contracts, and no abilities.
type plain struct{ annals.Store }

func (plain) Fault(err error) error { return err }

func (p plain) Capabilities() annals.Capabilities {
	c := p.Store.Capabilities()
	c.IDQueries = false // a store leaves out ids that its driver has
	return c
}

func TestStoreWithoutAbilities(t *testing.T) {
	t.Parallel()
	Run(t, Config{Short: true, Open: func(testing.TB) annals.Store { return driver.New(plain{memstore.New()}, driver.Options{Name: "plain"}) },
		OpenObserved: func(tb testing.TB, o annals.Observer) annals.Store {
			return driver.New(plain{memstore.New()}, driver.Options{Name: "plain", Observer: o})
		}})
}

// A journal without times, and nothing else.
type journalOnly struct {
	annals.Store
	mem *memstore.Store
}

func (s journalOnly) Journal() annals.Journal { return timelessJournal{modestJournal{s.mem.Journal()}} }
func (s journalOnly) Close() error            { return s.mem.Close() }
func (s journalOnly) Capabilities() annals.Capabilities {
	return annals.Capabilities{Events: true, Tags: true, FenceAfterDelete: true}
}

func TestJournalOnly(t *testing.T) {
	t.Parallel()
	Run(t, Config{Short: true, Open: func(testing.TB) annals.Store { return journalOnly{driver.Unsupported(), memstore.New()} }})
}

// What a store does not claim is listed by name, and every case is either run or listed.
func TestListing(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestJournalOnly$", "-test.v").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"not claimed: S-04 the newest is 15 (needs Snapshots)",
		"not claimed: D-06 a deleted state is not found, and a put after the delete is the next revision (needs States, DeletesStates)",
		"not claimed: J-O4 metadata is kept (needs Metadata)",
		"not claimed: SKIP-1 an entity starts after numbers that were deleted elsewhere (needs ability.Skipper)",
		"not claimed: TIME-1 times of an entity's events never go down (needs Times)",
		"not claimed: REOPEN-1 a second store sees the events, numbers and deletes of the first at once (needs Config.Reopen)",
		"=== RUN   TestJournalOnly/J-12_delete_to_3,_replay_all",
		"=== RUN   TestJournalOnly/CLAIM-1_what_is_not_claimed_is_refused_with_ErrUnsupported",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("output of the suite lacks %q", want)
		}
	}
	for _, tc := range cases() {
		run, listed := strings.Contains(string(out), "RUN   TestJournalOnly/"+tc.id+"_"), strings.Contains(string(out), "not claimed: "+tc.id+" ")
		if run == listed && tc.applies(probe{caps: journalOnly{}.Capabilities(), store: journalOnly{Store: driver.Unsupported()}}) {
			t.Errorf("%s: run %v, listed %v", tc.id, run, listed)
		}
	}
}

// Two handles on one memstore stand for two processes.
func TestReopen(t *testing.T) {
	t.Parallel()
	run(t, Config{
		Open:   func(testing.TB) annals.Store { return handle{memstore.New()} },
		Reopen: func(_ testing.TB, s annals.Store) annals.Store { return s },
	}, slices.Concat(reopenCases, []testCase{caseOf(t, "FORGET-15"), {id: "CLOSE-3", about: "close, then reopen", run: closeThenReopen}}))
}

type handle struct{ *memstore.Store }

func (handle) Close() error { return nil }

// Answers lost between store and server.
func TestLoseAnswer(t *testing.T) {
	t.Parallel()
	c := Config{
		Open: func(testing.TB) annals.Store { return newUnlucky(annals.ErrUnknown) },
		LoseAnswer: func(_ testing.TB, s annals.Store) func() {
			s.(*unlucky).lose.Store(true)
			return func() {}
		},
	}
	run(t, c, slices.Concat(retryCases, acknowledgementCases, []testCase{caseOf(t, "TX-19")}))

	c.Open = func(testing.TB) annals.Store { return newUnlucky(annals.ErrCorrupt) }
	for _, id := range []string{"RETRY-9", "RETRY-10", "RECEIPT-4", "TX-19"} {
		if !fails(t, caseOf(t, id), c.probe(t)) {
			t.Errorf("%s: passes for a store that calls what it stored corrupt", id)
		}
	}
}

func TestExcept(t *testing.T) {
	t.Parallel()
	open := func(testing.TB) annals.Store { return around(memstore.New(), noConflicts) }
	broken := Config{Open: open, Except: map[string]string{"J-X9": "it drops the conflict check"}}
	run(t, broken, []testCase{caseOf(t, "J-X9"), caseOf(t, "J-01")})

	failures := record(t, func(tb testing.TB) {
		r := tb.(*recorder)
		mustFail(r, Config{Open: openMem}.probe(t), caseOf(t, "J-X9"), "it drops the conflict check")
	})
	if len(failures) != 1 || !strings.Contains(failures[0], "passes, though") {
		t.Errorf("an excepted case that passes: got %q, want a failure", failures)
	}
	if err := (Config{Open: openMem, Except: map[string]string{"J-99": "?"}}).check(); err == nil {
		t.Error("an excepted case that does not exist: got no error")
	}
	if err := (Config{Open: openMem, Topics: []string{"J", "SUBSCRIBES"}}).check(); err == nil {
		t.Error("a topic that does not exist: got no error")
	}
}

// Config.Only chooses cases by what they need, Config.Topics by their ids.
func TestOnly(t *testing.T) {
	t.Parallel()
	Run(t, Config{Open: openMem, Short: true, Only: Parts{Journal: true}})
	for _, c := range []struct {
		config   Config
		id, left string
	}{
		{Config{}, "S-04", ""},
		{Config{Only: Parts{Journal: true}}, "J-12", ""},
		{Config{Only: Parts{Journal: true}}, "RETRY-7", ""},
		{Config{Only: Parts{Journal: true}}, "CLAIM-1", ""},
		{Config{Only: Parts{Journal: true}}, "S-04", "Only"},
		{Config{Only: Parts{Journal: true}}, "D-06", "Only"},
		{Config{Only: Parts{Journal: true}}, "RETRY-8", "Only"},
		{Config{Only: Parts{Journal: true}}, "TX-1", "Only"},
		{Config{Only: Parts{Journal: true, Snapshots: true}}, "RETRY-8", ""},
		{Config{Only: Parts{Journal: true, Transactions: true}}, "TX-1", ""},
		{Config{Only: Parts{States: true}}, "D-06", ""},
		{Config{Only: Parts{States: true}}, "J-12", "Only"},
		{Config{Topics: []string{"J", "STATE"}}, "J-12", ""},
		{Config{Topics: []string{"J", "STATE"}}, "STATE-20", ""},
		{Config{Topics: []string{"J", "STATE"}}, "S-04", "Topics"},
	} {
		if got := caseOf(t, c.id).leftOut(c.config); got != c.left {
			t.Errorf("%s with Only %+v and Topics %q: left out by %q, want %q", c.id, c.config.Only, c.config.Topics, got, c.left)
		}
	}
}

// A run of no case at all fails, and what Config.Only leaves out is listed.
func TestNothingToRun(t *testing.T) {
	t.Parallel()
	if os.Getenv("ANNALS_TEST_NOTHING") != "" {
		run(t, Config{Open: openMem, Only: Parts{States: true}}, journalCases)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNothingToRun$", "-test.v")
	cmd.Env = append(os.Environ(), "ANNALS_TEST_NOTHING=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "none of") || !strings.Contains(string(out), "left out by Config.Only: J-12 delete to 3, replay all") {
		t.Errorf("a run whose cases are all left out: got error %v, want a failure that lists them\n%s", err, out)
	}
}

// Ids are what Except and -run choose by.
func TestIDsAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, tc := range slices.Concat(cases(), stateTypeCases[memstore.Tx](nil)) {
		if seen[tc.id] || tc.about == "" {
			t.Errorf("%s %q: twice, or without words", tc.id, tc.about)
		}
		seen[tc.id] = true
	}
}
