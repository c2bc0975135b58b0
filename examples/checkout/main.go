// Command checkout takes orders from placed to shipped or cancelled. Everything is in one SQLite file, which several processes may use.
//
//	checkout [-file checkout.db] stock item pieces
//	checkout [-file checkout.db] place order item pieces
//	checkout [-file checkout.db] pay|show order
//	checkout [-file checkout.db] [-within 30m] run      works until it is interrupted or killed
//	checkout [-file checkout.db] [-within 30m] settle   works until there is nothing left to do now
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/examples/checkout/flow"
	"github.com/annals-go/annals/examples/checkout/item"
	"github.com/annals-go/annals/examples/checkout/order"
	"github.com/annals-go/annals/process"
	"github.com/annals-go/annals/sqlitestore"
)

const usage = "usage: checkout [-file checkout.db] [-within 30m] stock item pieces|place order item pieces|pay order|show order|run|settle"

// errUsage ends the program after the usage has been printed.
var errUsage = errors.New("wrong usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "checkout:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) (err error) {
	flags := flag.NewFlagSet("checkout", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.Usage = func() { fmt.Fprintln(log, usage) }
	file := flags.String("file", "checkout.db", "")
	within := flags.Duration("within", 30*time.Minute, "")
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	words := append(flags.Args(), make([]string, 4)...)
	do, ok := map[string]func(*shop) error{
		"stock 3":  func(s *shop) error { return s.stock(ctx, words[1], words[2]) },
		"place 4":  func(s *shop) error { return s.place(ctx, words[1], words[2], words[3]) },
		"pay 2":    func(s *shop) error { return s.order(ctx, words[1], order.Pay{ID: rand.Text()}) },
		"show 2":   func(s *shop) error { return s.show(ctx, words[1]) },
		"run 1":    func(s *shop) error { return s.flow.Run(ctx) },
		"settle 1": func(s *shop) error { return s.flow.Settle(ctx) },
	}[fmt.Sprint(words[0], " ", flags.NArg())]
	if !ok {
		flags.Usage()
		return errUsage
	}
	store, err := sqlitestore.Open(ctx, *file, sqlitestore.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s, err := newShop(store, *within, process.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}, out)
	if err != nil {
		return err
	}
	return do(s)
}

// shop is what the program does with a file.
type shop struct {
	orders *aggregate.Repository[order.Command, order.Order, order.Order]
	items  *aggregate.Repository[item.Command, item.Item, int]
	flow   *process.Runner[struct{}, struct{}]
	out    io.Writer
}

func newShop(store *sqlitestore.Store, within time.Duration, o process.Options, out io.Writer) (*shop, error) {
	orders, err := aggregate.New(store, order.Behavior, aggregate.Options{})
	if err != nil {
		return nil, err
	}
	items, err := aggregate.New(store, item.Behavior, aggregate.Options{})
	if err != nil {
		return nil, err
	}
	runner, err := newRunner(store, orders, items, flow.New(within), o)
	return &shop{orders, items, runner, out}, err
}

func (s *shop) stock(ctx context.Context, name, pieces string) error {
	n, err := strconv.Atoi(pieces)
	if err != nil {
		return err
	}
	free, err := s.items.Ask(ctx, name, item.Add{ID: rand.Text(), Pieces: n})
	if err == nil {
		fmt.Fprintln(s.out, free, "pieces are free")
	}
	return err
}

func (s *shop) place(ctx context.Context, id, name, pieces string) error {
	n, err := strconv.Atoi(pieces)
	if err != nil {
		return err
	}
	return s.order(ctx, id, order.Place{ID: rand.Text(), Item: name, Pieces: n})
}

func (s *shop) order(ctx context.Context, id string, c order.Command) error {
	o, err := s.orders.Ask(ctx, id, c)
	if err == nil {
		s.print(o)
	}
	return err
}

func (s *shop) show(ctx context.Context, id string) error {
	o, _, err := s.orders.Load(ctx, id)
	switch {
	case err != nil:
		return err
	case o.Status == "":
		return order.ErrNone
	}
	s.print(o)
	return nil
}

func (s *shop) print(o order.Order) {
	fmt.Fprint(s.out, o.Status)
	if o.Reason != "" {
		fmt.Fprint(s.out, ": ", o.Reason)
	}
	fmt.Fprintln(s.out)
}
