package annals_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/annals-go/annals"

// everybody is what every package may import. It imports the standard library only.
const everybody = module + "/internal/quote"

// anything lets a package import whatever it likes.
const anything = "*"

// rules say which packages of this module, and which of other modules, the non-test files of a package may import, beside the
// standard library and everybody. "x/..." is x and everything below it. The first rule that names a package holds.
var rules = []struct {
	pkg  string // "" is the root package
	may  string
	libs string
}{
	{pkg: "", may: "internal/contexts"},
	{pkg: "ability", may: "root"},
	{pkg: "behavior", may: "root codec"},

	{pkg: "codec", may: "root codec/internal/..."},
	{pkg: "codec/internal/..."},
	{pkg: "codec/protocodec", may: "root codec", libs: "google.golang.org/protobuf"},
	{pkg: "codec/sealed", may: "root codec internal/backoff internal/claims internal/valid"},
	{pkg: "codec/cborcodec", may: "root codec codec/internal/...", libs: "github.com/fxamacker/cbor/v2"},

	{pkg: "entity", may: "root ability codec behavior internal/backoff internal/contexts internal/host internal/panics"},
	{pkg: "aggregate", may: "root ability codec behavior internal/backoff internal/claims internal/contexts internal/host internal/keys internal/panics"},
	{pkg: "query", may: "root ability internal/backoff internal/claims internal/position internal/progress internal/valid internal/warning"},
	{pkg: "cleanup", may: "root ability internal/backoff internal/claims internal/keys internal/panics internal/progress"},
	{pkg: "projection", may: "root ability codec query internal/backoff internal/claims internal/contexts internal/document internal/leases internal/panics internal/position internal/progress internal/valid"},
	{pkg: "lease", may: "root codec internal/backoff internal/claims internal/document internal/leases internal/panics internal/valid"},
	{pkg: "process", may: "root ability aggregate behavior codec projection internal/backoff internal/calendar internal/host internal/keys internal/panics internal/quote internal/valid"},
	{pkg: "process/processtest", may: "root codec process internal/host"},
	{pkg: "tenants", may: "root internal/panics"},
	{pkg: "verify", may: "root ability internal/backoff internal/progress"},
	{pkg: "projection/projectiontest", may: "root codec memstore projection internal/faulty"},

	{pkg: "driver", may: "root ability internal/bound internal/contexts internal/panics internal/progress internal/valid internal/warning"},
	{pkg: "memstore", may: "root ability driver internal/contexts internal/statetype internal/panics internal/position internal/storeurl internal/watchers internal/writes"},
	{pkg: "sqltx", may: "root ability"},
	{pkg: "sqlitestore/...", may: "root ability internal/findings sqltx driver internal/contexts internal/statetype internal/sqltext internal/writes internal/backoff internal/panics internal/position internal/storeurl internal/valid internal/watchers", libs: "modernc.org/sqlite"},
	{pkg: "pgstore/...", may: "root ability internal/findings sqltx driver internal/contexts internal/statetype internal/bound internal/clock internal/sqltext internal/writes internal/backoff internal/panics internal/position internal/progress internal/storeurl internal/valid internal/watchers pgstore/internal/...", libs: "github.com/jackc/pgx/v5"},
	{pkg: "dynamostore/...", may: "root ability internal/findings driver internal/contexts internal/statetype internal/writes internal/akkawire internal/backoff internal/clock internal/leases internal/lost internal/panics internal/position internal/random internal/storeurl internal/valid dynamostore/...", libs: "github.com/aws/aws-sdk-go-v2 github.com/aws/smithy-go"},

	{pkg: "storetest/...", may: "root ability memstore verify internal/backoff internal/contexts internal/faulty internal/verifytest storetest/...", libs: "pgregory.net/rapid github.com/anishathalye/porcupine github.com/google/go-cmp"},
	{pkg: "entitytest", may: "root codec behavior internal/host"},

	{pkg: "internal/bound"},
	{pkg: "internal/clock"},
	{pkg: "internal/findings", may: "root ability"},          // for stores
	{pkg: "internal/contexts"},                               // for hosts, stores and package driver
	{pkg: "internal/statetype", may: "root internal/panics"}, // for stores
	{pkg: "internal/sqltext"},
	{pkg: "internal/keys", may: "root codec internal/document"}, // for package aggregate and cleanup
	{pkg: "internal/leases"},
	{pkg: "internal/document", may: "root codec internal/backoff"},
	{pkg: "internal/calendar", may: "root codec lease internal/backoff internal/claims internal/document internal/panics internal/valid"},
	{pkg: "internal/writes", may: "root"},
	{pkg: "internal/akkawire", may: "root", libs: "google.golang.org/protobuf"},
	{pkg: "internal/backoff", may: "root"},
	{pkg: "internal/claims", may: "root"}, // for hosts
	{pkg: "internal/quote"},
	{pkg: "internal/random"},                                       // the random choices of tests
	{pkg: "internal/valid", may: "root ability internal/progress"}, // for package driver, hosts and sealed
	{pkg: "internal/panics", may: "root"},
	{pkg: "internal/position", may: "root"}, // for stores, feeds and projections
	{pkg: "internal/progress", may: "root"}, // for hosts, projections, queries, pgstore, driver and valid
	{pkg: "internal/storeurl"},
	{pkg: "internal/warning"},
	{pkg: "internal/watchers", may: "root"}, // for stores
	{pkg: "internal/storeurl/urltest"},
	{pkg: "internal/host", may: "root ability codec behavior internal/backoff internal/claims internal/contexts internal/panics internal/progress internal/valid"}, // what entity and aggregate share; not for stores
	// hosttest checks hosts on a store, in the tests of stores.
	{pkg: "internal/hosttest", may: "root ability aggregate cleanup codec behavior entity lease internal/backoff internal/calendar internal/faulty internal/random", libs: "github.com/anishathalye/porcupine"},
	// late is a store whose events become visible late.
	{pkg: "internal/late", may: "root ability driver memstore internal/faulty internal/random internal/watchers"},
	// faulty is a store in front of another one, which tests let fail.
	{pkg: "internal/faulty", may: "root ability"},
	// lost compares what a store tells of an entity with and without a row.
	{pkg: "internal/lost", may: "root ability"},
	// followtest checks feeds and projections on a store, in the tests of stores.
	{pkg: "internal/followtest", may: "root codec internal/backoff internal/faulty internal/late internal/position internal/random query projection"},
	// verifytest compares what package verify finds with what a test has damaged, for storetest and the tests of stores.
	{pkg: "internal/verifytest", may: "root ability verify"},
	// Database servers for tests and measurements.
	{pkg: "internal/servers/process"},
	{pkg: "internal/servers/postgres", may: "internal/servers/process", libs: "github.com/jackc/pgx/v5"},
	{pkg: "internal/servers/dynamo", may: "internal/servers/process"},
	{pkg: "internal/servers/stores", may: "root dynamostore pgstore sqlitestore internal/servers/..."},
	{pkg: "cmd/...", may: anything, libs: anything},
	{pkg: "examples/...", may: anything, libs: anything},
}

