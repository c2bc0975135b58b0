package outlet_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/outlet"
	"github.com/annals-go/annals/projection"
)

// messageOf publishes e and returns its message.
func messageOf(t *testing.T, e annals.Event) *message.Message {
	t.Helper()
	var b broker
	publish, err := outlet.Handler(&b, func(projection.Envelope[annals.Payload]) string { return "events" }, outlet.Options[annals.Payload]{})
	if err != nil {
		t.Fatal(err)
	}
	if err := publish(t.Context(), []projection.Envelope[annals.Payload]{{Event: e, Value: e.Payload}}); err != nil {
		t.Fatal(err)
	}
	return b.messages["events"][0]
}

var placed = annals.Event{
	ID: "Order|1", SeqNr: 7, Time: time.Date(2026, 11, 22, 20, 15, 0, 120_000_000, time.UTC), Tags: []string{"red", "a,b"},
	Payload: annals.Payload{SerializerID: 31, Manifest: "placed.v1", Data: []byte(`{"item":"pen"}`)},
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	m := messageOf(t, placed)
	want := message.Metadata{
		"persistence_id": "Order|1", "sequence_number": "7", "time": "2026-11-22T20:15:00.120000Z", "tags": `["red","a,b"]`,
		"serializer_id": "31", "manifest": "placed.v1", "content_type": "application/json",
	}
	if !reflect.DeepEqual(m.Metadata, want) {
		t.Errorf("headers %v, want %v", m.Metadata, want)
	}
	if string(m.Payload) != `{"item":"pen"}` {
		t.Errorf("payload %s", m.Payload)
	}
}

// Consumers that have stored UUIDs drop repeats by them: they never change.
func TestMessageIDNeverChanges(t *testing.T) {
	t.Parallel()
	if got, want := messageOf(t, placed).UUID, "115f9243-56bb-5c0b-8a10-7138e7d830c3"; got != want {
		t.Errorf("UUID %s, want %s", got, want)
	}
	seen := map[string]bool{messageOf(t, placed).UUID: true}
	for name, change := range map[string]func(e *annals.Event){
		"another entity":            func(e *annals.Event) { e.ID = "Order|2" },
		"another number":            func(e *annals.Event) { e.SeqNr = 8 },
		"forgotten and begun again": func(e *annals.Event) { e.Time = e.Time.Add(time.Microsecond) },
	} {
		e := placed
		change(&e)
		if id := messageOf(t, e).UUID; seen[id] {
			t.Errorf("%s: the same UUID %s", name, id)
		} else {
			seen[id] = true
		}
	}
}

// What is stored without tags, manifest or known format has no empty headers, which some brokers refuse.
func TestNoEmptyHeaders(t *testing.T) {
	t.Parallel()
	m := messageOf(t, annals.Event{ID: "x", SeqNr: 1, Time: placed.Time, Payload: annals.Payload{SerializerID: 41, Data: []byte("x")}})
	for header, value := range m.Metadata {
		if value == "" {
			t.Errorf("header %s is empty", header)
		}
	}
	if len(m.Metadata) != 4 {
		t.Errorf("headers %v", m.Metadata)
	}
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	zipped := []byte{0x1f, 0x8b, 8, 0}
	for _, c := range []struct {
		payload        annals.Payload
		kind, encoding string
	}{
		{annals.Payload{SerializerID: 31, Data: []byte("{}")}, "application/json", ""},
		{annals.Payload{SerializerID: 31, Data: zipped}, "application/json", "gzip"},
		{annals.Payload{SerializerID: 33, Data: []byte{0xa0}}, "application/cbor", ""},
		{annals.Payload{SerializerID: 33, Data: zipped}, "application/cbor", "gzip"},
		{annals.Payload{SerializerID: 2, Data: zipped}, "application/protobuf", ""},
		{annals.Payload{SerializerID: 41, Data: zipped}, "", ""},
	} {
		m := messageOf(t, annals.Event{ID: "x", SeqNr: 1, Time: placed.Time, Payload: c.payload})
		if kind, encoding := m.Metadata.Get("content_type"), m.Metadata.Get("content_encoding"); kind != c.kind || encoding != c.encoding {
			t.Errorf("serializer %d, data %x: %q %q, want %q %q", c.payload.SerializerID, c.payload.Data, kind, encoding, c.kind, c.encoding)
		}
	}
}

// A consumer in the same process may change what it was given: the store's payload stays as it is.
func TestPayloadIsNotShared(t *testing.T) {
	t.Parallel()
	e := placed
	e.Data = []byte("stored")
	messageOf(t, e).Payload[0] = 'X'
	if string(e.Data) != "stored" {
		t.Errorf("the store's payload is %s", e.Data)
	}
}

// A consumer gets back what was published.
func TestEvent(t *testing.T) {
	t.Parallel()
	got, err := outlet.Event(messageOf(t, placed))
	if err != nil || !reflect.DeepEqual(got, placed) {
		t.Errorf("%+v, %v, want %+v", got, err, placed)
	}
	for _, header := range []string{"persistence_id", "sequence_number", "time", "serializer_id"} {
		m := messageOf(t, placed)
		delete(m.Metadata, header)
		if _, err := outlet.Event(m); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("without %s: %v", header, err)
		}
		m.Metadata.Set(header, "?")
		if _, err := outlet.Event(m); header != "persistence_id" && !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("with a wrong %s: %v", header, err)
		}
	}
	m := messageOf(t, placed)
	m.Metadata.Set("sequence_number", "0")
	if _, err := outlet.Event(m); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("with number 0: %v", err)
	}
	m = messageOf(t, placed)
	m.Metadata.Set("tags", "red")
	if _, err := outlet.Event(m); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("with wrong tags: %v", err)
	}
}

func TestOrderingKey(t *testing.T) {
	t.Parallel()
	m := messageOf(t, placed)
	if key, err := outlet.OrderingKey("events", m); err != nil || key != "Order|1" {
		t.Errorf("key %q, %v", key, err)
	}
	if _, err := outlet.OrderingKey("events", message.NewMessage("other", nil)); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("of another message: %v", err)
	}
}

// Messages come from a broker, to which others may publish, too.
func FuzzEvent(f *testing.F) {
	f.Add("Order|1", "7", "2026-11-22T20:15:00.120000Z", `["red"]`, "31")
	f.Add("", "-1", "2026-11-22", "[1]", "99999999999")
	f.Fuzz(func(t *testing.T, id, number, at, tags, serializer string) {
		m := message.NewMessage("m", []byte("{}"))
		m.Metadata = message.Metadata{"persistence_id": id, "sequence_number": number, "time": at,
			"tags": tags, "serializer_id": serializer}
		e, err := outlet.Event(m)
		if err != nil {
			if !errors.Is(err, annals.ErrInvalid) {
				t.Errorf("error %v", err)
			}
			return
		}
		again, err := outlet.Event(messageOf(t, e))
		if err != nil || again.Offset() != e.Offset() || !slices.Equal(again.Tags, e.Tags) || again.SerializerID != e.SerializerID {
			t.Errorf("%+v is published and read as %+v, %v", e, again, err)
		}
	})
}
