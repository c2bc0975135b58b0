package operate

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"go/token"
	"hash/fnv"
	"io"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
)

// The most that a test has: compilers take long for more.
const (
	mostTested      = 10_000   // events
	mostTestedBytes = 16 << 20 // of payloads
)

// testView is a Go file.
type testView struct {
	ID     annals.PersistenceID `json:"id"`
	Number annals.SeqNr         `json:"number"` // of the last event in it, or the revision
	Source string               `json:"source"`
}

func (v *testView) print(w io.Writer) { _, _ = io.WriteString(w, v.Source) }

func (o *options) testCommand() *cobra.Command {
	c := &cobra.Command{Use: "test ID", Short: "Write the history of an entity as a Go test",
		Long: "Write the history of an entity as a Go test, which has the stored payloads and demands the state that the behavior makes of them now. The program must have\n" +
			"the behavior. Redirect the output to a file whose name ends with _test.go."}
	f := c.Flags()
	to := f.Int64("to", 0, "the history up to this number; 0 is all of it")
	behavior := f.String("behavior", "", "the Go variable with the behavior, with its import path: example.com/shop/order.Behavior; without a path it is in the\n"+
		"package of the test. The default is Behavior in the package of the commands")
	pkg := f.String("package", "", "package of the test; the default is the package of the behavior with _test")
	return o.command(c, func(k *call) error {
		switch {
		case *to < 0:
			return usage("--to is the number of an event")
		case k.hide:
			return usage("a test has payloads, and they are hidden")
		}
		id := annals.PersistenceID(k.args[0])
		e, named := k.entity(id)
		if e == nil {
			return k.noBehavior(id)
		}
		g, err := goNames(e, *behavior, *pkg)
		if err != nil {
			return err
		}
		s, err := k.store()
		if err != nil {
			return err
		}
		h := &history{answer: &k.answer, store: s, id: id, entity: e, named: named}
		if err := h.read(annals.SeqNr(*to)); err != nil {
			return err
		}
		source, err := g.source(h)
		if err != nil {
			return err
		}
		k.view = &testView{id, h.number, source}
		return nil
	})
}

// noBehavior is the error of a command that needs the behavior of id.
func (a *answer) noBehavior(id annals.PersistenceID) error {
	return &failure{storeFails, diagnostic{Code: "unsupported", Message: "this program does not know the behavior of the entity: its states and decisions need the program that has it",
		Next: a.next("show", string(id))}}
}

// history is what a test has.
type history struct {
	*answer
	store  annals.Store
	id     annals.PersistenceID
	entity Entity
	named  string // the id that the program has

	snapshot *annals.Snapshot
	events   []annals.Event
	state    annals.Payload
	number   annals.SeqNr
}

// read reads the history up to the number to; 0 is all of it.
func (h *history) read(to annals.SeqNr) (err error) {
	m := moment{}
	if to > 0 {
		m.number = &to
	}
	if h.state, h.number, err = h.entity.load(h.ctx, h.store, h.named, m, true); errors.Is(err, annals.ErrInvalid) {
		return &failure{wrongUsage, diagnostic{"invalid", plain(err), h.next("show", string(h.id))}}
	}
	switch {
	case err != nil:
		return err
	case h.number == 0:
		return &failure{wrongUsage, diagnostic{"nothing", "the store has nothing of this id", h.nextIDs(h.store, "")}}
	case h.entity.kind() == durableKind:
		return h.readState()
	}
	size := 0
	for e, err := range h.store.Journal().Replay(h.ctx, h.id, 1, h.number) {
		if err != nil {
			return err
		}
		if size += int(sizeOf(e.Payload, e.Metadata)); len(h.events) == mostTested || size > mostTestedBytes {
			return usage("the history has more than %d events, or %d bytes: give --to", mostTested, mostTestedBytes)
		}
		h.events = append(h.events, e)
	}
	if !h.store.Capabilities().Snapshots || len(h.events) > 0 && h.events[0].SeqNr == 1 {
		return nil
	}
	// The first events are deleted, so the state comes from a snapshot, unless there was none.
	s, ok, err := h.store.Snapshots().Latest(h.ctx, h.id, annals.SnapshotCriteria{MaxSeqNr: h.number})
	if !ok || err != nil {
		return err
	}
	h.snapshot = &s
	for len(h.events) > 0 && h.events[0].SeqNr <= s.SeqNr {
		h.events = h.events[1:]
	}
	return nil
}

// readState reads a durable state as one event.
func (h *history) readState() error {
	s, ok, err := h.store.States().Get(h.ctx, h.id)
	switch {
	case err != nil:
		return err
	case !ok:
		return &failure{wrongUsage, diagnostic{"nothing", "the state is deleted", h.next("show", string(h.id))}}
	}
	if s.Revision != h.number {
		return &failure{storeFails, diagnostic{"changed", "the state has changed while it was read: repeat the command", ""}}
	}
	h.events = []annals.Event{{ID: h.id, SeqNr: s.Revision, Time: s.Time, Payload: s.Payload, Metadata: s.Metadata}}
	return nil
}

// names are those of Go in a test.
type names struct {
	pkg, path, alias, behavior string // path and alias are "" when the behavior is in the package of the test
}