// testOnly are packages and modules that no program links: only tests, and the packages that are for tests, import them.
var testOnly = []string{
	module + "/storetest", module + "/entitytest", module + "/projection/projectiontest", module + "/process/processtest", module + "/dynamostore/internal/plantest", module + "/internal/servers", module + "/internal/storeurl/urltest",
	module + "/internal/hosttest", module + "/internal/followtest", module + "/internal/verifytest", module + "/internal/late", module + "/internal/faulty", module + "/internal/lost", module + "/internal/random",
	"pgregory.net/rapid", "github.com/anishathalye/porcupine", "github.com/google/go-cmp", "testing",
}

func TestImports(t *testing.T) {
	t.Parallel()
	for dir, files := range packages(t) {
		if !slices.ContainsFunc(files, func(f goFile) bool { return !f.test }) {
			continue // the tests of a package that is elsewhere
		}
		i := slices.IndexFunc(rules, func(r struct{ pkg, may, libs string }) bool { return covers(r.pkg, dir) })
		if i < 0 {
			t.Errorf("package %s: say in rules where it belongs", dir)
			continue
		}
		for _, f := range files {
			if f.test {
				continue
			}
			for _, imported := range f.imports {
				if !allowed(imported, rules[i].may, rules[i].libs) {
					t.Errorf("%s imports %s: not for package %q", f.name, imported, dir)
				}
				if forTests(imported) && !forTests(module+"/"+dir) {
					t.Errorf("%s imports %s, which is for tests", f.name, imported)
				}
			}
		}
	}
}

