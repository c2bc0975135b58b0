package outlet_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/outlet"
	"github.com/annals-go/annals/projection"
)

// broker is a publisher that remembers the messages, and fails where fail says so.
type broker struct {
	mu       sync.Mutex
	calls    int
	messages map[string][]*message.Message // by topic
	fail     func(m *message.Message) error
}

func (b *broker) Publish(topic string, ms ...*message.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	for _, m := range ms {
		if b.fail != nil {
			if err := b.fail(m); err != nil {
				return err
			}
		}
		if b.messages == nil {
			b.messages = map[string][]*message.Message{}
		}
		b.messages[topic] = append(b.messages[topic], m)
	}
	return nil
}

func (b *broker) Close() error { return nil }

// published are the messages of topic, each as its entity and number.
func (b *broker) published(t *testing.T, topic string) (events []string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.messages[topic] {
		events = append(events, m.Metadata.Get("persistence_id")+" "+m.Metadata.Get("sequence_number"))
	}
	return events
}

// envelope is an event of id that is published as stored.
func envelope(id string, n annals.SeqNr, manifest string) projection.Envelope[annals.Payload] {
	p := annals.Payload{SerializerID: 31, Manifest: manifest, Data: []byte(`{"secret":"4711"}`)}
	return projection.Envelope[annals.Payload]{
		Event: annals.Event{ID: annals.PersistenceID(id), SeqNr: n, Time: time.UnixMicro(1_800_000_000_000_000 + int64(n)).UTC(), Payload: p},
		Value: p,
	}
}

// byManifest is the topic of an event: its manifest.
func byManifest(e projection.Envelope[annals.Payload]) string { return e.Manifest }

func handler(t *testing.T, b *broker, o outlet.Options[annals.Payload]) func(context.Context, []projection.Envelope[annals.Payload]) error {
	t.Helper()
	publish, err := outlet.Handler(b, byManifest, o)
	if err != nil {
		t.Fatal(err)
	}
	return publish
}

// A group is one call for each topic, and one more where an entity returns to a topic, in the order of the events.
func TestTopics(t *testing.T) {
	t.Parallel()
	var b broker
	group := []projection.Envelope[annals.Payload]{
		envelope("Order|1", 1, "orders"), envelope("Order|2", 1, "orders"), envelope("Order|1", 2, "stock"), envelope("Order|1", 3, ""), envelope("Order|1", 4, "orders"),
	}
	if err := handler(t, &b, outlet.Options[annals.Payload]{})(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	if got, want := b.published(t, "orders"), []string{"Order|1 1", "Order|2 1", "Order|1 4"}; !slices.Equal(got, want) {
		t.Errorf("published to orders: %v, want %v", got, want)
	}
	if got, want := b.published(t, "stock"), []string{"Order|1 2"}; !slices.Equal(got, want) {
		t.Errorf("published to stock: %v, want %v", got, want)
	}
	if b.calls != 3 || len(b.messages) != 2 {
		t.Errorf("%d calls, %d topics, want 3 and 2", b.calls, len(b.messages))
	}
}

// A message is published after all earlier messages of its entity, whatever their topics are and whichever message fails.
func TestOrderOfAnEntity(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var group []projection.Envelope[annals.Payload]
		numbers := map[string]annals.SeqNr{}
		for range 1 + random.IntN(12) {
			id := fmt.Sprintf("Order|%d", random.IntN(3))
			numbers[id]++
			group = append(group, envelope(id, numbers[id], fmt.Sprintf("topic%d", random.IntN(3))))
		}
		failing := random.IntN(len(group) + 1) // len(group): none
		published := map[string]annals.SeqNr{}
		b := broker{fail: func(m *message.Message) error {
			id, number := m.Metadata.Get("persistence_id"), m.Metadata.Get("sequence_number")
			if failing < len(group) && id == string(group[failing].ID) && number == fmt.Sprint(group[failing].SeqNr) {
				return errors.New("refused")
			}
			if published[id]++; number != fmt.Sprint(published[id]) {
				t.Errorf("event %s of %s is published in place %d", number, id, published[id])
			}
			return nil
		}}
		err := handler(t, &b, outlet.Options[annals.Payload]{})(t.Context(), group)
		if failed := failing < len(group); failed != (err != nil) || !failed && len(published) != len(numbers) {
			t.Fatalf("message %d of %d fails: %v, %d entities of %d", failing, len(group), err, len(published), len(numbers))
		}
	}
}

