package esa_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/dynamostore/esa"
)

const hanako = annals.PersistenceID("UserAccount|01H42KBHCW1BZG504J4ZXKA2F2")

// peers are payloads that the libraries have written: an event with number 1, an event with number 2 and the state after event 3. They are from
// the tables of their scenario "default": Go 1.0.10, JavaScript 2.2.94 and 3.1.1, Rust 1.3.17.
var peers = []struct {
	name                  string
	format                esa.Members
	first, second, state  string
	firstData, secondData string // as they are read; "": the whole payload
	stateData             string
}{
	{name: "Go",
		first:  `{"type":"UserAccountCreated","id":"01J00000000000000000000002","aggregate_id":{"type":"UserAccount","value":"01H42KBHCW1BZG504J4ZXKA2F2"},"seq_nr":1,"is_created":true,"occurred_at":"2026-03-01T09:00:02.074Z","body":{"name":"Hanako","note":"\u003cb\u003e \u0026 \"quotes\" \\ / \u2028 é 漢字 😀"}}`,
		second: `{"type":"UserAccountRenamed","id":"01J00000000000000000000019","aggregate_id":{"type":"UserAccount","value":"01H42KBHCW1BZG504J4ZXKA2F2"},"seq_nr":2,"is_created":false,"occurred_at":"2026-03-01T09:00:19.703Z","body":{"name":"Hanako 2"}}`,
		state:  `{"id":{"type":"UserAccount","value":"01H42KBHCW1BZG504J4ZXKA2F2"},"seq_nr":3,"version":2,"last_updated_at":"2026-03-01T09:00:20.740Z","body":{"name":"Hanako 3","note":"\u003cb\u003e \u0026 \"quotes\" \\ / \u2028 é 漢字 😀"}}`},
	{name: "Rust",
		first:  `{"type":"UserAccountCreated","id":"01J00000000000000000000002","aggregate_id":{"type":"UserAccount","value":"01H42KBHCW1BZG504J4ZXKA2F2"},"seq_nr":1,"is_created":true,"occurred_at":"2026-03-01T09:00:02.074Z","body":{"name":"Hanako","note":"<b> & \"quotes\" \\ / ` + "\u2028" + ` é 漢字 😀"}}`,
		second: `{"type":"UserAccountRenamed","id":"01J00000000000000000000019","aggregate_id":{"type":"UserAccount","value":"01H42KBHCW1BZG504J4ZXKA2F2"},"seq_nr":2,"is_created":false,"occurred_at":"2026-03-01T09:00:19.703Z","body":{"name":"Hanako 2"}}`,
		state:  `{"id":{"type":"UserAccount","value":"01H42KBHCW1BZG504J4ZXKA2F2"},"seq_nr":3,"version":2,"last_updated_at":"2026-03-01T09:00:20.740Z","body":{"name":"Hanako 3","note":"<b> & \"quotes\" \\ / ` + "\u2028" + ` é 漢字 😀"}}`},
	{name: "JavaScript", format: esa.Members{Wrapped: true},
		first:      `{"type":"UserAccountCreated","data":{"type":"UserAccountCreated","id":"01J00000000000000000000002","aggregate_id":{"type":"UserAccount","value":"01H42KBHCW1BZG504J4ZXKA2F2"},"seq_nr":1,"is_created":true,"occurred_at":"2026-03-01T09:00:02.074Z","body":{"name":"Hanako","note":"<b> & \"quotes\" \\ / ` + "\u2028" + ` é 漢字 😀"}}}`,
		firstData:  `{"type":"UserAccountCreated","id":"01J00000000000000000000002","aggregate_id":{"type":"UserAccount","value":"01H42KBHCW1BZG504J4ZXKA2F2"},"seq_nr":1,"is_created":true,"occurred_at":"2026-03-01T09:00:02.074Z","body":{"name":"Hanako","note":"<b> & \"quotes\" \\ / ` + "\u2028" + ` é 漢字 😀"}}`,
		second:     `{"type":"UserAccountRenamed","data":{"type":"UserAccountRenamed","id":"01J00000000000000000000019","aggregate_id":{"type":"UserAccount","value":"01H42KBHCW1BZG504J4ZXKA2F2"},"seq_nr":2,"is_created":false,"occurred_at":"2026-03-01T09:00:19.703Z","body":{"name":"Hanako 2"}}}`,
		secondData: `{"type":"UserAccountRenamed","id":"01J00000000000000000000019","aggregate_id":{"type":"UserAccount","value":"01H42KBHCW1BZG504J4ZXKA2F2"},"seq_nr":2,"is_created":false,"occurred_at":"2026-03-01T09:00:19.703Z","body":{"name":"Hanako 2"}}`,
		state:      `{"type":"UserAccount","data":{"id":{"type":"UserAccount","value":"01H42KBHCW1BZG504J4ZXKA2F2"},"seq_nr":3,"version":2,"last_updated_at":"2026-03-01T09:00:20.740Z","body":{"name":"Hanako 3","note":"<b> & \"quotes\" \\ / ` + "\u2028" + ` é 漢字 😀"}}}`,
		stateData:  `{"id":{"type":"UserAccount","value":"01H42KBHCW1BZG504J4ZXKA2F2"},"seq_nr":3,"version":2,"last_updated_at":"2026-03-01T09:00:20.740Z","body":{"name":"Hanako 3","note":"<b> & \"quotes\" \\ / ` + "\u2028" + ` é 漢字 😀"}}`},
}

