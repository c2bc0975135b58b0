package pgstore_test

import (
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/storetest"
)

// Histories are linearizable while connections break before, after and in the middle of statements: no conflict is false, no write is
// lost, and none is stored twice.
func TestLinearizableUnderFaults(t *testing.T) {
	t.Parallel()
	var b broken
	storetest.Run(t, b.config(""))
}

// The same cases find a store that cannot tell its own writes from those of others.
func TestFaultsFindNaiveWriters(t *testing.T) {
	t.Parallel()
	var b broken
	c := b.config(forgottenWriters)
	c.Naive = true
	storetest.Run(t, c)
}

// forgottenWriters replaces the ids of writes as they are stored.
const forgottenWriters = `
CREATE FUNCTION forget_writer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.writer = left(NEW.writer, 24) || '000000000000'; RETURN NEW; END $$;
CREATE TRIGGER forget_writer BEFORE INSERT ON event_journal FOR EACH ROW EXECUTE FUNCTION forget_writer();
CREATE FUNCTION forget_write() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.write_ids = left(NEW.write_ids, -12) || '000000000000'; RETURN NEW; END $$;
CREATE TRIGGER forget_write BEFORE INSERT OR UPDATE ON durable_state FOR EACH ROW EXECUTE FUNCTION forget_write()`

// broken opens stores with routes.
type broken struct{ routes }

// config is of stores on whose tables a script has run.
func (b *broken) config(script string) storetest.Config {
	return storetest.Config{Short: true, Faults: b.fail, Topics: []string{"FAULT"}, Open: func(tb testing.TB) annals.Store {
		url := tables(tb, pgstore.Options{})
		if script != "" {
			run(tb, url, script)
		}
		return b.open(tb, url, pgstore.Options{})
	}}
}

// fail is storetest.Config.Faults. Each fault happens again after so many requests of a kind.
func (b *broken) fail(_ testing.TB, s annals.Store) func() map[string]int {
	p := b.through(s)
	var mu sync.Mutex
	happened := map[string]int{"cut before the server": 0, "answer lost": 0, "answer cut at its first row": 0, "cut while the server writes": 0, "terminated": 0, "late": 0}
	fault := func(name string, f postgres.Fault) postgres.Fault {
		happened[name]++
		return f
	}
	p.SetRule(func(r postgres.Request) postgres.Fault {
		mu.Lock()
		defer mu.Unlock()
		if r.Kind == postgres.Connect || r.Kind == postgres.Prepare || strings.Contains(r.SQL, "transaction_read_only") {
			return postgres.Fault{} // part of connecting: while that fails, calls fail at once
		}
		switch at := r.Number % 30; {
		case at == 3:
			return fault("cut before the server", postgres.Fault{Refuse: true})
		case at == 9 || at == 24:
			return fault("answer lost", postgres.Fault{LoseAnswer: true})
		case at == 13:
			return fault("answer cut at its first row", postgres.Fault{CutAnswer: true})
		case at == 18:
			return fault("cut while the server writes", postgres.Fault{Abandon: 2 * time.Millisecond})
		case at == 27:
			return fault("terminated", postgres.Fault{Terminate: true})
		case at%5 == 1:
			return fault("late", postgres.Fault{Delay: time.Millisecond})
		}
		return postgres.Fault{}
	})
	return func() map[string]int {
		p.SetRule(nil)
		mu.Lock() // a request may still be on its way
		defer mu.Unlock()
		return maps.Clone(happened)
	}
}
