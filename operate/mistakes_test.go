package operate_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/operate"
)

// What a new operator gets wrong is answered by the reason, the exit status and the command that helps.
func TestMistakes(t *testing.T) {
	t.Parallel()
	none, junk := "sqlite:"+t.TempDir()+"/none.db", t.TempDir()+"/junk.db"
	if err := os.WriteFile(junk, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	mem := config(memstore.New())
	for _, c := range []struct {
		config     operate.Config
		args       string
		status     int
		text, next string
	}{
		{withSetups, "ids --store " + none, 4, "no such file", "annals doctor"},
		{withSetups, "ids --store sqlite:" + junk, 4, "not a database", "annals doctor"},
		{withSetups, "ids --store postgres://u:secret@127.0.0.1:1/x", 4, "connection refused", "annals doctor"},
		{withSetups, "ids --store mongo://x", 4, "no store for scheme", ""},
		{mem, "doctor --store mem:", 4, "the command annals has", ""},
		{mem, "projection status nonsense --store mem:", 1, "it has not been run", "annals projection list"},
		{mem, "projection parked nonsense --store mem:", 0, "it has not been run", "annals projection list"},
		{mem, "projection await nonsense Meter|a 1 --timeout 1ms --store mem:", 2, "it has not been run", "annals projection list"},
		{mem, "projection reset nonsense --store mem:", 3, "it has not been run", "annals projection list"},
		{mem, "projection reset nonsense --yes --store mem:", 3, "it has not been run", "annals projection list"},
		{mem, "projection pause nonsense --store mem:", 3, "it has not been run", "annals projection list"},
		{mem, "projection resume nonsense --store mem:", 3, "it has not been run", "annals projection list"},
		{mem, "projection rebuild nonsense --store mem:", 3, "it has not been run", "annals projection list"},
		{mem, "projection retry other --all --store mem:", 3, "it has not been run", "annals projection list"},
		{mem, "projection retry other --error x --store mem:", 3, "it has not been run", "annals projection list"},
		{mem, "projection discard other Meter|a --to all --store mem:", 3, "it has not been run", "annals projection list"},
		{mem, "projection discard other Meter|a --to all --yes --store mem:", 3, "it has not been run", "annals projection list"},
	} {
		o := runWith(t.Context(), c.config, strings.Fields(c.args)...)
		all := o.text + o.errors
		if o.status != c.status || !strings.Contains(all, c.text) || c.next == "" == strings.Contains(all, "next: ") || !strings.Contains(all, c.next) || strings.Contains(all, "secret") {
			t.Errorf("%s: status %d: %s", c.args, o.status, all)
		}
		o = runWith(t.Context(), c.config, append(strings.Fields(c.args), "--json")...)
		if e, _ := parsed(t, o); *e.Status != c.status {
			t.Errorf("%s: %s", c.args, o.text)
		}
	}
	if o := runWith(t.Context(), withSetups, "doctor", "--store", "postgres://u:secret@127.0.0.1:1/x"); o.status != 4 || !strings.Contains(o.text, "connection refused") || strings.Contains(o.text, `\n`) {
		t.Errorf("doctor: %+v", o)
	}
}

// The help of every command has an example, with flags that the command has.
func TestHelp(t *testing.T) {
	t.Parallel()
	var each func(path []string, c *cobra.Command)
	each = func(path []string, c *cobra.Command) {
		o := runWith(t.Context(), config(memstore.New()), append(path, "--help")...)
		example := regexp.MustCompile(`(?m)^Examples:\n  (.+)$`).FindStringSubmatch(o.text)
		if !c.HasSubCommands() && (o.status != 0 || example == nil) {
			t.Errorf("%v: status %d: %s%s", path, o.status, o.text, o.errors)
		}
		if example != nil {
			for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(example[1], -1) {
				if !strings.Contains(o.text[strings.Index(o.text, "Flags:"):], flag) {
					t.Errorf("%s: there is no %s", example[1], flag)
				}
			}
		}
		for _, sub := range c.Commands() {
			each(append(slices.Clip(path), sub.Name()), sub)
		}
	}
	each(nil, operate.Command(config(memstore.New())))
}

// A next command has the store that was given, unless the variable has it or it may have a password, and hides what was hidden.
func TestNextHasTheStore(t *testing.T) {
	t.Parallel()
	c := config(memstore.New())
	c.Stores["other"] = c.Stores["mem"]
	for store, want := range map[string]string{
		"mem:":                                 "annals ids --hide-payloads",
		"other:":                               "annals ids --store other: --hide-payloads",
		"other://ann@host/x?a=1&b=it's":        `annals ids --store 'other://ann@host/x?a=1&b=it'\''s' --hide-payloads`,
		"other://ann:secret@host/x":            "annals ids --store URL --hide-payloads",
		"other://ann:1/secret@host/x":          "annals ids --store URL --hide-payloads",
		"other://host/x?password=secret":       "annals ids --store URL --hide-payloads",
		"other:?at=http%3A%2F%2Fa%3Asecret%40": "annals ids --store URL --hide-payloads",
	} {
		for _, flags := range [][]string{nil, {"--json"}} {
			o := runWith(t.Context(), c, append(flags, "show", "Meter|none", "--store", store, "--hide-payloads")...)
			text := strings.ReplaceAll(o.text+`"`, `\u0026`, "&")
			if o.status != 0 || !strings.Contains(text, want+"\n") && !strings.Contains(text, strings.ReplaceAll(want, `\`, `\\`)+`"`) || strings.Contains(text, "secret") {
				t.Errorf("%s: %+v, want next %s", store, o, want)
			}
		}
	}
}

// A next command has the --source that was given, as it has the --store.
func TestNextHasTheSource(t *testing.T) {
	t.Parallel()
	c := config(memstore.New())
	for source, want := range map[string]string{"mem://host/x": "mem://host/x", "mem://ann:secret@host/x": "URL"} {
		o := runWith(t.Context(), c, "projection", "await", "p", "Meter|a", "1", "--timeout", "1ms", "--source", source)
		if o.status != 2 || !strings.Contains(o.errors, "next: annals projection status p --source "+want+"\n") {
			t.Errorf("%+v", o)
		}
	}
}

// A command that goes on has all flags that were given, but those that it changes.
func TestNextHasTheFlags(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	parkAll(t, s, "sums", "broken", "broken")
	c, message := config(s), string((&descriptorpb.FileDescriptorSet{}).ProtoReflect().Descriptor().FullName())
	c.Descriptors = protoregistry.GlobalFiles
	for args, want := range map[string]string{
		"show Meter|a --raw --limit 1":                        "show 'Meter|a' --limit 1 --raw --after 1",
		"show Meter|a --at 1 --raw --diff":                    "show 'Meter|a' --raw --after 1",
		"ids --type Meter --limit 1":                          "ids --limit 1 --type Meter --after 'Meter|a'",
		"projection parked sums --limit 1":                    "projection parked sums --limit 1 --after 'Meter|b'",
		"projection discard sums Meter|a --to 2":              "projection discard sums 'Meter|a' --to 2 --yes",
		"trace none --rate 9 --projections sums,p --type T":   "trace none --projections sums,p --rate 9 --type T --since 0",
		"prune --type Meter --no-writers=false --rate 100000": "prune --no-writers=false --rate 100000 --type Meter --yes",
		"trace none --projections \"a,b\",p":                  `trace none --projections '"a,b",p' --since 0`,
		"show Meter|a --message []=" + message + " --limit 1": "show 'Meter|a' --limit 1 --message '[]=" + message + "' --after 1",
		"prune -- --type=Meter":                               "prune --yes -- --type=Meter",
	} {
		o := run(t, c, strings.Fields(args)...)
		if !strings.Contains(o.text, "next: annals "+want+"\n") {
			t.Errorf("%s: %+v, want next %s", args, o, want)
		}
	}
}

// A command has as many arguments as its help says, and none is empty, as that of a variable which is not set.
func TestArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"ids", "x"}, {"tail", ""}, {"show"}, {"show", ""}, {"show", "a", "b"}, {"test"}, {"trace", ""}, {"stats", ""}, {"verify", ""}, {"forget"}, {"forget", "a", ""},
		{"prune", ""}, {"erase"}, {"doctor", "x"}, {"schema", "show", "x"}, {"projection", "list", "x"}, {"projection", "status"}, {"projection", "status", "p", ""}, {"projection", "pause"},
		{"projection", "pause", "p", "q"}, {"projection", "reset", ""}, {"projection", "await", "p", "", "1"}, {"projection", "await", "p", "a"}, {"projection", "retry"}, {"projection", "discard", "p", "--to", "1"}} {
		o := run(t, config(memstore.New()), append(args, "--json")...)
		if _, code := parsed(t, o); o.status != 3 || code != "usage" {
			t.Errorf("%q: %+v", args, o)
		}
	}
}