func payloadOf(manifest, data string) annals.Payload {
	return annals.Payload{SerializerID: 31, Manifest: manifest, Data: []byte(data)}
}

// or is data, or stored where data is "".
func or(data, stored string) string {
	if data == "" {
		return stored
	}
	return data
}

// The payloads of the libraries are read, and are the same bytes when they are written again.
func TestPayloadsOfThePeers(t *testing.T) {
	t.Parallel()
	for _, p := range peers {
		for n, c := range []struct{ stored, data, manifest string }{
			{p.first, p.firstData, "UserAccountCreated"}, {p.second, p.secondData, "UserAccountRenamed"},
		} {
			e := annals.Event{ID: hanako, SeqNr: annals.SeqNr(n + 1)}
			got, err := esa.JSON(p.format).ReadEvent(e, []byte(c.stored))
			if want := payloadOf(c.manifest, or(c.data, c.stored)); err != nil || !cmp.Equal(got, want) {
				t.Errorf("%s, event %d: %v\n%s", p.name, e.SeqNr, err, cmp.Diff(want, got))
				continue
			}
			e.Payload = got
			if again, err := esa.JSON(p.format).Event(e); err != nil || string(again) != c.stored {
				t.Errorf("%s, event %d: %v\n got %s\nwant %s", p.name, e.SeqNr, err, again, c.stored)
			}
		}
		s, err := esa.JSON(p.format).ReadSnapshot(annals.Snapshot{ID: hanako}, []byte(p.state))
		want := annals.Snapshot{ID: hanako, SeqNr: 3, Time: time.Date(2026, 3, 1, 9, 0, 20, 740_000_000, time.UTC), Payload: payloadOf("UserAccount", or(p.stateData, p.state))}
		if err != nil || !cmp.Equal(s, want) {
			t.Errorf("%s, state: %v\n%s", p.name, err, cmp.Diff(want, s))
			continue
		}
		if again, err := esa.JSON(p.format).Snapshot(s, 7); err != nil || string(again) != p.state {
			t.Errorf("%s, state: %v\n got %s\nwant %s", p.name, err, again, p.state)
		}
	}
}

