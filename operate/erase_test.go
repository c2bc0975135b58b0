package operate_test

import (
	"context"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/sealed"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/operate"
)

// The keys of a subject are destroyed with --yes only, and what is sealed with them cannot be read afterwards.
func TestErase(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	master, err := sealed.AES(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	keysIn := func(_ context.Context, s annals.Store) (*sealed.Keys, error) {
		return sealed.NewKeys(s, master, sealed.Options{})
	}
	seals := func() (codec.Codec[string], error) { // in another process, with nothing in memory
		keys, err := keysIn(t.Context(), s)
		return sealed.Payloads(codec.JSON[string]("name"), keys, func(string) string { return "7" }, func(string) string { return "(forgotten)" }), err
	}
	var stored annals.Payload
	read := func() string {
		t.Helper()
		names, err := seals()
		if err != nil {
			t.Fatal(err)
		}
		if stored.Manifest == "" {
			if stored, err = names.Encode("Ada"); err != nil {
				t.Fatal(err)
			}
		}
		name, err := names.Decode(stored)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	c := config(s)
	if o := run(t, c, "erase", "7", "--json"); o.status != 4 || !strings.Contains(o.text, `"code":"unsupported"`) {
		t.Errorf("%+v", o)
	}
	c.Keys = keysIn
	if o := run(t, c, "erase", "7"); o.status != 0 || !strings.Contains(o.text, "would be destroyed: 0") || !strings.Contains(o.text, "is it the right one?") {
		t.Errorf("%+v", o)
	}
	if name := read(); name != "Ada" {
		t.Fatal(name)
	}
	for _, args := range [][]string{{"erase"}, {"erase", "7", "8"}, {"erase", ""}} {
		if o := run(t, c, args...); o.status != 3 {
			t.Errorf("%q: %+v", args, o)
		}
	}
	o := run(t, c, "erase", "7")
	if o.status != 0 || !strings.Contains(o.text, "7: keys would be destroyed: 1\n") || !strings.Contains(o.text, "next: annals erase 7 --yes") || read() != "Ada" {
		t.Errorf("%+v", o)
	}
	if o := run(t, c, "erase", "7", "--yes"); o.status != 0 || !strings.Contains(o.text, "7: keys destroyed: 1\n") || strings.Count(o.text, "left: ") != 5 {
		t.Errorf("%+v", o)
	}
	if name := read(); name != "(forgotten)" {
		t.Error(name)
	}
	for _, args := range [][]string{{"erase", "7"}, {"erase", "7", "--yes"}} {
		if o := run(t, c, args...); o.status != 0 || !strings.Contains(o.text, "7: the keys are destroyed already\n") {
			t.Errorf("%q: %+v", args, o)
		}
	}
}

// What a command would be answered is shown without a write, also of a subject that has no key yet.
func TestTryCreatesNoKey(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	master, err := sealed.AES(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := sealed.NewKeys(s, master, sealed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	subject, forgotten := func(total) string { return "7" }, func(v total) total { return v }
	people, saved := meter, limit
	people.States = sealed.Except(codec.JSON[total]("total"), keys, subject, forgotten)
	people.Events = sealed.Payloads(codec.JSON[added]("added"), keys, func(added) string { return "7" }, func(string) added { return added{} })
	saved.States = people.States
	c := config(s)
	c.Entities = []operate.Entity{operate.Sourced(people), operate.Durable(saved)}
	for id, want := range map[string]string{"Meter|1": `"value":{"n":5}`, "Limit|1": `"value":{"sum":5}`} {
		if o := run(t, c, "show", id, "--try", "5", "--json"); o.status != 0 || !strings.Contains(o.text, want) {
			t.Errorf("%+v", o)
		}
	}
	if n, err := keys.Count(t.Context(), "7"); n != 0 || err != nil {
		t.Errorf("got %d keys, %v, want none", n, err)
	}
}
