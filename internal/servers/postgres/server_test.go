package postgres_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals/internal/servers/postgres"
)

// The first database cluster is kept, and the second is a copy. Where the kept one cannot be read, the third is made like the first.
func TestKeptCluster(t *testing.T) {
	cache, bin := t.TempDir(), t.TempDir()
	t.Setenv("HOME", cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("CALLS", filepath.Join(bin, "calls"))
	initdb := "#!/bin/sh\necho >> $CALLS\nfor data; do :; done\nmkdir $data && echo 17 > $data/PG_VERSION\n" // the directory is its last argument
	if err := os.WriteFile(filepath.Join(bin, "initdb"), []byte(initdb), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1, 1, 2} {
		data := filepath.Join(t.TempDir(), "data")
		if err := postgres.Create(t.Context(), bin, data); err != nil {
			t.Fatal(err)
		}
		if version, err := os.ReadFile(filepath.Join(data, "PG_VERSION")); string(version) != "17\n" {
			t.Errorf("%q, %v", version, err)
		}
		if calls, err := os.ReadFile(filepath.Join(bin, "calls")); bytes.Count(calls, []byte("\n")) != want {
			t.Errorf("%d calls of initdb, want %d (%v)", len(calls), want, err)
		}
		if i != 1 {
			continue
		}
		kept, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(kept, "annals/cluster-*/PG_VERSION"))
		if err != nil || len(files) != 1 {
			t.Fatalf("kept %q (%v), want one", files, err)
		}
		if err := os.Remove(files[0]); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(bin, files[0]); err != nil {
			t.Fatal(err)
		}
	}
}