func forTests(imported string) bool {
	return slices.ContainsFunc(testOnly, func(p string) bool { return within(imported, p) })
}

// covers reports whether the rule for pattern is about the package in dir.
func covers(pattern, dir string) bool {
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return within(dir, below)
	}
	return dir == pattern
}

// within reports whether p is root or below it.
func within(p, root string) bool { return p == root || strings.HasPrefix(p, root+"/") }

func allowed(imported, may, libs string) bool {
	dir, ours := "", imported == module
	if !ours {
		dir, ours = strings.CutPrefix(imported, module+"/")
	}
	switch {
	case imported == everybody, ours && may == anything, !ours && libs == anything:
		return true
	case ours:
		return slices.ContainsFunc(strings.Fields(may), func(m string) bool {
			return m == "root" && dir == "" || covers(m, dir)
		})
	case !strings.Contains(strings.Split(imported, "/")[0], "."):
		return true // the standard library
	}
	return slices.ContainsFunc(strings.Fields(libs), func(lib string) bool { return within(imported, lib) })
}

// The rules mean what they say: a test of the test.
func TestImportRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		imported, may, libs string
		want                bool
	}{
		{"net/http", "", "", true},
		{module, "", "", false},
		{module, "root", "", true},
		{module + "/codec", "root", "", false},
		{module + "/codec", "root codec", "", true},
		{module + "/codec/cborcodec", "root codec", "", false},
		{module + "/internal/backoff", "root internal/...", "", true},
		{module + "/entity", "root internal/...", "modernc.org/sqlite", false},
		{"modernc.org/sqlite", "root", "modernc.org/sqlite", true},
		{"modernc.org/sqlite/lib", "root", "modernc.org/sqlite", true},
		{"modernc.org/sqlite3", "root", "modernc.org/sqlite", false},
		{"github.com/jackc/pgx/v5", "root", "modernc.org/sqlite", false},
		{module + "/storetest", anything, "", true},
		{"example.org/x", anything, "", false},
	} {
		if got := allowed(c.imported, c.may, c.libs); got != c.want {
			t.Errorf("%s with %q and %q: allowed is %v", c.imported, c.may, c.libs, got)
		}
	}
}

// A file that passes this many lines probably holds two concepts.
const maxLines = 500

// longFiles may be longer, for the reason given.
var longFiles = map[string]string{}

// vague names say nothing about what a package is for.
var vague = []string{"util", "utils", "common", "helper", "helpers", "manager", "misc", "base", "lib", "shared"}

func TestFiles(t *testing.T) {
	t.Parallel()
	for dir, files := range packages(t) {
		if slices.Contains(vague, path.Base(dir)) {
			t.Errorf("package %s: name it by what it is for", dir)
		}
		for _, f := range files {
			if f.lines > maxLines && longFiles[f.name] == "" {
				t.Errorf("%s has %d lines: are these two concepts?", f.name, f.lines)
			}
			if slices.Contains(vague, strings.TrimSuffix(strings.TrimSuffix(path.Base(f.name), ".go"), "_test")) {
				t.Errorf("%s: name it by what it is for", f.name)
			}
			for _, fault := range f.faults {
				t.Error(fault)
			}
		}
	}
}

