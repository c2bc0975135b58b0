package operate_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/sealed"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/operate"
)

// hostile are texts that act on terminals: they clear the screen, change its title, go back in the line, change the direction of text, hide parts,
// begin new lines.
var hostile = []string{"\x1b[2J", "\x1b]0;title\x07", "\u009b31m", "a\rb", "a\nb", "\u202e", "\u2066", "\u200b", "\u2028", "\U000e0041", "\x7f", "\b\b"}

// What is stored does nothing in a terminal, and JSON stays JSON.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	c := config(s)
	c.Keys = func(context.Context, annals.Store) (*sealed.Keys, error) {
		master, err := sealed.AES(make([]byte, 32))
		if err != nil {
			return nil, err
		}
		return sealed.NewKeys(s, master, sealed.Options{})
	}
	var wrong found
	var args [][]string
	for i, text := range hostile {
		wrong.findings = append(wrong.findings, finding(ability.Problem, true, text))
		id := annals.PersistenceID("Meter|" + text)
		quoted, err := codec.JSON[map[string]string]("added").Encode(map[string]string{"n": text})
		if err != nil {
			t.Fatal(err)
		}
		correlated, err := json.Marshal(map[string]string{"correlation": text, "causation": text})
		if err != nil {
			t.Fatal(err)
		}
		events := []annals.NewEvent{
			{Payload: annals.Payload{SerializerID: codec.JSONSerializer, Manifest: text, Data: quoted.Data}, Tags: []string{text}},
			{Payload: annals.Payload{SerializerID: codec.JSONSerializer, Manifest: text, Data: []byte(`{"` + text + `":"` + text + "\"}")}, Metadata: annals.Payload{SerializerID: 7, Manifest: text, Data: []byte(text)}},
			{Payload: annals.Payload{SerializerID: 33, Manifest: text, Data: append([]byte{0x60 + byte(len(text))}, text...)}}, // CBOR: a text
			{Payload: annals.Payload{SerializerID: codec.JSONSerializer, Data: []byte("{\"\xff\xfe\":1}")}},
			{Payload: annals.Payload{SerializerID: int32(i + 100), Data: []byte(text)}},
			{Payload: annals.Payload{SerializerID: 2, Manifest: "annals.examples.orders.Cancelled", Data: append([]byte{10, byte(len(text))}, text...)}},
			{Payload: stepOf(t, text), Metadata: annals.Payload{SerializerID: codec.JSONSerializer, Data: correlated}},
		}
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, Events: events}); err != nil {
			t.Fatal(err)
		}
		args = append(args, []string{"show", string(id)}, []string{"show", string(id), "--raw"}, []string{"show", string(id), "--at", "1"}, []string{"show", "x" + text},
			[]string{"show", string(id), "--at", "2", "--try", text}, []string{"projection", "status", text}, []string{"projection", "reset", text},
			[]string{"projection", "await", text, string(id), text}, []string{text}, []string{"tail", "--after", text}, []string{"tail", "--descriptors", text}, []string{"tail", "--message", text + "=" + text}, []string{"verify", "--type", text}, []string{"stats", string(id)}, []string{"top", "--by", text}, []string{"cost", text}, []string{"cost", "--read-price", text}, []string{"top", "--since", text}, []string{"trace", text}, []string{"trace", string(id) + "/1"}, []string{"trace", text, "--since", text}, []string{"trace", string(id) + "/1", "--projections", text}, []string{"projection", "retry", text, "--error", text}, []string{"test", string(id), "--to", "1"}, []string{"test", string(id), "--behavior", text}, []string{"test", string(id), "--package", text}, []string{"forget", string(id)}, []string{"serve", text}, []string{"serve", "--listen", text}, []string{"serve", "--prefix", text}, []string{"prune", string(id), "--projection", text})
	}
	c.Setups = operate.Setups{"mem": wrong.open}
	for _, text := range hostile {
		args = append(args, []string{"schema", "show", "--format", text}, []string{"erase", text}, []string{"projection", "rebuild", text}, []string{"ids", "--config", text, "--store", text})
	}
	args = append(args, []string{"doctor"}, []string{"schema", "diff"})
	args = append(args, []string{"ids"}, []string{"tail"}, []string{"trace", "b"}, []string{"stats"}, []string{"top"}, []string{"top", "--by", "rate"}, []string{"verify"}, []string{"prune", "--type", "Meter"})
	c.Descriptors = protoregistry.GlobalFiles
	for _, a := range args {
		for _, flags := range [][]string{nil, {"--json"}} {
			o := run(t, c, append(flags, a...)...)
			for _, r := range o.text + o.errors {
				if r != '\n' && !strconv.IsPrint(r) && (r != '\t' || a[0] != "test") { // Go files have tabs
					t.Fatalf("%q prints %q: %q", a, r, o.text+o.errors)
				}
			}
			if flags != nil && a[0] != "tail" {
				parsed(t, o)
			}
			for line := range strings.Lines(o.text) {
				if strings.HasPrefix(line, "b") {
					t.Errorf("%q: a text begins a new line: %q", a, o.text)
				}
			}
		}
	}
}

// stepOf is a step of a process whose names are text.
func stepOf(t *testing.T, text string) annals.Payload {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"cause":    map[string]any{"timer": text, "entity": text, "answer": text},
		"commands": []any{map[string]any{"target": text, "recipient": text, "value": map[string]any{"manifest": text, "data": []byte(text)}}},
		"timers":   []any{map[string]any{"name": text, "due": 1 << 62}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "annals.process.step", Data: data}
}

