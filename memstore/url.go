package memstore

import (
	"context"
	"errors"
	"net/url"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/storeurl"
)

// OpenURL opens "mem:", an empty store with the Options o. It takes no parameters.
func (o Options) OpenURL(_ context.Context, u *url.URL) (annals.Store, error) {
	err := storeurl.Parse(u).Err()
	if u.User != nil || u.Host != "" || u.Path != "" || u.Opaque != "" {
		err = errors.Join(err, errors.New("the URL is mem: and nothing else"))
	}
	if err != nil {
		return nil, &annals.Error{Op: "open", Kind: annals.ErrInvalid, Err: err}
	}
	return Open(o)
}
