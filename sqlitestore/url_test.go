package sqlitestore_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/storeurl/urltest"
	"github.com/annals-go/annals/sqlitestore"
)

func TestURLParameters(t *testing.T) {
	t.Parallel()
	urltest.Check(t, "../docs/stores/urls.md", "sqlitestore", "sqlite:chat.db", func(u *url.URL) (any, error) { return sqlitestore.FromURL(u) })
}

// With an error, OpenURL returns a nil interface, not a nil *Store.
func TestOpenURLReturnsNoStoreWithAnError(t *testing.T) {
	t.Parallel()
	u := &url.URL{Scheme: "sqlite", Path: t.TempDir()}
	if s, err := (sqlitestore.Options{}).OpenURL(t.Context(), u); s != nil || err == nil {
		t.Errorf("a folder was opened: %v, %v", s, err)
	}
}

func TestOpenURL(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	openers := annals.Openers{"sqlite": sqlitestore.Options{}.OpenURL}
	for rawURL, file := range map[string]string{
		"sqlite:chat.db":                   "chat.db",
		"sqlite:with%20blank%3F%23.db":     "with blank?#.db",
		"sqlite://" + dir + "/absolute.db": "absolute.db",
	} {
		s, err := openers.Open(t.Context(), rawURL)
		if err != nil {
			t.Errorf("%s: %v", rawURL, err)
			continue
		}
		mustAppend(t, s, commit("T|1", 0, 1))
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Errorf("%s: %v", rawURL, err)
		}
	}
	for _, bad := range []string{"sqlite:", "sqlite:x.db?mode=ro", "sqlite:x.db?", "sqlite:x.db?a=1;b=2", "sqlite:missing.db?create=false", "sqlite://user:secret@/x.db", "sqlite://host/x.db", "sqlite:x.db#1", "sqlite:%zz"} {
		if s, err := openers.Open(t.Context(), bad); s != nil || !errors.Is(err, annals.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v, want ErrInvalid", bad, s, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("files left: %v, %v", entries, err)
	}
}
