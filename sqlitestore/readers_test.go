package sqlitestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/sqlitestore"
)

// A read never waits for a connection while it holds another one: many entities are read at once, with pools of any size.
func TestColdStart(t *testing.T) {
	t.Parallel()
	for _, readers := range []int{1, 2, 8} {
		t.Run(fmt.Sprintf("readers=%d", readers), func(t *testing.T) {
			t.Parallel()
			s := open(t, sqlitestore.Options{})
			sqlitestore.LimitReaders(s, readers)
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					id := annals.PersistenceID(fmt.Sprintf("T|%d", i))
					for after := range annals.SeqNr(2) {
						last, err := ability.Recover(t.Context(), s, id, nil, func(annals.Event) error { return nil })
						if err != nil || last != after {
							t.Errorf("%s: recovered to %d, %v, want %d", id, last, err, after)
						}
						mustAppend(t, s, commit(id, after, 1))
						if last, err := s.Journal().LastSeqNr(t.Context(), id); err != nil || last != after+1 {
							t.Errorf("%s: last number %d, %v, want %d", id, last, err, after+1)
						}
						if _, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: id, DryRun: true}); err == nil {
							t.Errorf("%s would be forgotten", id)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// A function in a transaction uses the writing connection. A read of the outer store needs one of the other connections only.
func TestReadBesideTransaction(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	sqlitestore.LimitReaders(s, 1)
	mustAppend(t, s, commit("T|1", 0, 2))
	err := s.InTx(t.Context(), func(ctx context.Context, _ *sql.Tx, _ annals.Store) error {
		if got := numbers(t, s, "T|1"); len(got) != 2 {
			t.Errorf("outside there are %v", got)
		}
		last, err := ability.Recover(ctx, s, "T|1", nil, func(annals.Event) error { return nil })
		if last != 2 {
			t.Errorf("recovered to %d", last)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A read whose context ends while all connections are in use is not executed, and takes no connection.
func TestReadWithdrawn(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	sqlitestore.LimitReaders(s, 1)
	held, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		err := sqlitestore.HoldReader(s, func() { close(held); <-leave })
		if err != nil {
			t.Error(err)
		}
	})
	<-held
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() { _, err := s.Journal().LastSeqNr(ctx, "T|1"); answer <- err }()
	cancel()
	wantKind(t, <-answer, annals.ErrUnavailable)
	close(leave)
	wg.Wait()
	if _, err := s.Journal().LastSeqNr(t.Context(), "T|1"); err != nil {
		t.Error(err)
	}
}

// Prepared statements for many different criteria, filters and sets of columns do not accumulate.
func TestPreparedStatementsAreBounded(t *testing.T) {
	t.Parallel()
	const columns = 8
	var names, definitions []string
	for i := range columns {
		names = append(names, fmt.Sprintf("c%d", i))
		definitions = append(definitions, fmt.Sprintf("c%d INTEGER", i))
	}
	s := open(t, sqlitestore.Options{
		Init: executing(sqlitestore.StateTable("wide", definitions...)),
		StateTypes: map[string]annals.StateType[*sql.Tx]{"Wide": {Table: "wide", Columns: names,
			Bind: func(s annals.State) (annals.Columns, error) {
				bound := annals.Columns{}
				for i, name := range names {
					if int(s.Revision)>>i&1 == 1 {
						bound[name] = int64(s.Revision)
					}
				}
				return bound, nil
			}}},
	})
	sqlitestore.LimitReaders(s, 1)
	for after := range annals.SeqNr(1 << columns) {
		if _, err := put(s, "Wide|1", after, "x"); err != nil {
			t.Fatal(err)
		}
	}
	last := count(t, s.DB(), `SELECT c7 FROM wide`)
	if last != 1<<columns-1 {
		t.Errorf("column c7 holds %d", last)
	}
	for bits := range 32 {
		f := annals.Filter{KeysOnly: bits&1 != 0}
		if bits&2 != 0 {
			f.Tag = "x"
		}
		if bits&4 != 0 {
			f.Type = "T"
		}
		if bits&8 != 0 {
			f.Slices = annals.SliceRange{From: 1, To: 2}
		}
		if bits&16 != 0 {
			f.Behind = time.Second
		}
		for _, err := range s.Query().Events(t.Context(), f) {
			t.Error("there are no events, but: ", err)
		}
		for _, err := range s.Query().States(t.Context(), f) {
			if err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Query().Newest(t.Context(), f); err != nil {
			t.Error(err)
		}
	}
	if writer, readers := sqlitestore.Statements(s); writer == 0 || writer > sqlitestore.MaxStatements || readers == 0 || readers > sqlitestore.MaxStatements {
		t.Errorf("the writer keeps %d statements, a reader %d; want at most %d", writer, readers, sqlitestore.MaxStatements)
	}
}

// A loop that writes an event for each one that it reads comes to an end, and so does a recovery.
func TestReplayEnds(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	const events = sqlitestore.PageRows + 1
	last, read := annals.SeqNr(0), 0
	write := func(n int) {
		r, err := s.Journal().Append(t.Context(), commit("T|1", last, n))
		if err != nil {
			t.Fatal(err)
		}
		last = r.SeqNr
	}
	write(events)
	for _, err := range s.Journal().Replay(t.Context(), "T|1", 1, annals.MaxSeqNr) {
		if err != nil {
			t.Fatal(err)
		}
		if read++; read > events {
			t.Fatal("the replay has read events that were written when it had begun")
		}
		if write(1); read == 1 {
			write(events - 1)
		}
	}
	n := last
	found, err := ability.Recover(t.Context(), s, "T|1", nil, func(e annals.Event) error {
		if write(1); e.SeqNr == 1 {
			write(events - 1)
		}
		return nil
	})
	if found != n || err != nil {
		t.Errorf("recovered number %d, %v, want %d", found, err, n)
	}
}
