package operate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec/sealed"
	"github.com/annals-go/annals/projection"
)

// Config says what a Command knows of the program. Only Stores is required.
type Config struct {
	Name   string         // of the command; "": annals
	Stores annals.Openers // by the schemes of the URLs that the command takes
	// Setups are for the commands schema and doctor.
	Setups Setups

	// Entities are the behaviors of the program. Of others the command shows the events and states as they are stored.
	Entities []Entity
	// Projections are names that "projection list" shows beside those that the store can list. Command trace says of them whether they have handled an event.
	Projections []string
	// Running is verify.Options.Running for command verify, unless its flag --running has others. nil: this is not known.
	Running []string
	// Descriptors are those of protobuf payloads that are to be shown as JSON, such as protoregistry.GlobalFiles where all generated code is linked. A manifest names
	// its message: by the full name, by the name of the Java class, or by the last part of the name where only one message has that. The flag
	// --descriptors has others. nil: payloads in protobuf are shown as the behaviors decode them, or in hexadecimal.
	Descriptors *protoregistry.Files
	// Trace says for command trace to which correlation an event belongs, and the name of what caused it: that of an event, which is its id, a slash and its number,
	// of a write, of a command, or one of the program's own; "" is none. Of a durable state it is asked with the state as an event. nil: the members correlation
	// and causation of metadata in JSON or CBOR, in any case and also with "id" at the end.
	Trace func(e annals.Event) (correlation, causation string)
	// Rebuilds say, by the names of projections in use, how "projection rebuild" builds a new one on the store of the command.
	Rebuilds map[string]func(ctx context.Context, s annals.Store) (projection.Rebuild, error)
	// Keys are the keys of personal data, for erase: those in the store of the command, or in another one.
	Keys func(ctx context.Context, s annals.Store) (*sealed.Keys, error)
	// HidePayloads shows no payload, state, metadata or text of a domain error. Without it the flag --hide-payloads and a non-empty environment variable
	// ANNALS_HIDE_PAYLOADS do the same.
	HidePayloads bool
}

// The environment variables.
const (
	storeEnv  = "ANNALS_STORE"
	configEnv = "ANNALS_CONFIG"
	hideEnv   = "ANNALS_HIDE_PAYLOADS"
)

// options are the flags of all commands.
type options struct {
	Config
	store  string
	config string
	json   bool
	hide   bool

	messages *messages // of Config.Descriptors
}

// Command returns the command of c, to run or to add to another one. It has the context with which it is executed, and ends with it and with an
// interrupt; a second interrupt ends the program. Within a bubble of testing/synctest execute it only after the test program has called signal.Notify outside. Its commands print their errors themselves; ExitStatus is the exit status for the error of Execute. A Command may be executed once.
func Command(c Config) *cobra.Command {
	if c.Name == "" {
		c.Name = "annals"
	}
	o := &options{Config: c, messages: messagesIn(c.Descriptors)}
	root := o.group(&cobra.Command{Use: c.Name, Short: "Shows and checks what a store of Annals has",
		Long: "Shows and checks what a store of Annals has.\n\n" + storeText(c.Stores)})
	flags := root.PersistentFlags()
	flags.StringVar(&o.store, "store", "", "URL of the store, or its name in the file of --config; the default is "+storeEnv)
	flags.StringVar(&o.config, "config", "", "file with the URLs of stores; the default is "+configEnv+", then annals/stores.json in the folder of the user's settings")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	flags.BoolVar(&o.hide, "hide-payloads", false, "show no payloads, states and metadata; also with "+hideEnv)
	const read, check, remove = "read", "check", "delete"
	root.AddGroup(&cobra.Group{ID: read, Title: "What is stored:"}, &cobra.Group{ID: check, Title: "Projections and checks:"},
		&cobra.Group{ID: remove, Title: "Delete; a dry run without --yes:"})
	for group, commands := range map[string][]*cobra.Command{
		read:   {o.idsCommand(), o.showCommand(), o.tailCommand(), o.statsCommand(), o.topCommand(), o.costCommand(), o.testCommand(), o.traceCommand()},
		check:  {o.projectionCommand(), o.verifyCommand(), o.doctorCommand(), o.schemaCommand(), o.serveCommand()},
		remove: {o.forgetCommand(), o.pruneCommand(), o.eraseCommand()},
	} {
		for _, command := range commands {
			command.GroupID = group
			root.AddCommand(command)
		}
	}
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if example := examples[strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), root.CommandPath()), " ")]; example != "" {
			cmd.Example = "  " + cmd.CommandPath() + " " + example
		}
		help(cmd, args)
	})
	return root
}