// Data of a domain type that knows nothing of the metadata is stored with it, in the order of the libraries, and read back by that type.
func TestMembersAreAdded(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 9, 0, 2, 74_999_000, time.FixedZone("", 3600))
	const id = annals.PersistenceID("User|<\"\u2028\n\x01\\>|1")
	const idText = `{"type":"User","value":"<\"` + "\u2028" + `\n\u0001\\>|1"}`
	for _, c := range []struct {
		name                  string
		format                esa.Members
		event, created, state string
		eventData, stateData  string
		eventType, stateType  string
	}{
		{eventData: `{"name":"x"}`, stateData: `{}`, eventType: "renamed", stateType: "User",
			event:   `{"type":"renamed","aggregate_id":` + idText + `,"seq_nr":2,"is_created":false,"occurred_at":"2026-03-01T08:00:02.074Z","name":"x"}`,
			created: `{"type":"renamed","aggregate_id":` + idText + `,"seq_nr":1,"is_created":true,"occurred_at":"2026-03-01T08:00:02.074Z","name":"x"}`,
			state:   `{"id":` + idText + `,"seq_nr":2,"version":1,"last_updated_at":"2026-03-01T08:00:02.074Z"}`},
		{name: "another manifest of a state", eventData: " \n{ \"type\" : \"renamed\", \"body\":[{}] } ", stateData: `{"version":9,"name":"x"}`, eventType: "renamed", stateType: "User#2",
			event:   `{"aggregate_id":` + idText + `,"seq_nr":2,"is_created":false,"occurred_at":"2026-03-01T08:00:02.074Z", "type" : "renamed", "body":[{}] } `,
			created: `{"aggregate_id":` + idText + `,"seq_nr":1,"is_created":true,"occurred_at":"2026-03-01T08:00:02.074Z", "type" : "renamed", "body":[{}] } `,
			state:   `{"id":` + idText + `,"seq_nr":2,"last_updated_at":"2026-03-01T08:00:02.074Z","manifest":"User#2","version":9,"name":"x"}`},
		{name: "wrapped", format: esa.Members{Wrapped: true}, eventData: `{"type":"x"}`, stateData: `{"name":"x"}`, eventType: "re\"named", stateType: "User#2",
			event:   `{"type":"re\"named","data":{"aggregate_id":` + idText + `,"seq_nr":2,"is_created":false,"occurred_at":"2026-03-01T08:00:02.074Z","type":"x"}}`,
			created: `{"type":"re\"named","data":{"aggregate_id":` + idText + `,"seq_nr":1,"is_created":true,"occurred_at":"2026-03-01T08:00:02.074Z","type":"x"}}`,
			state:   `{"type":"User#2","data":{"id":` + idText + `,"seq_nr":2,"version":1,"last_updated_at":"2026-03-01T08:00:02.074Z","name":"x"}}`},
		{name: "other names", format: esa.Members{Type: "type_name", AggregateID: "-", IsCreated: "-", SeqNr: "n", OccurredAt: "-", ID: "-", Version: "-", LastUpdatedAt: "-", Manifest: "-"},
			eventData: `{"seq_nr":7,"type":"y"}`, stateData: `{"manifest":7}`, eventType: "renamed", stateType: "User",
			event:   `{"type_name":"renamed","n":2,"seq_nr":7,"type":"y"}`,
			created: `{"type_name":"renamed","n":1,"seq_nr":7,"type":"y"}`,
			state:   `{"n":2,"manifest":7}`},
	} {
		for n, want := range map[annals.SeqNr]string{1: c.created, 2: c.event} {
			e := annals.Event{ID: id, SeqNr: n, Time: at, Payload: payloadOf(c.eventType, c.eventData)}
			got, err := esa.JSON(c.format).Event(e)
			if err != nil || string(got) != want || !json.Valid(got) {
				t.Errorf("%s, event %d: %v\n got %s\nwant %s", c.name, n, err, got, want)
			}
			if p, err := esa.JSON(c.format).ReadEvent(e, got); err != nil || p.Manifest != c.eventType || p.SerializerID != codec.JSONSerializer {
				t.Errorf("%s, event %d is read as %q, %v", c.name, n, p.Manifest, err)
			}
		}
		s := annals.Snapshot{ID: id, SeqNr: 2, Time: at, Payload: payloadOf(c.stateType, c.stateData)}
		got, err := esa.JSON(c.format).Snapshot(s, 1)
		if err != nil || string(got) != c.state || !json.Valid(got) {
			t.Errorf("%s, state: %v\n got %s\nwant %s", c.name, err, got, c.state)
		}
		if read, err := esa.JSON(c.format).ReadSnapshot(annals.Snapshot{ID: id}, got); err != nil || read.Manifest != c.stateType || read.SeqNr != 2 ||
			(c.format.LastUpdatedAt == "") != read.Time.Equal(at.Truncate(time.Millisecond)) {
			t.Errorf("%s, state is read as %q %d %v, %v", c.name, read.Manifest, read.SeqNr, read.Time, err)
		}
	}
}

