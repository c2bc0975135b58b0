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

	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/examples/groupchat/chat"
)

// patience is how long a stopping server waits for what it has begun.
const patience = 10 * time.Second

// serve runs the service until ctx ends, then finishes what it has begun. Its first line of output is
// "listening on http://address".
func serve(ctx context.Context, args []string, out, log io.Writer) (err error) {
	flags := flag.NewFlagSet("groupchat serve", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8080", "`address` to listen on; port 0 takes a free one")
	storeURL := flags.String("store", "sqlite:groupchat.db", "`url` of the store; mem: forgets everything")
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
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           newAPI(threads, users, logger),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(out, "listening on http://%s\n", listener.Addr())

	select {
	case err = <-served:
	case <-ctx.Done():
		logger.Info("stopping")
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		// First no more requests, then no more entities; the store closes last.
		err = errors.Join(server.Shutdown(grace), threads.Shutdown(grace), users.shutdown(grace))
	}
	return err
}
