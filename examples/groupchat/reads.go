package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/examples/groupchat/readmodel"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/sqlitestore"
)

// readStores are the stores that can have a read model in their database.
var readStores = annals.Openers{
	"sqlite":   sqlitestore.Options{}.OpenURL,
	"postgres": pgstore.Options{CreateTables: true}.OpenURL,
}

// openReads opens the read model of a store's events, in the database at a URL. "" is the database of the store itself, or a temporary
// one when the store has none for it. The model is nil when the store can
// neither be queried nor push its events.
func openReads(ctx context.Context, store annals.Store, storeURL, rawURL string) (m *readmodel.Model, done func() error, err error) {
	done = func() error { return nil }
	_, pushes := ability.Of[ability.Subscriber](store)
	if c := store.Capabilities(); pushes != nil && (!c.EventQueries || !c.IDQueries) {
		return nil, done, nil
	}
	if rawURL == "" || rawURL == storeURL {
		m, err = readmodel.Open(ctx, store)
		if rawURL != "" || !errors.Is(err, annals.ErrUnsupported) {
			return m, done, err
		}
		dir, err := os.MkdirTemp("", "groupchat-")
		if err != nil {
			return nil, nil, err
		}
		rawURL = sqliteURL(filepath.Join(dir, "readmodel.db"))
		done = func() error { return os.RemoveAll(dir) }
	}
	in, err := readStores.Open(ctx, rawURL)
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	remove := done
	done = func() error { return errors.Join(in.Close(), remove()) }
	if m, err = readmodel.Open(ctx, in); err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return m, done, nil
}

// sqliteURL is the URL of a store in a file.
func sqliteURL(file string) string {
	return (&url.URL{Scheme: "sqlite", Path: filepath.ToSlash(file)}).String()
}