// Data that contradicts its event or state is refused before it is written, and reported when it is read. The errors repeat none of it.
func TestContradictions(t *testing.T) {
	t.Parallel()
	const other = `{"type":"User","value":"secret"}`
	for _, c := range []struct{ event, state string }{
		{event: `["secret"]`}, {event: `null`}, {event: `{"secret":1`}, {event: "{\"name\":\"secret\xff\"}"}, {event: `{} {}`}, {event: ``},
		{event: `{"type":"secret"}`}, {event: `{"type":1}`}, {event: `{"type":null}`},
		{event: `{"seq_nr":3}`}, {event: `{"seq_nr":"2"}`}, {event: `{"seq_nr":-2}`}, {event: `{"seq_nr":2.5}`}, {event: `{"seq_nr":18446744073709551618}`},
		{event: `{"aggregate_id":` + other + `}`},
		{state: `"secret"`}, {state: `{"seq_nr":3}`}, {state: `{"id":` + other + `}`}, {state: `{"manifest":"secret"}`}, {state: `{"seq_nr":null}`},
	} {
		var err error
		data := or(c.event, c.state)
		if c.state == "" {
			_, err = esa.JSON(esa.Members{}).Event(annals.Event{ID: "User|1", SeqNr: 2, Payload: payloadOf("renamed", data)})
		} else {
			_, err = esa.JSON(esa.Members{}).Snapshot(annals.Snapshot{ID: "User|1", SeqNr: 2, Payload: payloadOf("User", data)}, 1)
		}
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q to be written: %v", data, err)
		}
	}
	if _, err := esa.JSON(esa.Members{}).Event(annals.Event{ID: "User|1", SeqNr: 2, Payload: annals.Payload{SerializerID: 33, Data: []byte(`{}`)}}); err == nil || !strings.Contains(err.Error(), "33") {
		t.Errorf("CBOR: %v", err)
	}
	for _, stored := range []string{`[]`, `null`, `{"type":"renamed"`, `{}`, `{"type":7}`, `{"type":"renamed","seq_nr":3}`, `{"type":"renamed","aggregate_id":` + other + `}`} {
		if _, err := esa.JSON(esa.Members{}).ReadEvent(annals.Event{ID: "User|1", SeqNr: 2}, []byte(stored)); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("event %s is read: %v", stored, err)
		}
	}
	for _, stored := range []string{`{"type":"renamed"}`, `{"data":{}}`, `{"type":"renamed","data":null}`, `{"type":"renamed","data":7}`} {
		if _, err := esa.JSON(esa.Members{Wrapped: true}).ReadEvent(annals.Event{ID: "User|1", SeqNr: 2}, []byte(stored)); err == nil {
			t.Errorf("event %s is read", stored)
		}
	}
	for _, stored := range []string{`{}`, `{"seq_nr":2.0}`, `{"seq_nr":9223372036854775808}`, `{"seq_nr":2,"id":` + other + `}`} {
		if _, err := esa.JSON(esa.Members{}).ReadSnapshot(annals.Snapshot{ID: "User|1"}, []byte(stored)); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("state %s is read: %v", stored, err)
		}
	}
}

