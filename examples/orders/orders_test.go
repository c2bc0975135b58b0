package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/servers/postgres"
)

func TestMain(m *testing.M) {
	// For the DynamoDB of the tests.
	_ = os.Setenv("AWS_ACCESS_KEY_ID", "test")
	_ = os.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	defer postgres.Stop()
	dynamo.Main(m)
}

const tour = `
# health
the store can be read and written

# an append and the program's own table in one transaction
the second order is sold out: true
order 1: 1 events, 1 messages
order 2: 0 events, 0 messages
pens left: 0

# a view, and its number as an ETag
the order is placed at number 1
with an old number it is a conflict: true
with its number the order becomes paid, at number 2

# event time and metadata in a behavior, metadata of a state
31 minutes after it was placed it is too late to cancel: true
placed by ann; not before the last change: true
cancelled by eve; not before the last change: true
the stock was changed by ann in request-1

# a snapshot of another shape
the order is at number 1 with 1 change, by ann

# an Observer that links the traces of all callers of a batch
of 20 callers at once, 20 find the write that stored their command

# a copy keeps times, numbers and revisions
the event has number 2; it has the same time: true
the stock has revision 8

# forgetting an order that is in memory
forgotten: status "", number 0
the id can be used again: placed, number 1
`

// The program has the same output on every store, also when its tables exist already.
func TestTour(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]string{
		"memory":   "mem:",
		"sqlite":   "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "orders.db")),
		"postgres": postgres.Schema(t),
		"dynamodb": "dynamodb:?region=local&table=orders-" + rand.Text() + "&endpoint=" + dynamo.Endpoint(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 {
				if err := run(t.Context(), []string{"-store", store, "migrate"}, io.Discard, io.Discard); err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				if err := run(t.Context(), []string{"-store", store, "tour"}, &out, io.Discard); err != nil {
					t.Fatalf("%v, after\n%s", err, out.String())
				}
				if out.String() != tour {
					t.Errorf("the program said\n%s\nwant\n%s", out.String(), tour)
				}
			}
			var out bytes.Buffer
			if err := run(t.Context(), []string{"-store", store, "check"}, &out, io.Discard); err != nil || out.String() != "the store can be read and written\n" {
				t.Errorf("check: %v, %s", err, out.String())
			}
		})
	}
}

// A store that is not migrated is not opened. Memory is the exception: it has nothing to migrate.
func TestNotMigrated(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]string{
		"sqlite":   "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "orders.db")),
		"postgres": postgres.Schema(t),
		"dynamodb": "dynamodb:?region=local&table=orders-" + rand.Text() + "&endpoint=" + dynamo.Endpoint(t),
	} {
		if err := run(t.Context(), []string{"-store", store, "check"}, io.Discard, io.Discard); err == nil {
			t.Errorf("%s: a store without tables was opened", name)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"nonsense"}, {"-nonsense"}, {"tour", "twice"}} {
		var log bytes.Buffer
		if err := run(t.Context(), args, io.Discard, &log); !errors.Is(err, errUsage) || !strings.Contains(log.String(), "usage: orders") {
			t.Errorf("%q: %v, %s", args, err, log.String())
		}
	}
	for _, store := range []string{"file:x", "postgres://u:secret%@h/d"} {
		if err := run(t.Context(), []string{"-store", store, "check"}, io.Discard, io.Discard); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", store, err)
		}
	}
}

// Without times of events every order would be too old to be cancelled.
func TestStoreWithoutTimes(t *testing.T) {
	t.Parallel()
	if _, err := newShop(&backend{store: driver.Unsupported()}, newTraces()); err == nil || !strings.Contains(err.Error(), "Times") {
		t.Error(err)
	}
}