// goNames are the names for a test of e: those of the flags, or else those of its types.
func goNames(e Entity, behavior, pkg string) (names, error) {
	g := names{pkg: pkg, behavior: "Behavior"}
	if behavior != "" {
		dot := strings.LastIndex(behavior, ".")
		if g.behavior = behavior[dot+1:]; dot >= 0 {
			g.path = behavior[:dot]
			g.alias = aliasOf(g.path)
		}
	} else {
		g.path, g.alias = home(e.types())
	}
	if g.pkg == "" {
		if g.pkg = g.alias + "_test"; g.alias == "" || g.path == "main" {
			g.pkg = "main"
		}
	}
	switch {
	case !token.IsIdentifier(g.behavior) || strings.ContainsFunc(g.path, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"`\\", r) }):
		return g, usage("--behavior is a variable with its import path, such as example.com/shop/order.Behavior")
	case !token.IsIdentifier(g.pkg):
		return g, usage("--package is the name of a Go package")
	case behavior == "" && g.path == "":
		return g, usage("the types of %s are in no package: give --behavior", name(e.entityType()))
	case g.path == "main" || g.pkg == g.alias:
		g.path = ""
	}
	if slices.Contains([]string{"testing", "time", "annals", "entitytest", "t", "byte"}, g.alias) { // the file has other uses for these
		g.alias += "domain"
	}
	return g, nil
}

// home is the package of the first of types that has one.
func home(types []reflect.Type) (importPath, alias string) {
	for _, t := range types {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if p := t.PkgPath(); p != "" {
			alias, _, _ = strings.Cut(t.String(), ".")
			return p, alias
		}
	}
	return "", ""
}

// aliasOf is a name for the package at an import path.
func aliasOf(importPath string) string {
	base := path.Base(importPath)
	if regexp.MustCompile(`^v\d+$`).MatchString(base) && path.Dir(importPath) != "." {
		base = path.Base(path.Dir(importPath))
	}
	alias := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(base))
	if !token.IsIdentifier(alias) {
		return "domain"
	}
	return alias
}

// source is the Go file for h.
func (g names) source(h *history) (string, error) {
	var b bytes.Buffer
	times := h.snapshot != nil && !h.snapshot.Time.IsZero()
	for _, e := range h.events {
		times = times || !e.Time.IsZero()
	}
	fmt.Fprintf(&b, "package %s\n\nimport (\n\t\"testing\"\n", g.pkg)
	if times {
		fmt.Fprint(&b, "\t\"time\"\n")
	}
	const module = "github.com/annals-go/annals"
	fmt.Fprintf(&b, "\n\t%q\n\t%q\n", module, module+"/entitytest")
	behavior := g.behavior
	if g.path != "" {
		behavior = g.alias + "." + behavior
		alias := g.alias + " "
		if path.Base(g.path) == g.alias {
			alias = ""
		}
		fmt.Fprintf(&b, "\t%s%s\n", alias, strconv.Quote(g.path))
	}
	function := "New"
	if h.entity.kind() == durableKind {
		function = "NewState"
	}
	fmt.Fprintf(&b, ")\n\n// The history of %s up to number %d, as a store has it.\nfunc Test%s(t *testing.T) {\n\tt.Parallel()\n", ascii(name(string(h.id))), h.number, funcName(h.id, h.number))
	fmt.Fprintf(&b, "entitytest.%s(t, %s, %s).Stored(entitytest.History{\n", function, behavior, strconv.QuoteToASCII(h.named))
	if s := h.snapshot; s != nil {
		fmt.Fprintf(&b, "Snapshot: &annals.Snapshot{SeqNr: %d%s, Payload: %s},\n", s.SeqNr, goTime(s.Time), goPayload(s.Payload))
	}
	fmt.Fprint(&b, "Events: []annals.Event{\n")
	for _, e := range h.events {
		fmt.Fprintf(&b, "{SeqNr: %d%s, Payload: %s", e.SeqNr, goTime(e.Time), goPayload(e.Payload))
		if e.Metadata.SerializerID != 0 {
			fmt.Fprintf(&b, ", Metadata: %s", goPayload(e.Metadata))
		}
		fmt.Fprint(&b, "},\n")
	}
	fmt.Fprintf(&b, "},\nState: %s,\n})\n}\n", goPayload(h.state))
	text, err := format.Source(b.Bytes())
	return string(text), err
}

// ascii is text with escapes for all other characters.
func ascii(text string) string {
	quoted := strconv.QuoteToASCII(text)
	return quoted[1 : len(quoted)-1]
}

// funcName is the name of a test of id. A hash tells ids apart whose other characters are the same.
func funcName(id annals.PersistenceID, n annals.SeqNr) string {
	lossy := false
	letters := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
			return r
		case r != '|':
			lossy = true
		}
		return '_'
	}, string(id))
	if lossy || len(letters) > 50 {
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(id))
		letters = fmt.Sprintf("%s_%08x", letters[:min(len(letters), 50)], sum.Sum32())
	}
	return fmt.Sprintf("%s_at_%d", strings.ToUpper(letters[:1])+letters[1:], n)
}

// goTime is a time as a field of a literal, "" when there is none.
func goTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	t = t.UTC()
	return fmt.Sprintf(", Time: time.Date(%d, %d, %d, %d, %d, %d, %d, time.UTC)", t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond())
}

// goPayload is p as a literal.
func goPayload(p annals.Payload) string {
	data := strconv.QuoteToASCII(string(p.Data))
	if raw := strconv.Quote(string(p.Data)); data == raw && strings.Contains(raw, `\"`) && strconv.CanBackquote(string(p.Data)) {
		data = "`" + string(p.Data) + "`"
	}
	text := fmt.Sprintf("annals.Payload{SerializerID: %d", p.SerializerID)
	if p.Manifest != "" {
		text += ", Manifest: " + strconv.QuoteToASCII(p.Manifest)
	}
	if len(p.Data) > 0 {
		text += ", Data: []byte(" + data + ")"
	}
	return text + "}"
}
