package operate_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/projection"
)

// await waits for an event that is handled later, and pause and resume stop and start a runner.
func TestProjectionWhileItRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		metered(t, s, "a", 3)
		handled := 0
		source := projection.Source[added]{Store: s, Type: "Meter", Codec: meter.Events}
		r, err := projection.AtLeastOnce("sums", source, s, func(context.Context, projection.Envelope[added]) error { handled++; return nil }, projection.Options{Ranges: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		expect := func(status int, text string, args ...string) {
			t.Helper()
			if o := run(t, config(s), append([]string{"projection"}, args...)...); o.status != status || !strings.Contains(o.text+o.errors, text) {
				t.Errorf("%s: %+v", args, o)
			}
		}
		expect(0, "has handled event 3", "await", "sums", "Meter|a", "3")
		expect(0, "lag: 0 events", "status", "sums")
		expect(0, "no runner", "pause", "sums")
		metered(t, s, "b", 2)
		time.Sleep(time.Minute)
		expect(2, "not handled within 10s", "await", "sums", "Meter|b", "2", "--timeout", "10s")
		expect(0, "lag: 2 events, the oldest waits 1m10s", "status", "sums")
		expect(0, "resumed", "resume", "sums")
		expect(0, "has handled event 2", "await", "sums", "Meter|b", "2")
		expect(0, "would handle all", "reset", "sums")
		expect(0, "handles all", "reset", "sums", "--yes")
		expect(0, "has handled event 3", "await", "sums", "Meter|a", "3")
		if stop(); <-ended != nil || handled != 10 {
			t.Errorf("handled %d", handled)
		}
		expect(1, "nobody", "status", "sums")
	})
}

// A pause that is interrupted while it waits for a handler stays, and the command says so.
func TestPauseIsInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		metered(t, s, "a", 1)
		returns := make(chan struct{})
		source := projection.Source[added]{Store: s, Type: "Meter", Codec: meter.Events}
		r, err := projection.AtLeastOnce("sums", source, s, func(context.Context, projection.Envelope[added]) error { <-returns; return nil }, projection.Options{Ranges: 1})
		if err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(running) }()
		synctest.Wait()
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, interrupt)
		o := runWith(ctx, config(s), "--store", "mem:", "projection", "pause", "sums")
		if want := "it may be paused\n  next: annals projection resume sums\n"; o.status != 2 || o.text != want || o.errors != "annals: interrupted\n" {
			t.Errorf("%+v, want %q", o, want)
		}
		stop()
		close(returns)
		<-ended
	})
}

// retry --error retries the parked entities with this error, and no others.
func TestRetryByError(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		says    string
		status  int
		retried []annals.PersistenceID
	}{
		"broken\u202e\n":        {"a retry of 2 entities is ordered", 0, []annals.PersistenceID{"Meter|a", "Meter|b"}}, // as it is
		`broken\u202e\n`:        {"a retry of 2 entities is ordered", 0, []annals.PersistenceID{"Meter|a", "Meter|b"}}, // as parked shows it
		"other":                 {"a retry of 1 entity is ordered", 0, []annals.PersistenceID{"Meter|c"}},
		"":                      {"no entity is parked with this error", 0, nil},
		"none":                  {"no entity is parked with this error", 0, nil},
		"other Meter|a":         {"retry takes a projection, and ids, --all or --error", 3, nil},
		"other --all":           {"retry takes a projection, and ids, --all or --error", 3, nil},
		"other\x00nothing else": {"no entity is parked with this error", 0, nil},
	} {
		s := memstore.New()
		parkAll(t, s, "sums", "broken\u202e\n", "broken\u202e\n", "other")
		args := []string{"projection", "retry", "sums", "--error"}
		if rest, ok := strings.CutPrefix(text, "other "); ok {
			args = append(args, "other", rest)
		} else {
			args = append(args, text)
		}
		if o := run(t, config(s), args...); o.status != want.status || !strings.Contains(o.text+o.errors, want.says) {
			t.Errorf("%q: %+v", text, o)
		}
		var retried []annals.PersistenceID
		for e, err := range projection.NewControl(s, "sums").Parked(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if e.Retry {
				retried = append(retried, e.ID)
			}
		}
		if slices.Sort(retried); !slices.Equal(retried, want.retried) {
			t.Errorf("%q retries %q", text, retried)
		}
	}
}

// A change that the projection does not allow as it is now is a wrong command, and the next one shows how it is.
func TestRefusedChange(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	parkAll(t, s, "sums", "broken")
	for _, args := range [][]string{{"retry", "sums", "Meter|none"}, {"discard", "sums", "Meter|none", "--to", "all", "--yes"}} {
		o := run(t, config(s), append([]string{"projection"}, args...)...)
		if o.status != 3 || !strings.Contains(o.errors, "is not parked\n  next: annals projection parked sums\n") {
			t.Errorf("%q: %+v", args, o)
		}
	}
}

// tail shows what is there, then what comes, until it is interrupted.
func TestTailFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		metered(t, s, "old", 1)
		time.Sleep(time.Hour)
		metered(t, s, "a", 2)
		limited(t, s, "none")
		r, w := io.Pipe()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() {
			c := operate.Command(config(s))
			c.SetOut(w)
			c.SetArgs([]string{"--store", "mem:", "tail", "-f", "--type", "Meter"})
			ended <- operate.ExitStatus(c.ExecuteContext(ctx))
		}()
		next := func(want string) {
			t.Helper()
			b := make([]byte, 1000)
			n, err := r.Read(b)
			if err != nil || !strings.HasPrefix(string(b[:n]), want) {
				t.Errorf("%q, %v, want %q", b[:n], err, want)
			}
		}
		next("Meter|a  1  ")
		next("Meter|a  2  ")
		metered(t, s, "b", 1)
		next("Meter|b  1  ")
		if stop(); <-ended != 0 {
			t.Error("an interrupt is a failure")
		}
	})
}

// A store that cannot list projections: the names that the program knows are listed, with a word about it.
func TestNamesOfTheProgram(t *testing.T) {
	t.Parallel()
	c := config(blind{memstore.New()})
	if o := run(t, c, "--json", "projection", "list"); o.status != 4 || !strings.Contains(o.text, `"code":"unsupported"`) {
		t.Errorf("%+v", o)
	}
	c.Projections = []string{"sums"}
	if o := run(t, c, "projection", "list"); o.status != 0 || !strings.Contains(o.text, "sums\nthe store cannot list projections") {
		t.Errorf("%+v", o)
	}
}

// blind is a store that cannot list ids.
type blind struct{ annals.Store }

func (b blind) Capabilities() annals.Capabilities {
	c := b.Store.Capabilities()
	c.IDQueries = false
	return c
}
