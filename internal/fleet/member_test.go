package fleet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/sqlitestore"
)

// A test process with storeURL in its environment is a member of the fleet: a service of the release that releaseNo says.
const (
	storeURL  = "FLEET_STORE"
	releaseNo = "FLEET_RELEASE"
)

func TestMain(m *testing.M) {
	// For the DynamoDB of the tests.
	_ = os.Setenv("AWS_ACCESS_KEY_ID", "test")
	_ = os.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	if url := os.Getenv(storeURL); url != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := serve(ctx, url, os.Getenv(releaseNo), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	defer postgres.Stop()
	dynamo.Main(m)
}

var stores = annals.Openers{
	"sqlite":   sqlitestore.Options{}.OpenURL,
	"postgres": pgstore.Options{CreateTables: true}.OpenURL,
	"dynamodb": dynamostore.Options{CreateTables: true}.OpenURL,
}

// Added is the event: a key, which is added once. The second version can have several.
type (
	Added   struct{ Key string }
	AddedV2 struct{ Keys []string }
)

func lift(v Added) (AddedV2, error)  { return AddedV2{[]string{v.Key}}, nil }
func lower(v AddedV2) (Added, error) { return Added{v.Keys[0]}, nil }

// Total is the state and the reply.
type Total struct {
	Keys  []string
	SeqNr annals.SeqNr
}

// releases are the releases of the service, in the order in which they are rolled out.
var releases = []func(annals.Store) (*entity.Runtime[string, []string, []string], error){
	func(s annals.Store) (*entity.Runtime[string, []string, []string], error) {
		return start(s, codec.JSON[Added]("added"), oneKey, keyOf)
	},
	func(s annals.Store) (*entity.Runtime[string, []string, []string], error) {
		return start(s, codec.JSON("added", codec.Was(codec.JSON[AddedV2]("added#2"), lower)), oneKey, keyOf)
	},
	func(s annals.Store) (*entity.Runtime[string, []string, []string], error) {
		return start(s, codec.JSON("added#2", codec.Was(codec.JSON[Added]("added"), lift)), func(key string) AddedV2 { return AddedV2{[]string{key}} }, func(e AddedV2) []string { return e.Keys })
	},
}

func oneKey(key string) Added   { return Added{key} }
func keyOf(e Added) []string    { return []string{e.Key} }
func unchanged(string) []string { return nil }

func start[E any](s annals.Store, events codec.Codec[E], event func(key string) E, keys func(E) []string) (*entity.Runtime[string, []string, []string], error) {
	return entity.New(s, behavior.EventSourced[string, E, []string, []string]{
		Type:   "Customer",
		Events: events,
		States: codec.JSON[[]string]("keys"),
		Init:   unchanged,
		Decide: func(all []string, key string) ([]E, error) {
			if slices.Contains(all, key) {
				return nil, nil // a repetition
			}
			return []E{event(key)}, nil
		},
		Evolve:        func(all []string, e E) []string { return append(slices.Clip(all), keys(e)...) },
		Reply:         func(all []string, _ string, _ []E) []string { return all },
		SnapshotEvery: 10,
	}, entity.Options{Logger: slog.New(slog.DiscardHandler)})
}

// serve is a member. It writes its address to out.
func serve(ctx context.Context, url, release string, out io.Writer) (err error) {
	n, err := strconv.Atoi(release)
	if err != nil {
		return err
	}
	store, err := stores.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	customers, err := releases[n](store)
	if err != nil {
		return err
	}
	cleaner, err := cleanup.New(store, cleanup.Options{})
	if err != nil {
		return err
	}
	// The path begins with a text that no other process has. A request that comes after the member has stopped may reach another one, of
	// another store, that listens at the same address.
	routes, own := http.NewServeMux(), rand.Text()
	routes.HandleFunc("POST /"+own+"/{id}/{key}", func(w http.ResponseWriter, r *http.Request) {
		done, err := customers.Do(r.Context(), r.PathValue("id"), r.PathValue("key"))
		answer(w, Total{done.Reply, done.SeqNr}, err)
	})
	routes.HandleFunc("GET /"+own+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		keys, n, err := customers.Load(r.Context(), r.PathValue("id"))
		answer(w, Total{keys, n}, err)
	})
	routes.HandleFunc("DELETE /"+own+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		_, err := cleaner.ForgetEntities(r.Context(), cleanup.IDs(annals.NewPersistenceID("Customer", r.PathValue("id"))))
		answer(w, Total{}, err)
	})
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: routes, ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	fmt.Fprintf(out, "http://%s/%s\n", listener.Addr(), own)
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(grace), customers.Shutdown(grace))
}

func answer(w http.ResponseWriter, t Total, err error) {
	switch {
	case err == nil:
		_ = json.NewEncoder(w).Encode(t)
	case errors.Is(err, annals.ErrUnknown), errors.Is(err, annals.ErrClosed), errors.Is(err, annals.ErrUnavailable):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
