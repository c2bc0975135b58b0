// Package storetest checks that a store keeps the contracts of package annals. Authors of stores call it from a test:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Config{Open: func(tb testing.TB) annals.Store { return openEmpty(tb) }})
//	}
//
// The suite reads the store's Capabilities. What the store claims must hold. What it does not claim must be refused with
// ErrUnsupported, or dropped where the contract says so. With go test -v the suite lists the cases that it leaves out because the
// store does not claim what they need.
//
// Each case is a subtest, named by an id and what it shows: go test -run 'TestConformance/J-12' runs one case. The ids J-01, S-04, D-06,
// Q-G1, … are those of the conformance cases of the Akka and Pekko persistence plugins. The other ids are named by topic.
package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// Config tells the suite how to open a store. Open is required.
type Config struct {
	// Open returns an empty store, which the suite closes. It is called before the cases: once to ask for the capabilities, and for
	// stores that cases share which look only at their own entities. For each of the other cases it is called from a parallel subtest.
	Open func(tb testing.TB) annals.Store

	// OpenObserved is Open for a store with the Observer o. nil: the cases that need it are left out and listed.
	OpenObserved func(tb testing.TB, o annals.Observer) annals.Store

	// Reopen returns another annals.Store on the data of s, as a second process would. s is still open, or has been
	// closed. nil: the cases that need it are left out and listed.
	Reopen func(tb testing.TB, s annals.Store) annals.Store

	// SlowClock is Reopen for a process whose clock is an hour slower than that of s. nil: as above.
	SlowClock func(tb testing.TB, s annals.Store) annals.Store

	// LoseAnswer loses the answer to the next write of s, which the server or the file stores: the connection breaks, or the file cannot
	// be found any more. end repairs what stays broken. nil: as above.
	LoseAnswer func(tb testing.TB, s annals.Store) (end func())

	// Undo makes the server of s undo the next write at its end, as a constraint does that is checked at COMMIT, and accept the write after
	// that. nil: as above.
	Undo func(tb testing.TB, s annals.Store)

	// LoseEvent removes the commit whose one event is number n of id from the tables of s, without s, as a broken disk or an operator does.
	// nil: as above.
	LoseEvent func(tb testing.TB, s annals.Store, id annals.PersistenceID, n annals.SeqNr)

	// Damage returns a store on tables that it has filled and then damaged, as a broken disk, an operator or another program does, and what verify.Store finds in
	// it: the code, the id and the numbers of each finding, as "missing Thing|1 2 3". Each kind of damage that package ability names is planted, or
	// impossible says why this store cannot have it. nil: as above.
	Damage func(tb testing.TB) (s annals.Store, found []string, impossible map[ability.Code]string)

	// Faults makes requests of s to its server fail from now on: requests are refused or late, answers get lost after the request was
	// executed. end stops the faults and returns how often each of them happened, by name. nil: as above. The cases of the topic
	// FAULT need it: while requests fail, histories of several clients that write to the same few entities are linearizable, no client gets a conflict
	// for a write that was stored, no acknowledged write is lost, and none is stored twice. A fault that never happens fails the case.
	Faults func(tb testing.TB, s annals.Store) (end func() map[string]int)

	// Naive is to check that Faults are severe enough. Open returns a store that cannot recognise its own writes: each case of the topic FAULT must
	// find conflicts of writes that were stored, or a history that such a conflict made impossible.
	Naive bool

	// TimeUnit is the unit in which the store keeps NewEvent.Time, where that is not a microsecond.
	TimeUnit time.Duration

	// Short makes the cases write less and run fewer rounds, for stores on slow servers.
	Short bool

	// Only limits the suite to the cases that need no other parts of the store than these, and those that need none. Without parts
	// all cases run. It is for a variant of a store that is tested in full elsewhere, and differs from it in these parts only. Cases
	// left out are listed by name in the output of go test -v, and a run of no case at all fails.
	Only Parts

	// Topics are the topics of the cases that run: what their ids begin with, such as "SUBSCRIBE". nil: all. It is for a store that is slow in
	// what one topic needs, so that the other topics run on a store without that. Cases left out are listed.
	Topics []string

	// Except names cases by id that a store is known to fail, each with the reason. They run, and a pass is a failure.
	Except map[string]string
}

// Parts are parts of a store, named by the contracts of package annals that implement them. Transactions are those of ability.Atomic.
type Parts struct{ Journal, Snapshots, States, Queries, Offsets, Transactions bool }

// Run checks that a store keeps the contracts of package annals and its Capabilities.
func Run(t *testing.T, c Config) {
	t.Helper()
	all := cases()
	if c.Naive {
		all = naiveCases()
	}
	run(t, c, all)
}

// cases are all cases of the suite but those of RunStateTypes.
func cases() []testCase {
	all := sharing(journalCases, replayCases, batchCases, refusalCases, raceCases, retryCases, deleteCases, truncationCases, recoveryCases,
		concurrentRecoveryCases, snapshotCases, stateCases, stateRetryCases, contextCases, forgetCases, historyCases, linearizableCases)
	return slices.Concat(all, acknowledgementCases, queryCases, snapshotQueryCases, watermarkCases, followCases, offsetCases, idCases, timeCases,
		closeCases, observerCases, filterCases, healthCases, reopenCases, capabilityCases, abilityCases, subscribeCases, lossCases, verifyCases, transactionCases, faultCases())
}
