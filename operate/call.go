package operate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
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
	*options
	cmd  *cobra.Command
	args []string
	ctx  context.Context

	out     *bufio.Writer
	shown   time.Time // when progress was shown last
	opened  []annals.Store
	secrets []string // what no output may show

	view        view // what end prints
	status      int
	diagnostics []diagnostic
}

// view is the data of a command. It is marshaled, or prints itself as text.
type view interface{ print(w io.Writer) }

// diagnostic is something that the operator should know.
type diagnostic struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Next    string `json:"next,omitempty"` // a command that helps
}

// envelope is the JSON of a command.
type envelope struct {
	Version     int          `json:"version"`
	Status      int          `json:"status"`
	Data        view         `json:"data"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

func (o *options) newCall(cmd *cobra.Command, args []string) *call {
	k := &call{options: o, cmd: cmd, args: args, ctx: cmd.Context(), out: bufio.NewWriter(cmd.OutOrStdout())}
	k.hide = k.hide || k.HidePayloads || os.Getenv(hideEnv) != ""
	return k
}

// begin ends the context of k with an interrupt, until stop is called.
func (k *call) begin() (stop func()) {
	k.ctx, stop = signal.NotifyContext(k.ctx, os.Interrupt, syscall.SIGTERM)
	return stop
}

// say adds a diagnostic.
func (k *call) say(code, next, format string, args ...any) {
	k.diagnostics = append(k.diagnostics, diagnostic{code, k.redacted(fmt.Sprintf(format, args...)), next})
}

// find adds a diagnostic of something that was found.
func (k *call) find(code, next, format string, args ...any) {
	k.status = found
	k.say(code, next, format, args...)
}

// emit prints v at once.
func (k *call) emit(v view) error {
	if k.json {
		k.marshal(envelope{Version: 1, Data: v, Diagnostics: []diagnostic{}})
	} else {
		v.print(k.out)
	}
	return k.out.Flush()
}

// end prints what the command found, and err.
func (k *call) end(err error) error {
	if !k.shown.IsZero() {
		k.shown = time.Time{}
		k.progress("")
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

// explain returns the diagnostic and the exit status of err.
func (k *call) explain(err error) (diagnostic, int) {
	if f, ok := errors.AsType[*failure](err); ok {
		d := f.diagnostic
		d.Message = k.redacted(d.Message)
		if f.status == wrongUsage && d.Next == "" {
			d.Next = k.cmd.CommandPath() + " --help"
		}
		return d, f.status
	}
	d := diagnostic{Code: codeOf(err), Message: k.redacted(plain(err))}
	if k.ctx.Err() != nil {
		return diagnostic{Code: "interrupted", Message: "interrupted"}, notReached
	}
	return d, storeFails
}

// plain is the text of err without the name of the library, which stands before the message of a command anyway.
func plain(err error) string {
	return strings.ReplaceAll(strings.TrimPrefix(err.Error(), "annals: "), "\t", "  ")
}

// codes are those of the kinds of errors.
var codes = []struct {
	kind error
	code string
}{
	{annals.ErrUnsupported, "unsupported"}, {annals.ErrInvalid, "invalid"}, {annals.ErrCorrupt, "corrupt"}, {annals.ErrTruncated, "truncated"},
	{annals.ErrConflict, "conflict"}, {annals.ErrPanic, "panic"}, {annals.ErrClosed, "closed"}, {annals.ErrUnknown, "unknown"},
	{annals.ErrUnavailable, "unavailable"},
}

func codeOf(err error) string {
	for _, c := range codes {
		if errors.Is(err, c.kind) {
			return c.code
		}
	}
	return "store"
}

// store opens the store of the command.
func (k *call) store() (annals.Store, error) {
	address := k.options.store
	if address == "" {
		address = os.Getenv(storeEnv)
	}
	if address == "" {
		return nil, usage("no store: give --store URL or set %s (%s)", storeEnv, strings.Join(schemes(k.Stores), ", "))
	}
	return k.open(address)
}

// open opens the store at the URL address, which close closes.
func (k *call) open(address string) (annals.Store, error) {
	k.secrets = append(k.secrets, secrets(address)...)
	s, err := k.Stores.Open(k.ctx, address)
	if err == nil {
		k.opened = append(k.opened, s)
	}
	return s, err
}

func (k *call) close() (err error) {
	for _, s := range k.opened {
		err = errors.Join(err, s.Close())
	}
	return err
}

// secrets are the parts of a URL that no output may show.
func secrets(address string) []string {
	all := []string{address}
	u, err := url.Parse(address)
	if err != nil {
		return all
	}
	if password, ok := u.User.Password(); ok {
		all = append(all, password, url.PathEscape(password), url.QueryEscape(password))
	}
	for name, values := range u.Query() {
		if strings.Contains(strings.ToLower(name), "password") {
			all = append(all, values...)
		}
	}
	return all
}

// redacted is text without secrets. A secret of less than four characters would be found in too many words.
func (k *call) redacted(text string) string {
	for _, s := range k.secrets {
		if len(s) >= 4 {
			text = strings.ReplaceAll(text, s, "…")
		}
	}
	return text
}

// next is a command of this program, with its arguments quoted for a shell.
func (k *call) next(args ...string) string {
	path := k.cmd
	for path.HasParent() && path.Name() != k.Name {
		path = path.Parent()
	}
	text := path.CommandPath()
	for _, a := range args {
		text += " " + shell(a)
	}
	return text
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