// An event without a topic is not published, and is no failure.
func TestNothingToPublish(t *testing.T) {
	t.Parallel()
	var b broker
	if err := handler(t, &b, outlet.Options[annals.Payload]{})(t.Context(), []projection.Envelope[annals.Payload]{envelope("Order|1", 1, "")}); err != nil || b.calls != 0 {
		t.Errorf("%d calls, %v", b.calls, err)
	}
}

// What is rebuilt is published, unless the option leaves it out.
func TestRebuilding(t *testing.T) {
	t.Parallel()
	for skips, want := range map[bool][]string{false: {"Order|1 1", "Order|1 2"}, true: {"Order|1 2"}} {
		var b broker
		before := envelope("Order|1", 1, "orders")
		before.Rebuilding = true
		group := []projection.Envelope[annals.Payload]{before, envelope("Order|1", 2, "orders")}
		if err := handler(t, &b, outlet.Options[annals.Payload]{SkipRebuilding: skips})(t.Context(), group); err != nil {
			t.Fatal(err)
		}
		if got := b.published(t, "orders"); !slices.Equal(got, want) {
			t.Errorf("SkipRebuilding %t: published %v, want %v", skips, got, want)
		}
	}
}

// An error of the publisher is the handler's. It names the topic and shows no payload.
func TestPublisherFails(t *testing.T) {
	t.Parallel()
	down := errors.New("broker is down")
	b := broker{fail: func(*message.Message) error { return down }}
	err := handler(t, &b, outlet.Options[annals.Payload]{})(t.Context(), []projection.Envelope[annals.Payload]{envelope("Order|1", 1, "orders"), envelope("Order|1", 2, "stock")})
	if !errors.Is(err, down) || !strings.Contains(err.Error(), `2 messages`) && !strings.Contains(err.Error(), `1 messages to topic "orders"`) || strings.Contains(err.Error(), "4711") {
		t.Errorf("error %v", err)
	}
	if b.calls != 1 {
		t.Errorf("%d calls after the first failed", b.calls)
	}
}

// Edit replaces the payload and the headers.
func TestEdit(t *testing.T) {
	t.Parallel()
	var b broker
	wrong := errors.New("cannot be read")
	publish := handler(t, &b, outlet.Options[annals.Payload]{Edit: func(e projection.Envelope[annals.Payload], m *message.Message) error {
		if e.SeqNr == 2 {
			return wrong
		}
		m.Payload = []byte("edited")
		m.Metadata.Set("correlation_id", "c-1")
		m.Metadata.Set("content_type", "text/plain")
		return nil
	}})
	if err := publish(t.Context(), []projection.Envelope[annals.Payload]{envelope("Order|1", 1, "orders")}); err != nil {
		t.Fatal(err)
	}
	m := b.messages["orders"][0]
	if string(m.Payload) != "edited" || m.Metadata.Get("correlation_id") != "c-1" || m.Metadata.Get("content_type") != "text/plain" || m.Metadata.Get("sequence_number") != "1" {
		t.Errorf("message %s with headers %v", m.Payload, m.Metadata)
	}
	err := publish(t.Context(), []projection.Envelope[annals.Payload]{envelope("Order|1", 1, "orders"), envelope("Order|1", 2, "orders")})
	if !errors.Is(err, wrong) || !strings.Contains(err.Error(), `event 2 of "Order|1"`) {
		t.Errorf("error %v", err)
	}
	if b.calls != 1 {
		t.Error("published the group of an event that failed")
	}
}

// Publishers see the end of the handler's context, whose values they may use.
func TestMessagesHaveTheContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	b := broker{fail: func(m *message.Message) error {
		if m.Context().Value(key{}) != "value" {
			return errors.New("another context")
		}
		return nil
	}}
	ctx := context.WithValue(t.Context(), key{}, "value")
	if err := handler(t, &b, outlet.Options[annals.Payload]{})(ctx, []projection.Envelope[annals.Payload]{envelope("Order|1", 1, "orders")}); err != nil {
		t.Error(err)
	}
}

// The function of the example does not hold up an event without metadata.
func TestExampleWithoutMetadata(t *testing.T) {
	t.Parallel()
	if err := addCorrelationID(envelope("Order|1", 1, "orders"), nil); err != nil {
		t.Error(err)
	}
}

func TestRequired(t *testing.T) {
	t.Parallel()
	if _, err := outlet.Handler(nil, byManifest, outlet.Options[annals.Payload]{}); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("without a publisher: %v", err)
	}
	if _, err := outlet.Handler[annals.Payload](&broker{}, nil, outlet.Options[annals.Payload]{}); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("without a topic: %v", err)
	}
}
