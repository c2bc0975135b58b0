package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/examples/groupchat/profile"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/sqlitestore"
)

// users are the profiles of users. nil means that the store cannot keep names unique.
type users struct {
	profiles *entity.Runtime[profile.Command, profile.Profile, profile.Profile]
	finder   ability.StateFinder
	count    counter
}

// counter returns how many profiles have each status.
type counter func(ctx context.Context) (map[profile.Status]int, error)

// openUsers returns nil if the store cannot keep names unique.
func openUsers(store annals.Store, log *slog.Logger) (*users, error) {
	count := counterOf(store)
	finder, err := ability.Of[ability.StateFinder](store)
	if count == nil || err != nil {
		return nil, nil
	}
	profiles, err := entity.NewState(store, profile.Behavior, entity.Options{Logger: log})
	if err != nil {
		return nil, err
	}
	return &users{profiles, finder, count}, nil
}

// counterOf returns the counter of a store; nil if it has none. There is a file for each store that has one.
func counterOf(store annals.Store) counter {
	switch s := store.(type) {
	case *sqlitestore.Store:
		return countIn(s.SQL())
	case *pgstore.Store:
		return countIn(s.SQL())
	case *inDynamoDB:
		return s.counts
	}
	return nil
}

// byName returns the user with that name; ok is false when there is none.
func (u *users) byName(ctx context.Context, name string) (user string, p profile.Profile, ok bool, err error) {
	for s, err := range u.finder.FindStates(ctx, profile.Behavior.Type, profile.NameColumn, name) {
		if err != nil {
			return "", profile.Profile{}, false, err
		}
		p, err := profile.States.Decode(s.Payload)
		return s.ID.EntityID(), p, err == nil, err
	}
	return "", profile.Profile{}, false, nil
}

// shutdown returns when all commands that were accepted are answered.
func (u *users) shutdown(ctx context.Context) error {
	if u == nil {
		return nil
	}
	return u.profiles.Shutdown(ctx)
}

// errNoUsers answers every request for a profile where users is nil.
var errNoUsers = errors.New("the store of this server keeps no profiles: it cannot hold names unique")
