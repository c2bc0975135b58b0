// Command orders is an order service. It shows what a program can do with Annals after the first steps, each in a file of its own. The
// same code runs on memory, SQLite, PostgreSQL and DynamoDB.
//
//	orders [-store mem:] schema     prints the statements that create the tables
//	orders [-store mem:] migrate    creates the tables, or upgrades them
//	orders [-store mem:] check      says whether the store can be read and written
//	orders [-store mem:] tour       takes each step once and prints what happened
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

const usage = "usage: orders [-store mem:|sqlite:…|postgres://…|dynamodb:…] schema|migrate|check|tour"

// errUsage ends the program after the usage has been printed.
var errUsage = errors.New("wrong usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	flags := flag.NewFlagSet("orders", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.Usage = func() { fmt.Fprintln(log, usage) }
	store := flags.String("store", "mem:", "URL of the store")
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	u, k, err := parse(*store)
	if err != nil {
		return err
	}
	switch command := flags.Arg(0); {
	case flags.NArg() == 1 && command == "schema":
		text, err := k.schema()
		fmt.Fprint(out, text)
		return err
	case flags.NArg() == 1 && command == "migrate":
		return k.migrate(ctx, u)
	case flags.NArg() == 1 && (command == "check" || command == "tour"):
		traces := newTraces()
		b, err := k.open(ctx, u, traces)
		if err != nil {
			return err
		}
		s, err := newShop(b, traces)
		if err != nil {
			return errors.Join(err, b.store.Close())
		}
		if command == "check" {
			err = s.check(ctx, out)
		} else {
			err = s.tour(ctx, out)
		}
		return errors.Join(err, s.close(ctx))
	}
	flags.Usage()
	return errUsage
}