// D23: a number passes through no float64.
func TestNumbersAreExact(t *testing.T) {
	t.Parallel()
	const n = annals.SeqNr(1<<53 + 1)
	s, err := esa.JSON(esa.Members{}).ReadSnapshot(annals.Snapshot{ID: "User|1"}, fmt.Appendf(nil, `{"seq_nr":%d}`, n))
	if err != nil || s.SeqNr != n {
		t.Errorf("got %d, %v, want %d", s.SeqNr, err, n)
	}
}

// A payload of many members, or of many levels, takes memory in proportion to its size.
func TestMemoryOfPayloads(t *testing.T) {
	for name, stored := range map[string]string{
		"members": `{"type":"x"` + strings.Repeat(`,"":0`, 80_000) + `}`,
		"names":   manyNames(40_000),
		"levels":  `{"type":"x","deep":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + `}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = esa.JSON(esa.Members{}).ReadEvent(annals.Event{ID: "User|1", SeqNr: 1}, []byte(stored))
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("%s: %d bytes for a payload of %d", name, used, len(stored))
		}
	}
}

func manyNames(n int) string {
	var b strings.Builder
	b.WriteString(`{"type":"x"`)
	for i := range n {
		fmt.Fprintf(&b, `,"%d":0`, i)
	}
	return b.String() + "}"
}

// What is read can be written, unless it is not valid UTF-8, and is read again as the same.
func FuzzJSON(f *testing.F) {
	for _, p := range peers {
		for _, stored := range []string{p.first, p.second, p.state} {
			f.Add(p.format.Wrapped, []byte(stored))
		}
	}
	f.Add(true, []byte(`{"type":"","data":{"seq_nr":1,"type":{}}}`))
	f.Add(false, []byte(` { "type" : "" , "seq_nr" : 1 } `))
	f.Fuzz(func(t *testing.T, wrapped bool, stored []byte) {
		format := esa.JSON(esa.Members{Wrapped: wrapped})
		e := annals.Event{ID: hanako, SeqNr: 1, Time: time.Unix(0, 0)}
		if p, err := format.ReadEvent(e, stored); err == nil {
			e.Payload = p
			fuzzAgain(t, func() ([]byte, error) { return format.Event(e) }, func(again []byte) (annals.Payload, error) { return format.ReadEvent(e, again) }, p)
		}
		if s, err := format.ReadSnapshot(annals.Snapshot{ID: hanako}, stored); err == nil {
			fuzzAgain(t, func() ([]byte, error) { return format.Snapshot(s, 1) }, func(again []byte) (annals.Payload, error) {
				read, err := format.ReadSnapshot(annals.Snapshot{ID: hanako}, again)
				if err == nil && read.SeqNr != s.SeqNr {
					t.Errorf("the number %d is read again as %d", s.SeqNr, read.SeqNr)
				}
				return read.Payload, err
			}, s.Payload)
		}
	})
}

func fuzzAgain(t *testing.T, write func() ([]byte, error), read func([]byte) (annals.Payload, error), p annals.Payload) {
	t.Helper()
	again, err := write()
	if err != nil {
		if bytes.Equal(p.Data, bytes.ToValidUTF8(p.Data, nil)) {
			t.Errorf("%q was read, but is not written: %v", p.Data, err)
		}
		return
	}
	q, err := read(again)
	if err != nil || q.Manifest != p.Manifest || len(q.Data) > len(p.Data)+500 {
		t.Errorf("%q is read again with manifest %q, want %q, and %d bytes, %v", p.Data, q.Manifest, p.Manifest, len(q.Data), err)
	}
}
