package memstore_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/storeurl/urltest"
	"github.com/annals-go/annals/memstore"
)

func TestOpenURL(t *testing.T) {
	t.Parallel()
	urltest.Check(t, "../docs/stores/urls.md", "memstore", "mem:", func(u *url.URL) (any, error) {
		_, err := memstore.Options{}.OpenURL(t.Context(), u)
		return memstore.Options{}, err
	})
	openers := annals.Openers{"mem": memstore.Options{}.OpenURL}
	for _, bad := range []string{"mem:?typo", "mem:?typo=1", "mem:?", "mem:#secret", "mem:secret", "mem://secret", "mem:///secret", "mem://user:secret@host", "mem:?%zz", "mem:?a=1;b=2"} {
		if s, err := openers.Open(t.Context(), bad); s != nil || !errors.Is(err, annals.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v", bad, s, err)
		}
	}
}