// Long payloads, ids and tags are cut, unless one event is asked for.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	long := strings.Repeat("x", 2<<20)
	event := func(id int32, data string) annals.NewEvent {
		return annals.NewEvent{Payload: annals.Payload{SerializerID: id, Manifest: long[:2000], Data: []byte(data)}, Tags: []string{long[:60_000]}}
	}
	c := annals.Commit{ID: annals.PersistenceID("Other|" + long[:400]), Events: []annals.NewEvent{event(codec.JSONSerializer, `{"n":"`+long+`"}`), event(99, long)}}
	if _, err := s.Journal().Append(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"show", string(c.ID)}, {"tail"}, {"show", string(c.ID), "--raw"}, {"ids"}, {"stats"}, {"top"}, {"trace", string(c.ID) + "/1"}} {
		if o := run(t, config(s), args...); o.status != 0 || len(o.text) > 8000 {
			t.Errorf("%s prints %d bytes: %+v", args[0], len(o.text), o.errors)
		}
		if o := run(t, config(s), append(args, "--json")...); o.status != 0 || len(o.text) > 200_000 {
			t.Errorf("%s --json prints %d bytes: %+v", args[0], len(o.text), o.errors)
		}
	}
	for _, n := range []string{"1", "2"} {
		if o := run(t, config(s), "show", string(c.ID), "--at", n); o.status != 0 || len(o.text) < 2<<20 {
			t.Errorf("event %s prints %d bytes", n, len(o.text))
		}
	}
}

// Commands for a shell are quoted.
func TestNextIsQuoted(t *testing.T) {
	t.Parallel()
	for _, text := range append(hostile, "it's", "$(reboot)", "a b", `\`, "`x`", "plain-1", "'\n\\") {
		s := memstore.New()
		id := annals.PersistenceID("T|" + text)
		event := annals.NewEvent{Payload: annals.Payload{SerializerID: 1}}
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, Events: []annals.NewEvent{event, event}}); err != nil {
			t.Fatal(err)
		}
		e, _ := parsed(t, run(t, config(s), "--json", "show", string(id), "--limit", "1"))
		command := strings.Replace((*e.Diagnostics)[0].Next, "annals show", "printf %s.", 1)
		command, _, _ = strings.Cut(command, " --limit")
		bash := exec.CommandContext(t.Context(), "bash", "-c", command)
		bash.Env = []string{"LC_ALL=C.UTF-8"}
		if got, err := bash.Output(); err != nil || string(got) != string(id)+"." {
			t.Errorf("%s prints %q, want %q: %v", command, got, string(id)+".", err)
		}
	}
}

// No output has the password of the URL, also where an error of the store repeats it.
func TestPasswords(t *testing.T) {
	t.Parallel()
	c := operate.Config{Stores: annals.Openers{"db": func(_ context.Context, u *url.URL) (annals.Store, error) {
		password, _ := u.User.Password()
		return nil, errors.New("cannot open " + u.String() + " with " + password + " and " + u.Query().Get("sslpassword"))
	}}}
	for _, flag := range []string{"--json", "--hide-payloads"} {
		o := runWith(t.Context(), c, flag, "ids", "--store", "db://eve:s3cr%2Fet@host/x?sslpassword=t0psecret")
		without := runWith(t.Context(), c, flag, "db://eve:s3cr%2Fet@host/x")
		if text := without.text + without.errors; without.status != 3 || strings.Contains(text, "s3cr") {
			t.Errorf("%+v", without)
		}
		if text := o.text + o.errors; o.status != 4 || !strings.Contains(text, "cannot open") || strings.Contains(text, "s3cr") || strings.Contains(text, "t0p") {
			t.Errorf("%+v", o)
		}
	}
}

// With HidePayloads nothing shows what is in payloads, states, metadata and errors of the domain.
func TestHiddenPayloads(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	metered(t, s, "a", 34)
	p := annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "added", Data: []byte(`{"n":987654}`)}
	if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: meter.ID("a"), After: 34, Events: []annals.NewEvent{{Payload: p, Metadata: p}}}); err != nil {
		t.Fatal(err)
	}
	c := config(s)
	for _, args := range [][]string{{"tail"}, {"trace", "Meter|a/35"}, {"show", "Meter|a", "--after", "30"}, {"show", "Meter|a", "--at", "35", "--diff"}, {"show", "Meter|a", "--raw", "--after", "30"}, {"show", "Meter|a", "--try", "-1"}} {
		shows := func(o output) bool {
			return strings.Contains(o.text, "987654") || strings.Contains(o.text, "3938373635") || strings.Contains(o.text, errNegative.Error()) || o.status != 0
		}
		if o := run(t, c, args...); !shows(o) {
			t.Errorf("%s does not show it: %s", args, o.text)
		}
		for _, flags := range [][]string{nil, {"--json"}} {
			hidden := c
			hidden.HidePayloads = true
			if o := run(t, hidden, append(flags, args...)...); shows(o) {
				t.Errorf("%s shows it: %s", args, o.text)
			}
			if o := run(t, c, append(append(flags, "--hide-payloads"), args...)...); shows(o) {
				t.Errorf("%s shows it: %s", args, o.text)
			}
		}
	}
}
