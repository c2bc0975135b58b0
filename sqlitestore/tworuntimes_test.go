package sqlitestore_test

import (
	"testing"

	"github.com/annals-go/annals/internal/hosttest"
	"github.com/annals-go/annals/sqlitestore"
)

func TestTwoRuntimes(t *testing.T) {
	t.Parallel()
	here := open(t, sqlitestore.Options{})
	hosttest.TwoRuntimes(t, here, openAt(t, sqlitestore.Path(here), sqlitestore.Options{}))
}

func TestTurns(t *testing.T) {
	t.Parallel()
	here := open(t, sqlitestore.Options{})
	hosttest.Turns(t, here, openAt(t, sqlitestore.Path(here), sqlitestore.Options{}))
}

func TestRules(t *testing.T) {
	t.Parallel()
	here := open(t, sqlitestore.Options{})
	hosttest.Rules(t, here, openAt(t, sqlitestore.Path(here), sqlitestore.Options{}))
}

func TestTimers(t *testing.T) {
	t.Parallel()
	here := open(t, sqlitestore.Options{})
	hosttest.Timers(t, here, openAt(t, sqlitestore.Path(here), sqlitestore.Options{}))
}

func TestKeys(t *testing.T) {
	t.Parallel()
	here := open(t, sqlitestore.Options{})
	hosttest.Keys(t, here, openAt(t, sqlitestore.Path(here), sqlitestore.Options{}))
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

func TestHostsLoadThePast(t *testing.T) {
	t.Parallel()
	hosttest.Past(t, open(t, sqlitestore.Options{}))
}
