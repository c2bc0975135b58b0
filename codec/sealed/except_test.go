package sealed_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/sealed"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

// item is readable in a letter.
const item = "stamps of the year 1840"

// letter is an event of which Subject, Item and Weight are readable.
type letter struct {
	Subject string
	Item    string
	Weight  json.Number
	Serial  json.Number `json:",omitempty"`
	To      *named      `json:",omitempty"`
	Text    string      `json:",omitempty"`
}

var plainLetters = codec.JSON[letter]("letter")

func letters(keys *sealed.Keys, readable ...string) codec.Codec[letter] {
	return sealed.Except(plainLetters, keys, func(l letter) string { return l.Subject },
		func(l letter) letter { l.Text = gone; return l }, append(readable, "Subject", "Item", "Weight")...)
}

// post is a letter with what tests look for.
func post() letter {
	return letter{Subject: "5", Item: item, Weight: "1.50e3", Serial: "9007199254740993.10", To: &named{"5", planted}, Text: planted}
}

func wantLetter(t testing.TB, c codec.Codec[letter], p annals.Payload, want letter) {
	t.Helper()
	if l, err := c.Decode(p); err != nil || !reflect.DeepEqual(l, want) {
		t.Errorf("decoded: %+v, %v, want %+v", l, err, want)
	}
}

// sealing is what c makes of v, in which nothing planted is readable.
func sealing[T any](t testing.TB, c codec.Codec[T], v T) annals.Payload {
	t.Helper()
	p, err := c.Encode(v)
	if err != nil || bytes.Contains(p.Data, []byte(planted)) || p.SerializerID != codec.JSONSerializer {
		t.Fatalf("sealed: %s, serializer %d, %v", p.Data, p.SerializerID, err)
	}
	return p
}

