package annals_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// go.mod says what users get: it replaces nothing, and marks as indirect what this module does not import itself, and only that.
// (go mod tidy knows this too, but wants to download the tests of every dependency.)
func TestModule(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	direct := map[string]bool{} // by module
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(strings.TrimPrefix(line, "require "))
		switch {
		case len(words) > 0 && slices.Contains([]string{"replace", "exclude", "toolchain"}, words[0]):
			t.Errorf("go.mod says %q", strings.TrimSpace(line))
		case len(words) >= 2 && strings.HasPrefix(words[1], "v"):
			direct[words[0]] = !strings.HasSuffix(strings.TrimSpace(line), "// indirect")
		}
	}
	imported := map[string]bool{} // by module
	for _, files := range packages(t) {
		for _, f := range files {
			for _, i := range f.imports {
				for m := range direct {
					if within(i, m) {
						imported[m] = true
					}
				}
			}
		}
	}
	for m, is := range direct {
		if is != imported[m] {
			t.Errorf("go.mod: %s is imported here: %v; it is listed as direct: %v", m, imported[m], is)
		}
	}
}

// The modules for users replace the root module, and nothing else, in a checkout: outlet and otel in go.mod, and operate, whose program can be installed with
// go install, in go.work. Users get the version that they require, so that one exists, and they import nothing internal of it but in tests.
func TestOtherModules(t *testing.T) {
	t.Parallel()
	for dir, replaces := range map[string]string{"outlet": "go.mod", "otel": "go.mod", "operate": "go.work"} {
		replaced := false
		for _, name := range []string{"go.mod", "go.work"} {
			text, err := os.ReadFile(path.Join(dir, name))
			if err != nil && name == replaces {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				words := strings.Fields(strings.TrimPrefix(line, "require "))
				switch {
				case len(words) > 0 && words[0] == "replace":
					if replaced = true; name != replaces || strings.Join(words, " ") != "replace "+module+" => ../" {
						t.Errorf("%s/%s says %q", dir, name, strings.TrimSpace(line))
					}
				case len(words) == 2 && words[0] == module && (words[1] == "v0.0.0" || strings.HasPrefix(words[1], "v0.0.0-0001")):
					t.Errorf("%s/%s requires %s %s, which does not exist", dir, name, module, words[1])
				}
			}
		}
		if !replaced {
			t.Errorf("%s/%s does not replace the root module", dir, replaces)
		}
		otherModule(t, dir)
	}
}

// otherModule checks the files of a module for users.
func otherModule(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".go" {
			return err
		}
		f, err := read(name)
		if err != nil {
			return err
		}
		files++
		for _, imported := range f.imports {
			if strings.Contains(imported, "/internal/") && !f.test {
				t.Errorf("%s imports %s: the root module may have another version", name, imported)
			}
		}
		if f.lines > maxLines {
			t.Errorf("%s has %d lines: are these two concepts?", name, f.lines)
		}
		for _, fault := range f.faults {
			t.Error(fault)
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Errorf("%s: %d files, %v", dir, files, err)
	}
}
