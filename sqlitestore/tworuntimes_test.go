package sqlitestore_test

import (
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/hosttest"
	"github.com/annals-go/annals/sqlitestore"
)

// onTwoStores runs test with two stores on one file.
func onTwoStores(t *testing.T, test func(t *testing.T, here, there annals.Store)) {
	t.Parallel()
	here := open(t, sqlitestore.Options{})
	test(t, here, openAt(t, sqlitestore.Path(here), sqlitestore.Options{}))
}

func TestTwoRuntimes(t *testing.T) {
	onTwoStores(t, hosttest.TwoRuntimes)
}

func TestTurns(t *testing.T) {
	onTwoStores(t, hosttest.Turns)
}

func TestRules(t *testing.T) {
	onTwoStores(t, hosttest.Rules)
}

func TestTimers(t *testing.T) {
	onTwoStores(t, hosttest.Timers)
}

func TestKeys(t *testing.T) {
	onTwoStores(t, hosttest.Keys)
}

func TestHostsRecover(t *testing.T) {
	t.Parallel()
	hosttest.Recovery(t, open(t, sqlitestore.Options{}))
}

func TestHostsDeleteEvents(t *testing.T) {
	t.Parallel()
	hosttest.Retention(t, open(t, sqlitestore.Options{}))
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	hosttest.Accounts(t, open(t, sqlitestore.Options{}))
}

func TestDeletedBesideRuntimes(t *testing.T) {
	t.Parallel()
	hosttest.Deleted(t, open(t, sqlitestore.Options{}))
}

func TestSkipBesideAnAppend(t *testing.T) {
	t.Parallel()
	hosttest.SkipBesideAnAppend(t, open(t, sqlitestore.Options{}))
}

func TestHostsLoadThePast(t *testing.T) {
	t.Parallel()
	hosttest.Past(t, open(t, sqlitestore.Options{}))
}
