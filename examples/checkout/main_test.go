package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if n, err := strconv.ParseInt(os.Getenv(killAt), 10, 64); err == nil {
		killer := &killer{at: n}
		if err := settle(context.Background(), os.Args[1], killer, io.Discard); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(killer.writes.Load())
		return
	}
	m.Run()
}

// command runs the program and returns what it printed.
func command(t *testing.T, file string, words ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), append([]string{"-file", file}, words...), &out, io.Discard)
	return strings.TrimSpace(out.String()), err
}

// say demands an answer of the program.
func say(t *testing.T, file, want string, words ...string) {
	t.Helper()
	if got, err := command(t, file, words...); err != nil || got != want {
		t.Errorf("%s: %q, %v, want %q", words, got, err, want)
	}
}

// Orders that are paid, sold out, and not paid in time. Every command is a process of its own.
func TestCheckout(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "checkout.db")
	say(t, file, "3 pieces are free", "stock", "pen", "3")
	say(t, file, "placed", "place", "o-1", "pen", "1")
	if _, err := command(t, file, "pay", "o-1"); err == nil {
		t.Error("an order was paid before it was confirmed")
	}
	say(t, file, "", "settle") // each order at once: which of several gets the pieces is not said
	say(t, file, "placed", "place", "o-2", "pen", "3")
	say(t, file, "", "settle")
	say(t, file, "placed", "place", "o-3", "pen", "2")
	say(t, file, "", "settle")
	say(t, file, "paid", "pay", "o-1")
	say(t, file, "cancelled: sold out", "show", "o-2")
	say(t, file, "confirmed", "show", "o-3")
	if _, err := command(t, file, "show", "o-4"); err == nil {
		t.Error("an order that does not exist was shown")
	}
	say(t, file, "", "settle")
	say(t, file, "1 pieces are free", "stock", "pen", "1") // one is shipped, two are held
}

// A timer that is due while no process runs is found by the next one.
func TestTimerSurvivesRestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "checkout.db")
	say(t, file, "3 pieces are free", "stock", "pen", "3")
	say(t, file, "placed", "place", "o-1", "pen", "1")
	say(t, file, "", "-within=1ms", "settle")
	<-time.After(precision)
	say(t, file, "", "settle")
	say(t, file, "cancelled: it was not paid in time", "show", "o-1")
}

// Two programs work on one file while a third places orders: every order gets its pieces once, and a timer ends it.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "checkout.db")
	say(t, file, "1000 pieces are free", "stock", "pen", "1000")
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			if err := run(ctx, []string{"-file", file, "-within", "200ms", "run"}, io.Discard, io.Discard); err != nil {
				t.Error(err)
			}
		})
	}
	const orders = 20
	for n := range orders {
		say(t, file, "placed", "place", fmt.Sprint(n), "pen", "1")
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(time.Minute); ; <-look.C {
		found := events(t, file)["Item|pen"]
		if slices.Sort(found); len(found) >= 1+2*orders || time.Now().After(end) {
			if want := slices.Concat([]string{"item.added"}, slices.Repeat([]string{"item.released"}, orders), slices.Repeat([]string{"item.reserved"}, orders)); !slices.Equal(found, want) {
				t.Errorf("the item has the events %v", found)
			}
			break
		}
	}
	stop()
	running.Wait()
	say(t, file, "1001 pieces are free", "stock", "pen", "1")
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{{}, {"sing"}, {"pay"}, {"pay", "o-1", "now"}, {"-loud"}, {"stock", "pen"}, {"run", "fast"}} {
		if _, err := command(t, filepath.Join(t.TempDir(), "checkout.db"), words...); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", words, err)
		}
	}
	if _, err := command(t, filepath.Join(t.TempDir(), "checkout.db"), "stock", "pen", "many"); err == nil {
		t.Error("a number was made of a word")
	}
}
