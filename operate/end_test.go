package operate_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/operate"
)

// full is a file on a disk that is full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// A prune of ids begins with the first of them, so a place to begin is a mistake.
func TestPruneOfIDsHasNoBeginning(t *testing.T) {
	t.Parallel()
	o := run(t, config(memstore.New()), "prune", "a", "--after", "b", "--json")
	if _, code := parsed(t, o); o.status != 3 || code != "usage" {
		t.Errorf("%+v", o)
	}
}

// A command that cannot print its answer says so.
func TestOutputFails(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	metered(t, s, "a", 1)
	for _, args := range []string{"ids", "show Meter|a", "show nothing --at 1", "tail"} {
		for _, format := range []string{"", " --json"} {
			var errs bytes.Buffer
			command := operate.Command(config(s))
			command.SetOut(full{})
			command.SetErr(&errs)
			command.SetArgs(strings.Fields(args + format))
			if status := operate.ExitStatus(command.Execute()); status < 3 || errs.Len() == 0 || format != "" && !strings.Contains(errs.String(), "annals: no space left\n") {
				t.Errorf("%s%s: status %d, %q", args, format, status, errs.String())
			}
		}
	}
}

// What fails ends tail and trace, which would be silent as long as it fails. With --follow the command waits for the store.
func TestTailAndTraceOfAFaultyStore(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"tail --after 0", "trace x", "tail --after 0 --follow"} {
		synctest.Test(t, func(t *testing.T) {
			s := memstore.New()
			metered(t, s, "a", 1)
			failing := &faulty.Store{Store: s, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
				if c.Op == "query events" {
					return faulty.Failed(c)
				}
				return run()
			}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			want := "unavailable"
			if strings.Contains(args, "follow") {
				want = ""
			}
			o := runWith(ctx, config(failing), append(strings.Fields(args), "--store", "mem:", "--json")...)
			if want == "" {
				if o.status != 0 || o.text != "" {
					t.Errorf("%s: %+v", args, o)
				}
			} else if _, code := parsed(t, o); o.status != 4 || code != want {
				t.Errorf("%s: %+v", args, o)
			}
		})
	}
}

// An interrupt is no answer: what was not looked at is not well.
func TestInterruptIsNoAnswer(t *testing.T) {
	t.Parallel()
	for args, op := range map[string]string{"doctor": "query ids", "show Meter|a": "replay"} {
		s := memstore.New()
		metered(t, s, "a", 1)
		ctx, interrupt := context.WithCancel(t.Context())
		times := 0
		cut := &faulty.Store{Store: s, Around: func(ctx context.Context, c *faulty.Call, run func() error) error {
			if c.Op == op {
				if times++; op != "replay" || times == 2 { // the first one is for the events
					interrupt()
				}
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return run()
		}}
		k := config(cut)
		k.Setups = operate.Setups{"mem": found{[]ability.Finding{}}.open}
		o := runWith(ctx, k, append(strings.Fields(args), "--store", "mem:", "--json")...)
		if _, code := parsed(t, o); o.status != 2 || code != "interrupted" {
			t.Errorf("%s: %+v", args, o)
		}
		interrupt()
	}
}

// slow is a store whose Close does not return.
type slow struct{ annals.Store }

func (slow) Close() error { select {} }

// A second interrupt ends a command that the first one does not end.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	if os.Getenv("ANNALS_TEST_CHILD") != "" {
		k := config(nil)
		k.Stores["mem"] = func(context.Context, *url.URL) (annals.Store, error) { return slow{memstore.New()}, nil }
		command := operate.Command(k)
		command.SetArgs([]string{"serve", "--json"})
		os.Exit(operate.ExitStatus(command.Execute()))
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSecondInterrupt$") //nolint:gosec // the test itself
	child.Env = append(slices.Clone(os.Environ()), "ANNALS_TEST_CHILD=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- child.Wait() }()
	// When the first one has been taken notice of cannot be seen from outside, so there are more.
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	for late := time.After(20 * time.Second); ; {
		select {
		case <-ticks.C:
			_ = child.Process.Signal(os.Interrupt)
		case err := <-ended:
			exit, ok := errors.AsType[*exec.ExitError](err)
			if status, is := exit.Sys().(syscall.WaitStatus); !ok || !is || status.Signal() != syscall.SIGINT {
				t.Error(err)
			}
			return
		case <-late:
			_ = child.Process.Kill()
			<-ended
			t.Fatal("the command goes on")
		}
	}
}

// panicking is a codec with a defect.
type panicking[T any] struct{ codec.Codec[T] }

func (panicking[T]) Decode(annals.Payload) (v T, err error) {
	panic("a defect, with a part of a payload")
}

// A codec of the program that panics ends no command: verify finds what it cannot read. Its text is hidden with payloads.
func TestCodecPanics(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	metered(t, s, "a", 2)
	limited(t, s, "b")
	if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "Meter|a", SeqNr: 1, Payload: annals.Payload{SerializerID: 31, Manifest: "total", Data: []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	c := config(s)
	broken, state := meter, limit
	broken.Events, broken.States, state.States = panicking[added]{meter.Events}, panicking[total]{meter.States}, panicking[total]{limit.States}
	c.Entities = []operate.Entity{operate.Sourced(broken), operate.Durable(state)}
	for args, want := range map[string]struct {
		status int
		code   string
	}{
		"verify": {1, "codec"}, "prune Meter|a": {1, "dry-run"}, "test Meter|a": {4, "panic"}, "show Meter|a": {0, "end"}, "show Limit|b": {0, "end"},
		"show Meter|a --hide-payloads": {0, "end"}, "show Meter|a --at 1 --hide-payloads": {4, "panic"}, "show Limit|b --try 5 --hide-payloads": {4, "panic"},
	} {
		o := run(t, c, append(strings.Fields(args), "--json")...)
		if _, code := parsed(t, o); o.status != want.status || code != want.code || strings.Contains(args, "hide") && strings.Contains(o.text, "a part of a payload") {
			t.Errorf("%s: %+v", args, o)
		}
	}
}