// examples are arguments of the commands, which their help shows.
var examples = map[string]string{
	"":                   "show 'Order|1001' --store sqlite:orders.db",
	"ids":                "--type Order",
	"show":               "'Order|1001' --at 2 --diff",
	"tail":               "--type Order --after 1h --follow",
	"stats":              "--type Order",
	"top":                "--by rate --since 1h",
	"cost":               "--write-price 0.625 --read-price 0.125 --storage-price 0.25",
	"test":               "'Order|1001' --to 2 > order_1001_test.go",
	"trace":              "request-1001 --since 1h",
	"projection list":    "--store sqlite:orders.db",
	"projection status":  "sales",
	"projection await":   "sales 'Order|1001' 2 --timeout 10s",
	"projection pause":   "sales",
	"projection resume":  "sales",
	"projection reset":   "sales --to 24h",
	"projection rebuild": "sales",
	"projection parked":  "sales",
	"projection retry":   "sales 'Order|1002'",
	"projection discard": "sales 'Order|1002' --to 2",
	"verify":             "--type Order --since 24h",
	"doctor":             "--store sqlite:orders.db",
	"schema show":        "--format sql",
	"schema diff":        "--store sqlite:orders.db",
	"schema pending":     "--store sqlite:orders.db",
	"schema apply":       "--yes",
	"serve":              "--listen 127.0.0.1:8081",
	"forget":             "'Order|1002'",
	"prune":              "--type Order --keep 2",
	"erase":              "ann",
}

func storeText(stores annals.Openers) string {
	return "The store is a URL, in --store or, better for one with a password, in the environment variable " + storeEnv + ".\nA name stands for a URL in the file of --config. Schemes: " +
		strings.Join(schemes(stores), ", ") + ". The exit status is 0 when all is well, 1 when something was found,\n2 when it was not reached in time, " +
		"3 when the command is wrong, 4 when the store failed."
}

func schemes(stores annals.Openers) []string {
	var all []string
	for scheme := range stores {
		all = append(all, scheme+":")
	}
	slices.Sort(all)
	return all
}

// command makes c one of the commands, which run runs.
func (o *options) command(c *cobra.Command, run func(c *call) error) *cobra.Command {
	c.SilenceErrors, c.SilenceUsage = true, true
	c.Args = cobra.ArbitraryArgs // counted by run, so that the error is printed like others
	c.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		k := o.newCall(cmd, nil)
		// The flags after the wrong one are not parsed.
		k.json = k.json || slices.Contains(os.Args[1:], "--json")
		return k.end(usage("%v", err))
	})
	c.RunE = func(cmd *cobra.Command, args []string) error {
		k := o.newCall(cmd, args)
		stop := k.begin()
		defer stop()
		err := wrongArguments(cmd, args)
		if err == nil {
			err = run(k)
		}
		return k.end(errors.Join(err, k.close()))
	}
	return c
}

// wrongArguments is an error when args do not fit the use of cmd, such as "retry NAME [ID…]". No argument is empty.
func wrongArguments(cmd *cobra.Command, args []string) error {
	_, use, _ := strings.Cut(cmd.Use, " ")
	least, most := 0, 0
	for word := range strings.FieldsSeq(use) {
		if most++; strings.Contains(word, "…") {
			most = math.MaxInt
		}
		if word[0] != '[' {
			least++
		}
	}
	switch {
	case cmd.HasSubCommands(), least <= len(args) && len(args) <= most && !slices.Contains(args, ""):
		return nil
	case use == "":
		return usage("%s takes no arguments", cmd.Name())
	}
	return usage("the arguments of %s are %s, and none is empty", cmd.Name(), use)
}

// group makes c a command that has only others.
func (o *options) group(c *cobra.Command) *cobra.Command {
	return o.command(c, func(k *call) error {
		if len(k.args) > 0 {
			if strings.Contains(k.args[0], ":") { // not repeated, because a URL can have a password
				return usage("this is no command; the URL of a store is given with --store")
			}
			return usage("there is no command %s", clean(k.args[0]))
		}
		if k.json {
			return usage("name a command of %s", k.cmd.CommandPath())
		}
		return k.cmd.Help()
	})
}

// The exit statuses.
const (
	well       = 0
	found      = 1
	notReached = 2
	wrongUsage = 3
	storeFails = 4
)

// ended is the error of a command that has printed what is wrong.
type ended struct {
	status  int
	message string
}

func (e *ended) Error() string { return e.message }

// ExitStatus is the exit status of a program for the error of a Command: 0 for nil, and 3 for an error of cobra.
func ExitStatus(err error) int {
	if err == nil {
		return well
	}
	if e, ok := errors.AsType[*ended](err); ok {
		return e.status
	}
	return wrongUsage
}

// failure is an error with an exit status and a diagnostic of its own.
type failure struct {
	status int
	diagnostic
}

func (f *failure) Error() string { return f.Message }

// usage is the error of a command that is wrong.
func usage(format string, args ...any) error {
	return &failure{wrongUsage, diagnostic{Code: "usage", Message: fmt.Sprintf(format, args...)}}
}

// unsupported is the error of a command that the program has nothing for.
func unsupported(next, format string, args ...any) error {
	return &failure{storeFails, diagnostic{"unsupported", fmt.Sprintf(format, args...), next}}
}
