// Command accounts is the service of docs/guide/first-hour.md. The environment variable ACCOUNTS_STORE is the URL of its database.
//
//	accounts migrate   creates the tables
//	accounts serve     serves until it is interrupted
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/projection"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "accounts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	store := os.Getenv("ACCOUNTS_STORE")
	if len(args) == 1 && args[0] == "migrate" {
		return migrate(ctx, store)
	}
	if len(args) == 1 && args[0] == "serve" {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", ":8080")
		if err != nil {
			return err
		}
		return serve(ctx, store, listener, projection.Options{Logger: slog.Default()})
	}
	return errors.New("usage: accounts migrate|serve")
}

// serve answers requests until ctx ends. The options are those of the read model.
func serve(ctx context.Context, address string, listener net.Listener, o projection.Options) (err error) {
	defer listener.Close()
	store, err := open(ctx, address, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	accounts, err := aggregate.New(store, account, aggregate.Options{})
	if err != nil {
		return err
	}
	balances, err := newBalances(store, o)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           (&service{store, accounts, o.Logger}).routes(),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second,
	}

	// When one of the two ends, or the program is to stop, both end, the requests first.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	following := make(chan error, 1)
	go func() {
		defer stop()
		following <- balances.Run(ctx)
	}()
	serving := make(chan error, 1)
	go func() {
		defer stop()
		serving <- server.Serve(listener)
	}()
	<-ctx.Done()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(server.Shutdown(grace), accounts.Wait(grace), <-following)
	if failed := <-serving; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}
