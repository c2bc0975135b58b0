package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/annals-go/annals/internal/servers/postgres"
)

// connect connects to a server through a proxy.
func connect(t *testing.T, url string) (*postgres.FaultProxy, *pgx.Conn) {
	t.Helper()
	p, err := postgres.NewFaultProxy(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	conn, err := pgx.Connect(t.Context(), p.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return p, conn
}

// Each fault has the effect on client and server that its comment describes.
func TestFaultProxy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  postgres.Fault
		errs   bool // the client gets an error
		silent bool // the client gets no answer, until its context ends
		row    bool // the client gets the row
		stored bool
	}{
		"none":      {fault: postgres.Fault{}, row: true, stored: true},
		"delay":     {fault: postgres.Fault{Delay: time.Millisecond}, row: true, stored: true},
		"refuse":    {fault: postgres.Fault{Refuse: true}, errs: true},
		"terminate": {fault: postgres.Fault{Terminate: true}, errs: true},
		"lose":      {fault: postgres.Fault{LoseAnswer: true}, errs: true, stored: true},
		"cut":       {fault: postgres.Fault{CutAnswer: true}, errs: true, row: true, stored: true},
		"abandon":   {fault: postgres.Fault{Abandon: 10 * time.Millisecond}, errs: true, stored: true},
		"swallow":   {fault: postgres.Fault{Swallow: true}, errs: true, silent: true},
		"keep open": {fault: postgres.Fault{LoseAnswer: true, KeepOpen: true}, errs: true, silent: true, stored: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := postgres.Schema(t)
			exec(t, url, "CREATE TABLE here (x int)")
			p, conn := connect(t, url)
			direct, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer direct.Close(t.Context())
			stored := func() (rows int) {
				for began := time.Now(); time.Since(began) < 10*time.Second; { // an abandoned request arrives late
					if err := direct.QueryRow(t.Context(), "SELECT count(*) FROM here").Scan(&rows); err != nil || !c.stored || rows > 0 {
						return rows
					}
				}
				return rows
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			seen, written := map[postgres.Kind]int{}, make(chan struct{}, 1)
			p.SetRule(func(r postgres.Request) postgres.Fault {
				seen[r.Kind] = r.Number
				if r.Kind == postgres.Write {
					written <- struct{}{}
					return c.fault
				}
				return postgres.Fault{}
			})
			var end sync.WaitGroup
			if c.silent {
				end.Go(func() {
					select {
					case <-written:
						stored()
					case <-ctx.Done():
					}
					cancel()
				})
			}
			began, row := time.Now(), 0
			rows, err := conn.Query(ctx, "INSERT INTO here VALUES ($1) RETURNING x", 7)
			if err == nil {
				for rows.Next() {
					_ = rows.Scan(&row)
				}
				err = rows.Err()
			}
			if (err != nil) != c.errs || (row == 7) != c.row {
				t.Errorf("the client got row %d, error %v", row, err)
			}
			if e := (*pgconn.PgError)(nil); c.fault.Terminate && (!errors.As(err, &e) || e.Code != "57P01") {
				t.Errorf("got error %v, want 57P01", err)
			}
			if c.silent != errors.Is(err, context.Canceled) {
				t.Errorf("got error %v, want an answer: %v", err, !c.silent)
			}
			if took := time.Since(began); took < c.fault.Delay {
				t.Errorf("took %v, want at least %v", took, c.fault.Delay)
			}
			end.Wait()
			p.SetRule(nil)
			if seen[postgres.Prepare] != 1 || seen[postgres.Write] != 1 {
				t.Errorf("the rule saw %v", seen)
			}
			if err == nil {
				if err := conn.QueryRow(t.Context(), "SELECT x FROM here").Scan(&row); err != nil {
					t.Error("the connection is used again: ", err)
				}
			}
			if n := stored(); (n == 1) != c.stored {
				t.Errorf("%d rows are stored, want stored %v", n, c.stored)
			}
		})
	}
}

// New connections are refused or get no answer, and Cut closes those that are open.
func TestFaultsOfConnections(t *testing.T) {
	t.Parallel()
	p, conn := connect(t, postgres.Schema(t))
	for _, fault := range []postgres.Fault{{Refuse: true}, {Swallow: true}} {
		p.SetRule(func(r postgres.Request) postgres.Fault {
			if r.Kind == postgres.Connect {
				return fault
			}
			return postgres.Fault{}
		})
		patience := time.Minute
		if fault.Swallow {
			patience = 100 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if _, err := pgx.Connect(ctx, p.URL); err == nil || fault.Swallow != (ctx.Err() != nil) {
			t.Errorf("%+v: got %v, %v", fault, err, ctx.Err())
		}
		cancel()
		if _, err := conn.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Errorf("%+v: the connection that was open: %v", fault, err)
		}
	}
	p.Cut()
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("a connection answers after Cut")
	}
}
