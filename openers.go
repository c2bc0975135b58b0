package annals

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Openers opens stores by URL. The key is the scheme, and the value is the OpenURL of the Options of a store:
//
//	stores := annals.Openers{"mem": memstore.Options{}.OpenURL, "sqlite": sqlitestore.Options{}.OpenURL}
//	store, err := stores.Open(ctx, "sqlite:chat.db")
type Openers map[string]func(ctx context.Context, u *url.URL) (Store, error)

// Open opens the store that rawURL names. The scheme "postgresql", which servers and clients of PostgreSQL also use, means "postgres" unless o has
// it. A text that is not a URL is ErrInvalid, and a scheme that is not in o is ErrUnsupported. Errors
// never repeat the URL, which may contain a password. docs/stores/urls.md lists the parameters of all stores.
func (o Openers) Open(ctx context.Context, rawURL string) (Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil { // its text quotes the URL: where a password is not percent-encoded, a piece of it is taken for the port
		return nil, &Error{Op: "open", Kind: ErrInvalid, Err: errors.New("the URL cannot be parsed: are / ? # % and @ in its password percent-encoded?")}
	}
	open, ok := o[u.Scheme]
	if !ok && u.Scheme == "postgresql" {
		open, ok = o["postgres"]
	}
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(o)), ", ")
		return nil, &Error{Op: "open", Kind: ErrUnsupported, Err: fmt.Errorf("no store for scheme %q (there are: %s)", u.Scheme, known)}
	}
	s, err := open(ctx, u)
	if err != nil {
		return nil, err // whatever s is: a nil pointer in it would look like a store
	}
	return s, nil
}