// object are the members of p.
func object(t testing.TB, p annals.Payload) (all map[string]json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal(p.Data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// of is p with this data.
func of(p annals.Payload, data string) annals.Payload {
	p.Data = []byte(data)
	return p
}

func TestExcept(t *testing.T) {
	t.Parallel()
	store, m := memstore.New(), newMaster(t)
	keys := newKeys(t, store, m)
	c := letters(keys)
	p := sealing(t, c, post())
	all := object(t, p)
	if p.Manifest != "letter" || len(all) != 4 || string(all["Item"]) != `"`+item+`"` || string(all["Weight"]) != "1.50e3" {
		t.Errorf("manifest %q, data %s", p.Manifest, p.Data)
	}
	wantLetter(t, c, p, post())
	wantLetter(t, letters(newKeys(t, store, m)), p, post())

	// What JSONB does: another order, spaces, and another form of numbers.
	rewritten := post()
	rewritten.Weight = "1500"
	wantLetter(t, c, of(p, `{"_sealed": `+string(all["_sealed"])+`, "Weight": 1500, "Item": "`+item+`", "Subject": "5"}`), rewritten)

	// Other names are readable now.
	if err := keys.Rotate(t.Context(), "5"); err != nil {
		t.Fatal(err)
	}
	wantLetter(t, letters(keys, "Serial"), p, post())
	wantLetter(t, c, sealing(t, letters(keys, "Serial"), post()), post())

	// Nothing to seal: without a subject, with readable members only, and what was stored before.
	nobody, short := post(), letter{Subject: "6", Item: item, Weight: "1"}
	nobody.Subject = ""
	for _, l := range []letter{nobody, short, {Item: "_sealed", Weight: "1"}} {
		p, err := c.Encode(l)
		want, _ := plainLetters.Encode(l)
		if err != nil || !bytes.Equal(p.Data, want.Data) {
			t.Errorf("%s, %v, want %s", p.Data, err, want.Data)
		}
		wantLetter(t, c, p, l)
	}
	if n, err := keys.Count(t.Context(), "6"); n != 0 || err != nil {
		t.Errorf("%d keys, %v", n, err)
	}

	if err := keys.Destroy(t.Context(), "5"); err != nil {
		t.Fatal(err)
	}
	for _, keys := range []*sealed.Keys{keys, newKeys(t, store, m)} {
		wantLetter(t, letters(keys), p, letter{Subject: "5", Item: item, Weight: "1.50e3", Text: gone})
		if _, err := letters(keys).Encode(post()); !errors.Is(err, sealed.ErrForgotten) || !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("encode: %v, want ErrForgotten", err)
		}
		if _, err := letters(keys).Encode(letter{Subject: "5", Weight: "1"}); err != nil {
			t.Errorf("nothing to seal: %v", err)
		}
	}
	if _, err := letters(keys).Decode(of(p, strings.Replace(string(p.Data), "1.50e3", "[]", 1))); err == nil {
		t.Error("a rest that cannot be decoded is no error")
	}
}

// A union, members that a program does not know, and payloads that were sealed as a whole before.
func TestExceptAround(t *testing.T) {
	t.Parallel()
	keys := newKeys(t, memstore.New(), newMaster(t))
	union := sealed.Except(codec.Union[any](plainLetters, plain), keys, func(any) string { return "5" }, func(v any) any { return v }, "Item")
	for _, v := range []any{post(), named{"5", planted}} {
		if got, err := union.Decode(sealing(t, union, v)); err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("decoded: %+v, %v", got, err)
		}
	}

	kept := sealed.Except(codec.Keeping[named]("named"), keys, func(k codec.Kept[named]) string { return k.Value.Subject },
		func(k codec.Kept[named]) codec.Kept[named] { return k }, "Subject", "large")
	k, err := kept.Decode(annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "named",
		Data: []byte(`{"Subject":"5","Name":"` + planted + `","serial":12345678901234567890.10,"none":null,"large":9007199254740993}`)})
	if err != nil {
		t.Fatal(err)
	}
	p := sealing(t, kept, k)
	if all := object(t, p); len(all) != 3 || string(all["large"]) != "9007199254740993" {
		t.Errorf("data %s", p.Data)
	}
	again, err := kept.Decode(p)
	if err != nil || !reflect.DeepEqual(again, k) || string(again.Other["serial"]) != "12345678901234567890.10" || string(again.Other["none"]) != "null" {
		t.Errorf("decoded: %+v, %v", again, err)
	}

	before := sealed.Payloads(plainLetters, keys, func(letter) string { return "" }, func(subject string) letter { return letter{Subject: subject} })
	c := sealed.Except(before, keys, func(l letter) string { return l.Subject }, func(l letter) letter { return l }, "Item")
	whole, err := sealed.Payloads(plainLetters, keys, func(l letter) string { return l.Subject }, func(string) letter { return letter{} }).Encode(post())
	if err != nil {
		t.Fatal(err)
	}
	wantLetter(t, c, whole, post())
	wantLetter(t, c, sealing(t, c, post()), post())

	members := sealed.Except(plainLetters, keys, func(letter) string { return "" }, func(l letter) letter { return l }, "Item")
	back := sealed.Payloads(members, keys, func(l letter) string { return l.Subject }, func(subject string) letter { return letter{Subject: subject} })
	wantLetter(t, back, sealing(t, c, post()), post())
	if whole, err = back.Encode(post()); err != nil || whole.SerializerID != sealed.Serializer {
		t.Errorf("serializer %d, %v", whole.SerializerID, err)
	}
	wantLetter(t, back, whole, post())
}

