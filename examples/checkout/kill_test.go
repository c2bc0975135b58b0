package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/process"
	"github.com/annals-go/annals/sqlitestore"
)

// killAt makes this test binary a program that settles the file which is its argument, and is killed right after the nth write.
const killAt = "CHECKOUT_KILL_AT"

// late is the time within which an order is to be paid that is not.
const late = 300 * time.Millisecond

// Wherever the program is killed, another one goes on, and every command takes effect once.
func TestKillAtEveryWrite(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "checkout.db")
	say := func(words ...string) {
		if _, err := command(t, file, words...); err != nil {
			t.Fatal(err)
		}
	}
	say("stock", "pen", "4")
	say("place", "late", "pen", "1")
	say("-within", late.String(), "settle")
	due := time.After(late + precision)
	for _, words := range []string{"place paid pen 1", "settle", "pay paid", "place sold-out pen 5", "place open pen 1"} {
		say(strings.Fields(words)...)
	}
	<-due
	begun, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	copied := func(t *testing.T) string {
		file := filepath.Join(t.TempDir(), "checkout.db")
		if err := os.WriteFile(file, begun, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	said, err := settleAndDie(t, copied(t), 0)
	writes, _ := strconv.Atoi(strings.TrimSpace(said))
	if err != nil || writes < 20 {
		t.Fatalf("a program that nobody kills makes %d writes, %v, %s", writes, err, said)
	}
	step := 1
	if testing.Short() {
		step = 4
	}
	for n := 1; n <= writes; n += step {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			file := copied(t)
			said, err := settleAndDie(t, file, n)
			killed := (*exec.ExitError)(nil)
			if err != nil && (!errors.As(err, &killed) || killed.Exited()) {
				t.Fatalf("%v, %s", err, said)
			}
			if err := settle(t.Context(), file, nil, io.Discard); err != nil {
				t.Fatal(err)
			}
			wantOnce(t, file)
		})
	}
}

// events returns the manifests of the events in a file by the id of their entity.
func events(t *testing.T, file string) map[string][]string {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), file, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	found := map[string][]string{}
	for e, err := range store.Query().Events(t.Context(), annals.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		found[string(e.ID)] = append(found[string(e.ID)], e.Manifest)
	}
	return found
}

// wantOnce demands the events of the test's orders, each once, and that one timer is left: the deadline of the open order.
func wantOnce(t *testing.T, file string) {
	t.Helper()
	got := events(t, file)
	slices.Sort(got["Item|pen"])
	for id, want := range map[string][]string{
		"Order|paid":     {"order.placed", "order.confirmed", "order.paid"},
		"Order|sold-out": {"order.placed", "order.cancelled"},
		"Order|late":     {"order.placed", "order.confirmed", "order.cancelled"},
		"Order|open":     {"order.placed", "order.confirmed"},
		"Item|pen":       {"item.added", "item.refused", "item.released", "item.reserved", "item.reserved", "item.reserved", "item.shipped"},
	} {
		if !slices.Equal(got[id], want) {
			t.Errorf("%s has the events %v, want %v", id, got[id], want)
		}
	}
	store, err := sqlitestore.Open(t.Context(), file, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s, err := newShop(store, time.Hour, process.Options{}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for id, timers := range map[string]int{"paid": 0, "sold-out": 0, "late": 0, "open": 1} {
		if n, err := s.flow.Load(t.Context(), id); err != nil || len(n.Timers) != timers || n.Ended != (timers == 0) {
			t.Errorf("the instance of %s is %+v, %v, want %d timers", id, n, err, timers)
		}
	}
	for p, err := range s.flow.Control().Parked(t.Context(), "") {
		t.Errorf("%q is parked, %v", p.ID, err)
	}
}

// settleAndDie runs a program that settles a file and is killed after the nth write; 0: never. It returns what the program printed: how
// many writes it made.
func settleAndDie(t *testing.T, file string, n int) (string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self, file)
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%d", killAt, n))
	said, err := child.CombinedOutput()
	return string(said), err
}

// settle settles a file.
func settle(ctx context.Context, file string, o annals.Observer, out io.Writer) (err error) {
	store, err := sqlitestore.Open(ctx, file, sqlitestore.Options{Observer: o})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s, err := newShop(store, time.Hour, process.Options{Ranges: 1, Lease: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}, out)
	if err != nil {
		return err
	}
	return s.flow.Settle(ctx)
}

// killer is an Observer that kills the process.
type killer struct {
	writes atomic.Int64
	at     int64
}

func (k *killer) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (k *killer) End(_ context.Context, c annals.Call, _ annals.Result) {
	if !slices.Contains([]string{"append", "transaction", "save offsets", "put state"}, c.Op) {
		return
	}
	if k.writes.Add(1) == k.at {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {} // nothing more happens
	}
}
