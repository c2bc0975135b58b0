package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/examples/groupchat/readmodel"
	"github.com/annals-go/annals/projection"
)

// patience is how long a stopping server waits for what it has begun.
const patience = 10 * time.Second

// serve runs the service until ctx ends, then finishes what it has begun. Its first line of output is
// "listening on http://address".
func serve(ctx context.Context, args []string, out, log io.Writer) (err error) {
	flags := flag.NewFlagSet("groupchat serve", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8080", "`address` to listen on; port 0 takes a free one")
	storeURL := flags.String("store", "sqlite:groupchat.db", "`url` of the store; mem: forgets everything")
	reads := flags.String("readmodel", "", "`url` of the SQLite or PostgreSQL database with the read model; by default that of the store,\nor a temporary one for a store that is no such database")
	lease := flags.Duration("lease", 0, "how long a server may show no sign of life until others do its part of the read model; 0 is 10 seconds")
	attached := flags.Bool("attached", false, "stop when standard input ends")
	if err := parse(flags, args, log); err != nil {
		return err
	}
	if *attached {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		go func() {
			defer stop()
			_, _ = io.Copy(io.Discard, os.Stdin)
		}()
	}

	store, err := stores.Open(ctx, *storeURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	logger := slog.New(slog.NewTextHandler(log, nil))
	threads, err := entity.New(store, chat.Behavior, entity.Options{Logger: logger})
	if err != nil {
		return err
	}
	users, err := openUsers(store, logger)
	if err != nil {
		return err
	}
	model, closeModel, err := openReads(ctx, store, *storeURL, *reads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeModel()) }()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           newAPI(threads, users, model, logger),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(listener) }()
	stopFollowing := follow(ctx, model, store, projection.Options{Lease: *lease, Logger: logger}, failed)
	defer stopFollowing()
	fmt.Fprintf(out, "listening on http://%s\n", listener.Addr())

	select {
	case err = <-failed:
	case <-ctx.Done():
		logger.Info("stopping")
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	// First no more requests, then no more entities, then no more events of them; the stores close last.
	return errors.Join(err, server.Shutdown(grace), threads.Shutdown(grace), users.shutdown(grace))
}

// follow keeps a read model up to date until stop is called, which returns when that has ended. An error ends it earlier and is sent to
// failed. A nil model is one that needs nothing.
func follow(ctx context.Context, model *readmodel.Model, journal annals.Store, o projection.Options, failed chan<- error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if model == nil {
			return
		}
		if err := model.Run(ctx, journal, o); err != nil {
			failed <- fmt.Errorf("read model: %w", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
