package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/annals-go/annals/projection"
)

// rebuild builds the read model anew, while servers use it, and switches over.
func rebuild(ctx context.Context, args []string, out, log io.Writer) (err error) {
	flags := flag.NewFlagSet("groupchat rebuild", flag.ContinueOnError)
	storeURL := flags.String("store", "sqlite:groupchat.db", "`url` of the store")
	reads := flags.String("readmodel", "", "`url` of the database with the read model; by default that of the store")
	if err := parse(flags, args, log); err != nil {
		return err
	}
	if scheme, _, _ := strings.Cut(*storeURL, ":"); *reads == "" && readStores[scheme] == nil {
		return errors.New("-readmodel is missing: without it each server of such a store has a read model of its own, which it builds when it starts")
	}
	store, err := stores.Open(ctx, *storeURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	model, done, err := openReads(ctx, store, *storeURL, *reads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if model == nil {
		return errNoReads
	}
	o := projection.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}
	err = model.Rebuild(ctx, store, o, func(s projection.Status) { fmt.Fprintln(out, s.Lag, "events are left") })
	if err == nil {
		fmt.Fprintln(out, "the read model is rebuilt")
	}
	return err
}