// Sealed members are bound to their manifest, their subject, and their place.
func TestMovedMembers(t *testing.T) {
	t.Parallel()
	keys := newKeys(t, memstore.New(), newMaster(t))
	c := letters(keys)
	p := sealing(t, c, post())
	var data []byte
	if err := json.Unmarshal(object(t, p)["_sealed"], &data); err != nil {
		t.Fatal(err)
	}
	corrupt := func(what string, c codec.Codec[letter], p annals.Payload) {
		t.Helper()
		if l, err := c.Decode(p); !errors.Is(err, annals.ErrCorrupt) || l != (letter{}) || strings.Contains(err.Error(), planted) {
			t.Errorf("%s: %+v, %v, want ErrCorrupt", what, l, err)
		}
	}
	with := func(data []byte) annals.Payload {
		return of(p, `{"Item":"x","_sealed":"`+base64.StdEncoding.EncodeToString(data)+`"}`)
	}
	wantLetter(t, c, with(data), letter{Item: "x", Serial: post().Serial, To: post().To, Text: planted})
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		corrupt("a changed bit", c, with(changed))
		corrupt("members that were cut", c, with(data[:i]))
	}
	other := letter{Subject: "4", Weight: "1", Text: "x"}
	sealing(t, c, other) // subject 4 has a key
	moved := bytes.Clone(data)
	moved[4] = '4' // version, serializer id, number, length, subject
	if header := binary.AppendUvarint([]byte{1, 0, 1}, 1); !bytes.HasPrefix(data, append(header, '5')) {
		t.Fatalf("the header is %q", data[:5])
	}
	corrupt("another subject", c, with(moved))

	p2 := p
	p2.Manifest = "postcard"
	corrupt("another manifest", sealed.Except(codec.JSON("card", codec.Was(codec.JSON[letter]("postcard"), func(l letter) (letter, error) { return l, nil })), keys,
		func(letter) string { return "" }, func(l letter) letter { return l }), p2)

	payloads := sealed.Payloads(plainLetters, keys, func(l letter) string { return l.Subject }, func(string) letter { return letter{} })
	whole, err := payloads.Encode(post())
	if err != nil {
		t.Fatal(err)
	}
	corrupt("a whole payload in the place of members", c, with(whole.Data))
	whole.Data = data
	if l, err := payloads.Decode(whole); err == nil {
		t.Errorf("members in the place of a whole payload: %+v", l)
	}
	wantLetter(t, c, of(p, `{"Text":"`+base64.StdEncoding.EncodeToString(data)+`"}`), letter{Text: base64.StdEncoding.EncodeToString(data)})

	text := string(object(t, p)["_sealed"])
	for _, data := range []string{
		`{"_sealed":null}`, `{"_sealed":7}`, `{"_sealed":""}`, `{"_sealed":"%"}`, `{"_sealed":{}}`, `{"_sealed":` + text + `,"_sealed":` + text + `}`,
		`{"_sealed":` + text + `,"Item":1,"Item":2}`, `{"_sealed":` + text + `}{}`, `{"_sealed":` + text, `{"_sealed":` + text + `,"Item":}`,
	} {
		corrupt(data, c, of(p, data))
	}
	for _, data := range []string{"", "7", `"_sealed"`, `["_sealed"]`, `{"_sealed`, `{"_sealed":`} { // it is for the codec to say
		if l, err := c.Decode(of(p, data)); err == nil {
			t.Errorf("%s: %+v, want an error", data, l)
		}
	}
}

// A readable member whose name differs in case only is not taken for a sealed one, and members that others add are read as without sealing. After the
// key is destroyed, only those with the exact names are.
func TestExceptAndCase(t *testing.T) {
	t.Parallel()
	keys, destroyed := newKeys(t, memstore.New(), newMaster(t)), newKeys(t, memstore.New(), newMaster(t))
	c, later := letters(keys), letters(destroyed)
	text, lost := string(object(t, sealing(t, c, post()))["_sealed"]), string(object(t, sealing(t, later, post()))["_sealed"])
	if err := destroyed.Destroy(t.Context(), "5"); err != nil {
		t.Fatal(err)
	}
	forged := `"text":"forged","tO":{"Name":"forged"},"SERIAL":1,"\u017ferial":2,"Text":"forged"`
	for _, data := range []string{
		`{` + forged + `,"weight":"7","item":"x","Weight":1.50e3,"Item":"` + item + `","Subject":"5","_sealed":` + text + `}`,
		`{"Weight":7,"Subject":"5","_sealed":` + text + `,"item":"x","weight":1.50e3,` + forged + `,"Item":"` + item + `"}`,
	} {
		p := annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "letter"}
		wantLetter(t, c, of(p, data), post())
		wantLetter(t, later, of(p, strings.Replace(data, text, lost, 1)), letter{Subject: "5", Item: item, Weight: json.Number(object(t, of(p, data))["Weight"]), Text: gone})
	}

	pairs := codec.JSON[map[string]string]("pairs")
	m := sealed.Except(pairs, keys, func(map[string]string) string { return "5" }, func(rest map[string]string) map[string]string { return rest }, "k", "name")
	for _, v := range []map[string]string{{"name": "", "Name": planted}, {"k": "", "\u212a": planted}} {
		if p, err := m.Encode(v); !errors.Is(err, annals.ErrInvalid) || p.Data != nil || strings.Contains(err.Error(), planted) {
			t.Errorf("%v: %s, %v, want ErrInvalid", v, p.Data, err)
		}
	}
	v := map[string]string{"name": "", "other": planted, "Other": planted}
	if got, err := m.Decode(sealing(t, m, v)); err != nil || !reflect.DeepEqual(got, v) {
		t.Errorf("%v, %v", got, err)
	}
}

