package projection_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
)

// wall is an HTTP service. Its commands go to threads, and its reads to a read model that counts the messages of an author in all threads.
type wall struct {
	store   *memstore.Store
	threads *aggregate.Repository[Posted, int, int]
	model   *projection.Control
}

// post answers with the place of the event, which a client hands over when it reads.
func (s wall) post(w http.ResponseWriter, r *http.Request) {
	thread := r.PathValue("thread")
	posted, err := s.threads.Do(r.Context(), thread, Posted{Author: r.FormValue("author"), Text: r.FormValue("text")})
	if err != nil {
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Location", fmt.Sprintf("/authors/%s?thread=%s&number=%d", r.FormValue("author"), thread, posted.SeqNr))
	w.WriteHeader(http.StatusCreated)
}

// count waits until the read model has the event that the client names.
func (s wall) count(w http.ResponseWriter, r *http.Request) {
	if thread := r.FormValue("thread"); thread != "" {
		number, err := strconv.ParseInt(r.FormValue("number"), 10, 64)
		if err != nil {
			http.Error(w, "which number?", http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		switch err := s.model.Await(ctx, s.store, annals.NewPersistenceID("Thread", thread), annals.SeqNr(number)); {
		case errors.Is(err, annals.ErrUnavailable): // also when the entity is parked
			w.Header().Set("Retry-After", "1")
			http.Error(w, "not yet: try again, or read without a number", http.StatusServiceUnavailable)
			return
		case err != nil:
			http.Error(w, "no such event", http.StatusBadRequest)
			return
		}
	}
	n, _ := s.store.Value(r.PathValue("author")).(int)
	fmt.Fprintln(w, r.PathValue("author"), "has posted", n)
}

// A client that reads what it has just written hands over the number that it got.
func ExampleControl_Await() {
	ctx, store := context.Background(), memstore.New()
	threads, err := aggregate.New(store, behavior.EventSourced[Posted, Posted, int, int]{
		Type:   "Thread",
		Decide: func(_ int, p Posted) ([]Posted, error) { return []Posted{p}, nil },
		Evolve: func(n int, _ Posted) int { return n + 1 },
		Events: posted,
	}, aggregate.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	source := projection.Source[Posted]{Store: store, Type: "Thread", Codec: posted}
	runner, err := projection.ExactlyOnce("authors", source, store, func(_ context.Context, tx memstore.Tx, e projection.Envelope[Posted]) error {
		n, _ := tx.Value(e.Value.Author).(int)
		tx.SetValue(e.Value.Author, n+1)
		return nil
	}, projection.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- runner.Run(running) }()

	service, routes := wall{store, threads, runner.Control()}, http.NewServeMux()
	routes.HandleFunc("POST /threads/{thread}", service.post)
	routes.HandleFunc("GET /authors/{author}", service.count)
	for range 3 {
		created := httptest.NewRecorder()
		routes.ServeHTTP(created, httptest.NewRequestWithContext(ctx, http.MethodPost, "/threads/t-1?author=ann&text=hello", http.NoBody))
		read := httptest.NewRecorder()
		routes.ServeHTTP(read, httptest.NewRequestWithContext(ctx, http.MethodGet, created.Header().Get("Location"), http.NoBody))
		fmt.Print(created.Header().Get("Location"), ": ", read.Body)
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// /authors/ann?thread=t-1&number=1: ann has posted 1
	// /authors/ann?thread=t-1&number=2: ann has posted 2
	// /authors/ann?thread=t-1&number=3: ann has posted 3
	// <nil>
}

// The health of a projection, for probes and alerts.
func ExampleHealth() {
	ctx, store := context.Background(), memstore.New()
	source := projection.Source[Posted]{Store: store, Type: "Thread", Codec: posted}
	runner, err := projection.AtLeastOnce("mails", source, store, func(context.Context, projection.Envelope[Posted]) error { return nil }, projection.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	health := projection.NewHealth(runner.Control(), store, projection.HealthOptions{})
	routes := http.NewServeMux()
	routes.HandleFunc("GET /health/projection", func(w http.ResponseWriter, r *http.Request) {
		within, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		switch err, ill := health.Check(within), (*projection.Unhealthy)(nil); {
		case errors.As(err, &ill):
			http.Error(w, ill.Error(), http.StatusServiceUnavailable)
		case err != nil: // nothing is known of the projection
			http.Error(w, "the store cannot be read", http.StatusServiceUnavailable)
		}
	})
	running, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- runner.Run(running) }()
	answer := httptest.NewRecorder()
	routes.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/health/projection", http.NoBody))
	fmt.Println(answer.Code)
	stop()
	fmt.Println(<-ended)
	// Output:
	// 200
	// <nil>
}
