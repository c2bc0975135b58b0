package operate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
)

// call is one run of a command.
type call struct {
	answer // what end prints
	cmd    *cobra.Command

	out     *bufio.Writer
	shown   time.Time // when progress was shown last
	opened  []annals.Store
	closers []func() error
}

// envelope is the JSON of a command.
type envelope struct {
	Version     int          `json:"version"`
	Status      int          `json:"status"`
	Data        view         `json:"data"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

func (o *options) newCall(cmd *cobra.Command, args []string) *call {
	program := cmd
	for program.HasParent() && program.Name() != o.Name {
		program = program.Parent()
	}
	a := answer{options: o, ctx: cmd.Context(), program: program.CommandPath(), flags: o.given(), help: cmd.CommandPath() + " --help"}
	a.command, a.args, a.set = strings.Fields(strings.TrimPrefix(cmd.CommandPath(), a.program)), args, setFlags(cmd)
	k := &call{answer: a, cmd: cmd, out: bufio.NewWriter(cmd.OutOrStdout())}
	k.hide = k.hide || k.HidePayloads || os.Getenv(hideEnv) != ""
	return k
}

// begin ends the context of k with an interrupt, until stop is called.
func (k *call) begin() (stop func()) {
	k.ctx, stop = signal.NotifyContext(k.ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(k.ctx, stop) // the next one ends the program
	return stop
}

// emit prints v at once.
func (k *call) emit(v view) error {
	k.clear()
	if k.json {
		k.marshal(envelope{Version: 1, Data: v, Diagnostics: []diagnostic{}})
	} else {
		v.print(k.out)
	}
	return k.flushed()
}

// end prints what the command found, and err.
func (k *call) end(err error) error {
	k.clear()
	if e, ok := errors.AsType[*ended](err); ok {
		return e // of emit
	}
	if err == nil && k.view == nil && len(k.diagnostics) == 0 {
		return k.flushed()
	}
	if err != nil {
		d, status := k.explain(err)
		k.diagnostics, k.status = append(k.diagnostics, d), status
	}
	if k.json {
		k.marshal(envelope{1, k.status, k.view, append([]diagnostic{}, k.diagnostics...)})
	} else {
		k.text(err != nil)
	}
	if err := k.flushed(); err != nil || k.status == well {
		return err
	}
	return &ended{k.status, k.diagnostics[len(k.diagnostics)-1].Message}
}

func (k *call) flushed() error {
	if err := k.out.Flush(); err != nil {
		fmt.Fprintf(k.cmd.ErrOrStderr(), "%s: %v\n", k.Name, err)
		return &ended{storeFails, err.Error()}
	}
	return nil
}

// text prints the view and the diagnostics, of which the last one is an error if failed.
func (k *call) text(failed bool) {
	if k.view != nil {
		k.view.print(k.out)
	}
	for i, d := range k.diagnostics {
		var w io.Writer = k.out
		if failed && i == len(k.diagnostics)-1 {
			_ = k.out.Flush() // end finds its error again
			w = k.cmd.ErrOrStderr()
			fmt.Fprintf(w, "%s: ", k.Name)
		}
		fmt.Fprintln(w, clean(d.Message))
		if d.Next != "" {
			fmt.Fprintf(w, "  next: %s\n", d.Next)
		}
	}
}

func (k *call) marshal(e envelope) {
	text, err := json.Marshal(e)
	if err != nil { // no view has what cannot be marshaled
		text, _ = json.Marshal(envelope{1, storeFails, nil, []diagnostic{{Code: "internal", Message: err.Error()}}})
	}
	_, _ = k.out.WriteString(cleanJSON(string(text)) + "\n")
}

// store opens the store of the command.
func (k *call) store() (annals.Store, error) {
	address, err := k.address()
	if err != nil {
		return nil, err
	}
	s, err := k.open(address)
	if scheme, _, _ := strings.Cut(address, ":"); err != nil && k.ctx.Err() == nil && k.Setups[scheme] != nil {
		err = &failure{storeFails, diagnostic{codeOf(err), plain(err), k.next("doctor")}}
	}
	return s, err
}

// address is the URL of the store of the command.
func (k *call) address() (string, error) {
	address := k.options.store
	if address == "" {
		address = os.Getenv(storeEnv)
	}
	if address == "" {
		return "", usage("no store: give --store URL or set %s (%s)", storeEnv, strings.Join(schemes(k.Stores), ", "))
	}
	return k.named(address)
}

// open opens the store at the URL address, which close closes.
func (k *call) open(address string) (annals.Store, error) {
	s, err := k.Stores.Open(k.ctx, address)
	if err == nil {
		k.opened, k.closers = append(k.opened, s), append(k.closers, s.Close)
	}
	return s, err
}

func (k *call) close() (err error) {
	for _, closes := range k.closers {
		err = errors.Join(err, closes())
	}
	return err
}

// clear removes what progress has shown.
func (k *call) clear() {
	if !k.shown.IsZero() {
		k.shown = time.Time{}
		k.progress("")
	}
}

// progress shows on a terminal how far the command is, ten times in a second at most.
func (k *call) progress(format string, args ...any) {
	if f, ok := k.cmd.ErrOrStderr().(*os.File); ok && !k.json && time.Since(k.shown) > 100*time.Millisecond {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			fmt.Fprintf(f, "\r\x1b[K"+format, args...)
			k.shown = time.Now()
		}
	}
}
