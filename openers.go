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

// Openers opens stores by URL: the scheme picks the function. It is a plain map, so main shows what is linked in.
type Openers map[string]func(ctx context.Context, u *url.URL) (Store, error)

// Open opens the store that rawURL names. A URL that is none is ErrInvalid, a scheme that is not in o ErrUnsupported;
// errors never repeat the URL, which may hold a password.
func (o Openers) Open(ctx context.Context, rawURL string) (Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		if e := (*url.Error)(nil); errors.As(err, &e) {
			err = e.Err
		}
		return nil, &Error{Op: "open", Kind: ErrInvalid, Err: err}
	}
	open, ok := o[u.Scheme]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(o)), ", ")
		return nil, &Error{Op: "open", Kind: ErrUnsupported, Err: fmt.Errorf("no store for scheme %q (there are: %s)", u.Scheme, known)}
	}
	return open(ctx, u)
}