// What would not be read back is refused.
func TestExceptRefuses(t *testing.T) {
	t.Parallel()
	keys := newKeys(t, memstore.New(), newMaster(t))
	subject := "5"
	c := sealed.Except(codec.Of(7, "raw", func(data string) ([]byte, error) { return []byte(data), nil }, func(data []byte) (string, error) { return string(data), nil }),
		keys, func(string) string { return subject }, func(rest string) string { return rest }, "a")
	for _, data := range []string{"", "7", "null", `[{"b":1}]`, `{"b":1`, `{"b":1}}`, `{"b":}`, `{b:1}`, `{"a":1,"a":2}`, `{"b":1,"\u0062":2}`, `{"_sealed":1}`, `{"_sealed":"x","b":1}`, "\ufeff{}"} {
		if p, err := c.Encode(data); !errors.Is(err, annals.ErrInvalid) || p.Data != nil {
			t.Errorf("%s: %s, %v, want ErrInvalid", data, p.Data, err)
		}
	}
	deep := `{"b":` + strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999) + `}`
	for _, data := range []string{`{}`, `{"a":1}`, `{"":null,"a":1}`, " {\n\"a\" : [ 1 ],\t\"b\" :{ }} \r\n", deep, `{"a":"<&>\u2028","b":"\u0000"}`} {
		p, err := c.Encode(data)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Decode(p); err != nil || !sameJSON(t, got, data) {
			t.Errorf("%.40s is decoded as %.40s, %v", data, got, err)
		}
	}
	subject = ""
	for _, data := range []string{`{"_sealed":1}`, `{"\u005fsealed":1}`} { // JSONB stores the second as the first
		if p, err := c.Encode(data); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("without a subject: %s, %v, want ErrInvalid", p.Data, err)
		}
	}
	for _, data := range []string{"7", "_sealed", `{"a":"\u0001","a":2}`} {
		if p, err := c.Encode(data); err != nil || string(p.Data) != data {
			t.Errorf("without a subject: %s, %v", p.Data, err)
		}
	}
	for name, c := range map[string]codec.Codec[string]{
		"codec":     sealed.Except(nil, keys, func(string) string { return "" }, strings.Clone),
		"keys":      sealed.Except(codec.JSON[string]("x"), nil, strings.Clone, strings.Clone),
		"subject":   sealed.Except(codec.JSON[string]("x"), keys, nil, strings.Clone),
		"forgotten": sealed.Except(codec.JSON[string]("x"), keys, strings.Clone, nil),
		"inner":     sealed.Except(codec.JSON[string]("x", codec.Was(codec.JSON[string]("x"), func(s string) (string, error) { return s, nil })), keys, strings.Clone, strings.Clone),
	} {
		if err := c.(interface{ Validate() error }).Validate(); err == nil {
			t.Errorf("%s: no fault", name)
		}
	}
}

