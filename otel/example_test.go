package annalsotel_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
	annalsotel "github.com/annals-go/annals/otel"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
)

var items = codec.JSON[string]("item")

// A cart counts the items that were put into it.
var cart = behavior.EventSourced[string, string, int, int]{
	Type:   "Cart",
	Events: items,
	Decide: func(_ int, item string) ([]string, error) { return []string{item}, nil },
	Evolve: func(n int, _ string) int { return n + 1 },
	Reply:  func(n int, _ string, _ []string) int { return n },
}

func send(_ context.Context, item string) error { fmt.Println("a mail about the", item); return nil }

// shop puts a pen into a cart, and has a projection send a mail about it.
func shop(ctx context.Context, name string, traces trace.TracerProvider, meters metric.MeterProvider) error {
	telemetry, err := annalsotel.New(annalsotel.Options{TracerProvider: traces, MeterProvider: meters})
	if err != nil {
		return err
	}
	store, err := sqlitestore.Open(ctx, name, sqlitestore.Options{Observer: telemetry})
	if err != nil {
		return err
	}
	carts, err := entity.New(store, cart, entity.Options{Observer: telemetry, Metadata: telemetry.Metadata(nil)})
	if err != nil {
		return err
	}
	if _, err := telemetry.Runtime("Cart", carts); err != nil {
		return err
	}
	defer store.Close()
	health := projection.NewHealth(projection.NewControl(store, "carts"), store, projection.HealthOptions{})
	_, err = telemetry.Projection("carts", health)
	if err != nil {
		return err
	}

	ctx, span := traces.Tracer("carts").Start(ctx, "POST /carts/{cart}") // as the instrumentation of net/http does
	_, err = carts.Ask(ctx, "1", "pen")
	span.End()
	if err != nil {
		return err
	}
	handle := func(ctx context.Context, e projection.Envelope[string]) error {
		ctx, span := traces.Tracer("carts").Start(telemetry.Context(ctx, e.Metadata), "send a mail")
		defer span.End()
		return send(ctx, e.Value)
	}
	source := projection.Source[string]{Store: store, Type: "Cart", Codec: items}
	runner, err := projection.AtLeastOnce("carts", source, store, handle, projection.Options{Observer: telemetry})
	if err != nil {
		return err
	}
	if err := runner.CatchUp(ctx); err != nil {
		return err
	}
	return carts.Shutdown(ctx)
}

// The mail belongs to the trace of the request that has put the item into the cart.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ended := tracetest.NewSpanRecorder() // a program has an exporter here
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(ended))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	if err := shop(context.Background(), filepath.Join(dir, "shop.db"), traces, meters); err != nil {
		log.Fatal(err)
	}
	var request trace.TraceID
	for _, s := range ended.Ended() {
		if s.Name() == "POST /carts/{cart}" {
			request = s.SpanContext().TraceID()
		}
	}
	for _, s := range ended.Ended() {
		switch s.Name() {
		case "append Cart", "ask Cart", "send a mail":
			fmt.Println(s.Name(), "is part of the request:", s.SpanContext().TraceID() == request)
		}
	}
	// Output:
	// a mail about the pen
	// append Cart is part of the request: true
	// ask Cart is part of the request: true
	// send a mail is part of the request: true
}
