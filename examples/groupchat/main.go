// Command groupchat is a chat service over HTTP whose threads are event-sourced entities and whose users' profiles are durable
// states. A read model shows all threads of an account.
//
//	groupchat serve [-listen 127.0.0.1:8080] [-store sqlite:groupchat.db] [-readmodel sqlite:readmodel.db]
//	groupchat rebuild [-store sqlite:groupchat.db] [-readmodel sqlite:readmodel.db]
//	groupchat demo
//
// demo starts a server, posts messages under load, kills the server and shows that nothing is lost.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
)

// stores are the stores that this program links.
var stores = annals.Openers{
	"mem":      memstore.Options{}.OpenURL,
	"sqlite":   inSQLite.OpenURL,
	"postgres": openPostgres,
	"dynamodb": openDynamoDB,
}

const usage = `usage: groupchat serve [-listen address] [-store url] [-readmodel url]
       groupchat rebuild [-store url] [-readmodel url]
       groupchat demo  [-threads n] [-clients n] [-load duration] [-store url]`

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
		fmt.Fprintln(os.Stderr, "groupchat:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	commands := map[string]func(context.Context, []string, io.Writer, io.Writer) error{"serve": serve, "rebuild": rebuild, "demo": demo}
	if len(args) > 0 && commands[args[0]] != nil {
		return commands[args[0]](ctx, args[1:], out, log)
	}
	fmt.Fprintln(log, usage)
	return errUsage
}

// parse reads the flags of one command, which takes no other arguments.
func parse(flags *flag.FlagSet, args []string, log io.Writer) error {
	flags.SetOutput(log)
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(log, "what is %q?\n%s\n", flags.Arg(0), usage)
		return errUsage
	}
	return nil
}
