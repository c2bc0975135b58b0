package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqltx"
	"github.com/annals-go/annals/verify"
)

// The rehearsal of docs/guide/production.md: a copy that was taken while the service worked is sound, its list agrees with its events, and a
// service goes on with it.
func TestBackup(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	original, restored := filepath.Join(folder, "accounts.db"), filepath.Join(folder, "copy.db")
	r := &reader{store: "sqlite:" + filepath.ToSlash(original)}
	r.take(t, "go run . migrate")
	r.take(t, "go run . serve")
	defer func() { r.stop(t) }()
	enough, done := make(chan struct{}), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			r.curl(t, []string{"-X", "POST", fmt.Sprintf("localhost:8080/accounts/account-%d/deposits", i%10), "-H", fmt.Sprintf("Idempotency-Key: %d", i), "-d", `{"cents": 1}`})
			if i == 100 {
				close(enough)
			}
		}
	}()
	select {
	case <-enough:
	case <-done: // a request has failed
	}
	copyDatabase(t, original, restored)
	stop()
	<-done
	r.stop(t)

	r.store = "sqlite:" + filepath.ToSlash(restored)
	r.take(t, "go run . migrate") // a copy has no write-ahead log
	store, err := open(t.Context(), r.store, false)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for checked, err := range verify.Store(t.Context(), store, verify.Options{Type: account.Type}) {
		if err != nil || len(checked.Found) > 0 {
			t.Errorf("%v: found %v, %v", checked.ID, checked.Found, err)
		}
	}
	accounts, err := aggregate.New(store, account, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if balance, err := accounts.Ask(t.Context(), "bob", Deposit{7}); balance != 7 || err != nil {
		t.Error(balance, err)
	}
	balances, err := newBalances(store, projection.Options{Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop = context.WithCancel(t.Context())
	following := make(chan error, 1)
	go func() { following <- balances.Run(ctx) }()
	r.catchUp(t)
	stop()
	if err := <-following; err != nil {
		t.Error(err)
	}
	compareBalances(t, store, accounts)
}

// copyDatabase copies a database that is in use.
func copyDatabase(t *testing.T, from, to string) {
	t.Helper()
	db, err := sql.Open("sqlite", from)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `VACUUM INTO ?`, to); err != nil {
		t.Fatal(err)
	}
}

// compareBalances compares the read model with the events.
func compareBalances(t *testing.T, store sqltx.Store, accounts *aggregate.Repository[Command, int64, int64]) {
	t.Helper()
	rows := 0
	err := store.Read(t.Context(), func(scan func(...any) error) error {
		var name string
		var cents int64
		if err := scan(&name, &cents); err != nil {
			return err
		}
		rows++
		balance, _, err := accounts.Load(t.Context(), name)
		if balance != cents {
			t.Errorf("%s has %d, the list says %d", name, balance, cents)
		}
		return err
	}, `SELECT account, cents FROM balances`)
	if err != nil {
		t.Fatal(err)
	}
	ids := 0
	for _, err := range store.Query().IDs(t.Context(), account.Type, "") {
		if err != nil {
			t.Fatal(err)
		}
		ids++
	}
	if rows != 11 || ids != rows {
		t.Errorf("%d accounts, %d in the list", ids, rows)
	}
}
