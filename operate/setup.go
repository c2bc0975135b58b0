package operate

import (
	"context"
	"errors"
	"net/url"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// Setups make, by the schemes of URLs, what the commands schema and doctor use: the SetupURL of the Options of a store.
type Setups map[string]func(ctx context.Context, u *url.URL) (ability.Setup, error)

// setup returns the Setup of the store of the command.
func (k *call) setup() (ability.Setup, error) {
	address, err := k.address()
	if err != nil {
		return nil, err
	}
	var made ability.Setup
	openers := annals.Openers{}
	for scheme, setUp := range k.Setups {
		openers[scheme] = func(ctx context.Context, u *url.URL) (_ annals.Store, err error) {
			made, err = setUp(ctx, u)
			return nil, err
		}
	}
	if _, err := openers.Open(k.ctx, address); err != nil {
		if errors.Is(err, annals.ErrUnsupported) {
			err = unsupported("", "the program has no Config.Setups for this store; the command annals has those of all stores")
		}
		return nil, err
	}
	k.closers = append(k.closers, made.Close)
	return made, nil
}
