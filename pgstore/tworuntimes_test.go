package pgstore_test

import (
	"testing"

	"github.com/annals-go/annals/internal/hosttest"
	"github.com/annals-go/annals/pgstore"
)

func TestTwoRuntimes(t *testing.T) {
	t.Parallel()
	here := open(t, pgstore.Options{})
	hosttest.TwoRuntimes(t, here, openAt(t, urls.of(here), pgstore.Options{}))
}

func TestTurns(t *testing.T) {
	t.Parallel()
	here := open(t, pgstore.Options{})
	hosttest.Turns(t, here, openAt(t, urls.of(here), pgstore.Options{}))
}

func TestRules(t *testing.T) {
	t.Parallel()
	here := open(t, pgstore.Options{})
	hosttest.Rules(t, here, openAt(t, urls.of(here), pgstore.Options{}))
}

func TestTimers(t *testing.T) {
	t.Parallel()
	here := open(t, pgstore.Options{})
	hosttest.Timers(t, here, openAt(t, urls.of(here), pgstore.Options{}))
}

func TestKeys(t *testing.T) {
	t.Parallel()
	here := open(t, pgstore.Options{})
	hosttest.Keys(t, here, openAt(t, urls.of(here), pgstore.Options{}))
}

func TestHostsRecover(t *testing.T) {
	t.Parallel()
	hosttest.Recovery(t, open(t, pgstore.Options{}))
}

func TestHostsDeleteEvents(t *testing.T) {
	t.Parallel()
	hosttest.Retention(t, open(t, pgstore.Options{}))
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	hosttest.Accounts(t, open(t, pgstore.Options{}))
}

func TestDeletedBesideRuntimes(t *testing.T) {
	t.Parallel()
	hosttest.Deleted(t, open(t, pgstore.Options{}))
}

func TestHostsLoadThePast(t *testing.T) {
	t.Parallel()
	hosttest.Past(t, open(t, pgstore.Options{}))
}