// Ids and names of projections that begin with a minus are no flags in the commands that are printed.
func TestNextOfIDsWithMinus(t *testing.T) {
	t.Parallel()
	event := annals.NewEvent{Payload: annals.Payload{SerializerID: 1, Data: make([]byte, 100)}}
	for args, want := range map[string]string{
		"ids":                           "show -- --x",
		"top":                           "show -- --x",
		"show --limit 1 -- --x":         "show --limit 1 --after 1 -- --x",
		"projection parked -- -p":       "projection retry -- -p 'Meter|a'",
		"projection pause -- -p":        "projection resume -- -p",
		"projection rebuild -- -p":      "projection reset --yes -- -p",
		"projection list":               "projection status -- -p",
		"trace --rate 9 --type T -- -x": "trace --rate 9 --type T --since 0 -- -x",
	} {
		s := memstore.New() // the commands change it
		parkAll(t, s, "-p", "broken")
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "--x", Events: []annals.NewEvent{event, event, event}}); err != nil {
			t.Fatal(err)
		}
		o := run(t, config(s), strings.Fields(args)...)
		if !strings.Contains(o.text+o.errors, "next: annals "+want+"\n") {
			t.Errorf("%s: %+v, want next %s", args, o, want)
		}
		if next := run(t, config(s), strings.Fields(strings.ReplaceAll(want, "'", ""))...); next.status == 3 {
			t.Errorf("%s: %+v", want, next)
		}
	}
}
