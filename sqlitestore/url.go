package sqlitestore

import (
	"context"
	"errors"
	"net/url"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/storeurl"
)

// OpenURL opens sqlite:chat.db (relative to the working directory) or sqlite:///var/lib/chat.db. The URL must not have a host. Its
// parameters are checksums, create=false and read_only.
func (o Options) OpenURL(ctx context.Context, u *url.URL) (annals.Store, error) {
	path, o, err := o.fromURL(u)
	if err != nil {
		return nil, &annals.Error{Op: "open", Kind: annals.ErrInvalid, Err: err}
	}
	s, err := Open(ctx, path, o)
	if err != nil {
		return nil, err // a nil *Store would not be a nil annals.Store
	}
	return s, nil
}

// fromURL returns the file that u names, and o with the parameters of u.
func (o Options) fromURL(u *url.URL) (string, Options, error) {
	p := storeurl.Parse(u)
	p.Fields(&o, storeurl.NoOther)
	faults := []error{p.Err()}
	path := u.Path
	if u.Opaque != "" {
		var err error
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			faults = append(faults, errors.New("the path is not percent-encoded as it should be"))
		}
	}
	if u.Host != "" || u.User != nil {
		faults = append(faults, errors.New("the URL of a file is sqlite:relative/path or sqlite:///absolute/path"))
	}
	return path, o, errors.Join(faults...)
}