// sameJSON reports whether two texts have the same members, and numbers the same digits.
func sameJSON(t testing.TB, texts ...string) bool {
	t.Helper()
	var values [2]any
	for i := range values {
		d := json.NewDecoder(strings.NewReader(texts[i]))
		d.UseNumber()
		if err := d.Decode(&values[i]); err != nil {
			t.Fatal(err)
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// Each value that is encoded is decoded as it was, and whatever is decoded, nothing of another manifest is shown.
func FuzzExcept(f *testing.F) {
	keys, secret := newKeys(f, memstore.New(), newMaster(f)), rand.Text()
	raw := func(manifest string) codec.Codec[json.RawMessage] {
		return sealed.Except(codec.JSON[json.RawMessage](manifest), keys, func(json.RawMessage) string { return "5" },
			func(rest json.RawMessage) json.RawMessage { return rest }, "a", "c")
	}
	c, other := raw("raw"), raw("other")
	p, err := c.Encode(json.RawMessage(`{"a":1,"b":"` + secret + `"}`))
	if err != nil {
		f.Fatal(err)
	}
	gone, err := sealed.Except(plain, keys, func(n named) string { return n.Subject }, func(n named) named { return n }).Encode(named{"8", secret})
	if err != nil {
		f.Fatal(err)
	}
	if err := keys.Destroy(context.Background(), "8"); err != nil {
		f.Fatal(err)
	}
	for _, data := range [][]byte{p.Data, gone.Data, p.Data[:20], []byte(`{"b":12345678901234567890.10,"c":{"a":null}}`), []byte(`{"b":1,"b":2}`)} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p.Manifest, p.Data = "other", data
		if v, err := other.Decode(p); err == nil && bytes.Contains(v, []byte(secret)) {
			t.Errorf("%q is decoded as %q", data, v)
		}
		if p, err := c.Encode(data); err == nil {
			if v, err := c.Decode(p); err != nil || !sameJSON(t, string(v), string(data)) {
				t.Errorf("%q is decoded as %q, %v", data, v, err)
			}
		}
	})
}

// mailbox is the state of a person with letters. Count is readable.
type mailbox struct {
	Subject string
	Count   int
	Last    letter
}

// mail is a behavior with sealed members. A command is a letter, without an Item a read.
func mail(keys *sealed.Keys) behavior.EventSourced[letter, letter, mailbox, mailbox] {
	return behavior.EventSourced[letter, letter, mailbox, mailbox]{
		Type: "Mailbox",
		Init: func(id string) mailbox { return mailbox{Subject: id} },
		Decide: func(s mailbox, l letter) ([]letter, error) {
			if l.Item == "" {
				return nil, nil
			}
			l.Subject = s.Subject
			return []letter{l}, nil
		},
		Evolve: func(s mailbox, l letter) mailbox {
			if l.Text == gone {
				s.Subject = "" // what comes now is not personal
			}
			return mailbox{s.Subject, s.Count + 1, l}
		},
		Reply:  func(s mailbox, _ letter, _ []letter) mailbox { return s },
		Events: letters(keys),
		States: sealed.Except(codec.JSON[mailbox]("mailbox"), keys, func(s mailbox) string { return s.Subject }, func(s mailbox) mailbox {
			s.Last.Text, s.Last.Weight = gone, "0"
			return s
		}, "Count"),
		SnapshotEvery: 2,
	}
}

// wantMembersUnreadable is wantUnreadable for events and snapshots of which some members are readable.
func wantMembersUnreadable(t *testing.T, store, keyStore annals.Store, scan func(find []byte) bool) {
	t.Helper()
	m := newMaster(t)
	keys := newKeys(t, keyStore, m)
	ask := func(keys *sealed.Keys, ls ...letter) (s mailbox) {
		t.Helper()
		mailboxes, err := entity.New(store, mail(keys), entity.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range ls {
			if s, err = mailboxes.Ask(t.Context(), "5", l); err != nil {
				t.Fatal(err)
			}
		}
		if err := mailboxes.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	ask(keys, post(), post(), post())
	if s := ask(newKeys(t, keyStore, m), letter{}); s.Count != 3 || s.Subject != "5" || s.Last.Text != planted || s.Last.To.Name != planted || s.Last.Serial != post().Serial {
		t.Errorf("got %+v", s)
	}
	if scan([]byte(planted)) || !scan([]byte(item)) {
		t.Error("what is sealed is found, or what is readable is not")
	}
	if err := keys.Destroy(t.Context(), "5"); err != nil {
		t.Fatal(err)
	}
	if scan([]byte(planted)) {
		t.Error("what is forgotten is found")
	}
	forgotten := newKeys(t, keyStore, m)
	s := ask(forgotten, letter{})
	if s.Count != 3 || s.Last.Text != gone || s.Last.To != nil || s.Last.Serial != "" {
		t.Errorf("got %+v, want what is forgotten", s)
	}
	if s = ask(forgotten, letter{Item: "parcel", Weight: "1"}); s.Count != 4 || s.Last.Item != "parcel" {
		t.Errorf("got %+v, want a fourth letter", s)
	}
	n := 0
	for e, err := range store.Journal().Replay(t.Context(), "Mailbox|5", 1, annals.MaxSeqNr) {
		if err != nil {
			t.Fatal(err)
		}
		l, err := letters(forgotten).Decode(e.Payload)
		if n++; err != nil || n <= 3 && (l.Item != item || l.Text != gone || l.To != nil) || n > 3 && l.Item != "parcel" {
			t.Errorf("event %d: %+v, %v", n, l, err)
		}
	}
	if n != 4 {
		t.Errorf("%d events", n)
	}
}
