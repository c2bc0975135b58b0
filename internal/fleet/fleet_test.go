// Package fleet tests what a service of several processes promises to its users, on every store, while processes are killed and new releases
// are rolled out.
package fleet

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/internal/servers/process"
)

var rollouts = flag.Int("rollouts", 1, "how many times all releases are rolled out")

const (
	members = 2
	clients = 6
	// shared is how many customers all clients write to.
	shared = 4
)

// Two processes serve the same customers. They are killed or stopped and started again, with the next release, while clients add keys and customers are
// forgotten. Every key that was acknowledged is there once, whatever process answers, and nothing of a forgotten customer comes back. No request is
// refused, other than by a process that the test stops.
func TestFleet(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"sqlite":   "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "fleet.db")),
		"postgres": postgres.Schema(t),
		"dynamodb": "dynamodb:?region=local&table=fleet-" + rand.Text() + "&endpoint=" + dynamo.Endpoint(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range *rollouts {
				(&fleet{T: t, random: random.New(t), url: url, name: rand.Text()[:8]}).run()
			}
		})
	}
}

type fleet struct {
	*testing.T
	random    *random.Source
	url, name string
	members   [members]atomic.Pointer[member]
	keys      [shared]struct {
		sync.Mutex
		acknowledged map[string]annals.SeqNr // by key, with the number of the answer
	}
}

// member is a process of the fleet.
type member struct {
	address string
	stopped atomic.Bool // by the test
}

func (f *fleet) run() {
	stops := make([]func(), members)
	for i := range members {
		stops[i] = f.start(i, 0)
		defer func() { stops[i]() }()
	}
	ctx, stop := context.WithCancel(f.Context())
	defer stop()
	for n := range shared {
		f.keys[n].acknowledged = map[string]annals.SeqNr{}
	}
	var all sync.WaitGroup
	for range clients {
		all.Go(func() { f.add(ctx) })
	}
	all.Go(func() { f.forget(ctx) })
	for release := range releases {
		for range 2 { // a release runs beside itself, too
			for i := range members {
				f.pause(ctx, 100*time.Millisecond+f.random.Below(300*time.Millisecond))
				stops[i]()
				stops[i] = f.start(i, release)
			}
		}
	}
	f.pause(ctx, 300*time.Millisecond)
	stop()
	all.Wait()
	total := 0
	for n := range shared {
		want := f.keys[n].acknowledged
		total += len(want)
		for i := range members {
			t, err := f.ask(f.Context(), i, http.MethodGet, f.customer(n))
			slices.Sort(t.Keys)
			if missing := missingOf(want, t.Keys); err != nil || len(missing) > 0 || len(slices.Compact(slices.Clone(t.Keys))) != len(t.Keys) {
				f.Errorf("customer %d, member %d: %d keys, want %d, each once, and %v; %v", n, i, len(t.Keys), len(want), missing, err)
			}
		}
	}
	f.Logf("%d keys", total)
}

func missingOf(want map[string]annals.SeqNr, got []string) map[string]annals.SeqNr {
	missing := maps.Clone(want)
	for _, key := range got {
		delete(missing, key)
	}
	return missing
}

func (f *fleet) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (f *fleet) customer(n int) string { return f.name + "-" + strconv.Itoa(n) }

// start starts member i in place of the one that runs. stop kills the member, or asks it to stop.
func (f *fleet) start(i, release int) (stop func()) {
	f.Helper()
	signal := random.OneOf(f.random, syscall.SIGKILL, syscall.SIGTERM)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), storeURL+"="+f.url, releaseNo+"="+strconv.Itoa(release))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.Fatal(err)
	}
	p, err := process.Start(cmd, signal)
	if err != nil {
		f.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.Stop()
		f.Fatalf("member %d, release %d: %v", i, release, err)
	}
	m := &member{address: strings.TrimSpace(line)}
	f.members[i].Store(m)
	return sync.OnceFunc(func() {
		m.stopped.Store(true)
		p.Stop()
	})
}

// errStopped is the error of a request to a member that the test has stopped. The command may have been stored.
var errStopped = errors.New("the member was stopped")

// ask sends a request to a member.
func (f *fleet) ask(ctx context.Context, i int, method, path string) (Total, error) {
	m := f.members[i].Load()
	t, err := send(ctx, method, m.address+"/"+path)
	if r := (*refusal)(nil); err != nil && m.stopped.Load() && (!errors.As(err, &r) || r.status == http.StatusServiceUnavailable || r.status == http.StatusNotFound) {
		err = errStopped
	}
	return t, err
}

type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return fmt.Sprintf("%d: %s", r.status, r.text) }

func send(ctx context.Context, method, url string) (t Total, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return t, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return t, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = &refusal{response.StatusCode, string(body)}
	}
	if err != nil {
		return t, err
	}
	return t, json.Unmarshal(body, &t)
}

// must repeats a request, to any member, until it is answered. ok is false when ctx has ended.
func (f *fleet) must(ctx context.Context, method, path string) (t Total, ok bool) {
	for ctx.Err() == nil {
		t, err := f.ask(ctx, f.random.IntN(members), method, path)
		if err == nil {
			return t, true
		}
		if !errors.Is(err, errStopped) && ctx.Err() == nil {
			f.Errorf("refused: %s %s: %v", method, path, err)
		}
		f.pause(ctx, 10*time.Millisecond)
	}
	return t, false
}

// add adds keys to the shared customers.
func (f *fleet) add(ctx context.Context) {
	for ctx.Err() == nil {
		n, key := f.random.IntN(shared), rand.Text()
		t, ok := f.must(ctx, http.MethodPost, f.customer(n)+"/"+key)
		if !ok {
			return
		}
		if !slices.Contains(t.Keys, key) || len(t.Keys) != int(t.SeqNr) {
			f.Errorf("the answer has %d keys at number %d, and %s is there: %t", len(t.Keys), t.SeqNr, key, slices.Contains(t.Keys, key))
		}
		f.keys[n].Lock()
		f.keys[n].acknowledged[key] = t.SeqNr
		f.keys[n].Unlock()
	}
}

// forget lets every member know a customer, lets one of them delete it, and looks what all of them say. Each id is used twice: a delete leaves
// the last number and takes one more.
func (f *fleet) forget(ctx context.Context) {
	number := 0
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("%s-forgotten-%d", f.name, n/2)
		if n%2 == 0 {
			number = 0
		}
		keys := 1 + f.random.IntN(4)
		for range keys {
			if _, ok := f.must(ctx, http.MethodPost, id+"/"+rand.Text()); !ok {
				return
			}
		}
		number += keys
		f.all(ctx, id, keys, number)
		if _, ok := f.must(ctx, http.MethodDelete, id); !ok {
			return
		}
		number++
		f.all(ctx, id, 0, number)
	}
}

// all asks all members how many keys a customer has, and at which number.
func (f *fleet) all(ctx context.Context, id string, keys, number int) {
	for i := range members {
		switch t, err := f.ask(ctx, i, http.MethodGet, id); {
		case err != nil && !errors.Is(err, errStopped) && ctx.Err() == nil:
			f.Errorf("refused: member %d, %s: %v", i, id, err)
		case err == nil && (len(t.Keys) != keys || int(t.SeqNr) != number):
			f.Errorf("member %d says %d keys of %s at number %d, want %d at %d", i, len(t.Keys), id, t.SeqNr, keys, number)
		}
	}
}