// A program that was built in the repository is not added to it by mistake.
func TestNoLargeFiles(t *testing.T) {
	t.Parallel()
	const most = 256 << 10 // bytes
	text, err := os.ReadFile(".gitignore")
	if err != nil {
		t.Fatal(err)
	}
	ignored := strings.Fields(string(text))
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir() || slices.ContainsFunc(ignored, func(pattern string) bool { found, _ := path.Match(pattern, d.Name()); return found }):
			return nil
		}
		if info, err := d.Info(); err != nil || info.Size() > most {
			t.Errorf("%s is larger than %d bytes, or cannot be read: %v", name, most, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// goFile is what these tests know of a file.
type goFile struct {
	name    string // from the root of the module
	test    bool
	imports []string
	lines   int
	faults  []string
}

// packages reads every Go file of the module, whatever its build constraints, by folder; "" is the root.
func packages(t *testing.T) map[string][]goFile {
	t.Helper()
	found := map[string][]goFile{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			_, noModule := os.Stat(path.Join(name, "go.mod"))
			other := name != "." && (noModule == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata")
			if other {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		f, err := read(name)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if dir == "." {
			dir = ""
		}
		found[dir] = append(found[dir], f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found[""]) == 0 {
		t.Fatal("found no files: where am I?")
	}
	return found
}

func read(name string) (goFile, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return goFile{}, err
	}
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return goFile{}, err
	}
	f := goFile{name: name, test: strings.HasSuffix(name, "_test.go")}
	if !ast.IsGenerated(syntax) {
		f.lines = bytes.Count(text, []byte("\n"))
	}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return goFile{}, err
		}
		f.imports = append(f.imports, imported)
	}
	// Inside a synctest bubble a sleep takes no time and waits for everybody; elsewhere it makes a test slow or flaky.
	// A benchmark may stand in for a slow server.
	if f.test && !slices.Contains(f.imports, "testing/synctest") && path.Base(name) != "bench_test.go" {
		ast.Inspect(syntax, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
				if p, ok := s.X.(*ast.Ident); ok && p.Name == "time" {
					f.faults = append(f.faults, set.Position(s.Pos()).String()+": a test waits for a signal, it does not sleep")
				}
			}
			return true
		})
	}
	return f, nil
}

// maxExported is how many names the root package exports: identifiers, methods, and methods of interfaces. What only authors of stores need is
// in package driver, what only some stores have in package ability.
const maxExported = 100

func TestRootIsSmall(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var names []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, exported(syntax)...)
	}
	if n := len(names); n > maxExported || n < maxExported/2 {
		t.Errorf("the root package exports %d names, at most %d are wanted: %s", n, maxExported, strings.Join(names, " "))
	}
}

// exported are the exported names of a file, without the fields of its types.
func exported(file *ast.File) (names []string) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						names = append(names, n.Name)
					}
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
					if i, ok := spec.Type.(*ast.InterfaceType); ok {
						for _, m := range i.Methods.List {
							for _, n := range m.Names {
								names = append(names, n.Name)
							}
						}
					}
				}
			}
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return !ast.IsExported(n) })
}

// A Go type can have the method of an ability that its tables or options have no place for, so ability.Of is the way to ask. Package driver
// asks its drivers, and storetest calls what a store says that it lacks.
func TestAbilitiesAreAskedFor(t *testing.T) {
	t.Parallel()
	asserted := 0
	for dir, files := range packages(t) {
		for _, f := range files {
			syntax, err := parser.ParseFile(token.NewFileSet(), f.name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(syntax, func(n ast.Node) bool {
				a, ok := n.(*ast.TypeAssertExpr)
				if !ok {
					return true
				}
				s, ok := a.Type.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if p, ok := s.X.(*ast.Ident); ok && p.Name == "ability" {
					if asserted++; dir != "driver" && dir != "storetest" && !f.test {
						t.Errorf("%s asserts %s: use ability.Of", f.name, s.Sel.Name)
					}
				}
				return true
			})
		}
	}
	if asserted == 0 {
		t.Error("no file asserts an ability, not even package driver: what is checked?")
	}
}
