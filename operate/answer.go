package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/annals-go/annals"
)

// view is the data of a command. It is marshaled, or prints itself as text.
type view interface{ print(w io.Writer) }

// diagnostic is something that the operator should know.
type diagnostic struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Next    string `json:"next,omitempty"` // a command that helps
}

// answer is what is found out for an operator, by a command or by another caller. It prints nothing.
type answer struct {
	*options
	ctx     context.Context
	program string     // what next begins with
	flags   string     // what next ends with
	command []string   // what again repeats: the command,
	args    []string   // its arguments,
	set     [][]string // and its flags, each with its value
	help    string     // the command that helps when an argument is wrong
	secrets []string   // what no output may show

	view        view
	status      int
	diagnostics []diagnostic
}

// say adds a diagnostic.
func (a *answer) say(code, next, format string, args ...any) {
	a.diagnostics = append(a.diagnostics, diagnostic{code, a.redacted(fmt.Sprintf(format, args...)), next})
}

// find adds a diagnostic of something that was found.
func (a *answer) find(code, next, format string, args ...any) {
	a.status = found
	a.say(code, next, format, args...)
}

// shower shows payloads as the operator may see them.
func (a *answer) shower(raw bool) shower { return shower{hide: a.hide, raw: raw, messages: a.messages} }

// explain returns the diagnostic and the exit status of err.
func (a *answer) explain(err error) (diagnostic, int) {
	if f, ok := errors.AsType[*failure](err); ok {
		d := f.diagnostic
		d.Message = a.redacted(d.Message)
		if f.status == wrongUsage && d.Next == "" {
			d.Next = a.help
		}
		return d, f.status
	}
	d := diagnostic{Code: codeOf(err), Message: a.redacted(plain(err))}
	if a.ctx.Err() != nil {
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
func (a *answer) redacted(text string) string {
	for _, s := range a.secrets {
		if len(s) >= 4 {
			text = strings.ReplaceAll(text, s, "…")
		}
	}
	return text
}

// next is a command of this program for a shell. command has its words and flags, as a shell takes them.
func (a *answer) next(command string, args ...string) string {
	words, flags := command, ""
	if i := strings.Index(command, " --"); i >= 0 {
		words, flags = command[:i], command[i:]
	}
	quoted, minus := "", false
	for _, arg := range args {
		quoted += " " + shell(arg)
		minus = minus || strings.HasPrefix(arg, "-") // it would be taken for a flag
	}
	if flags += a.flags; minus {
		return a.program + " " + words + flags + " --" + quoted
	}
	return a.program + " " + words + quoted + flags
}

// given are the flags that the next command must have, too, because this one has them.
func (o *options) given() (flags string) {
	switch env := os.Getenv(storeEnv); {
	case o.store == "" || o.store == env:
	case env == "" && secretive(o.store):
		flags = ` --store "$` + storeEnv + `"`
	default: // a copy of the command must not run on the store in the variable, which is another one
		flags = " --store " + shell(copied(o.store))
	}
	if o.config != "" {
		flags += " --config " + shell(o.config)
	}
	if o.hide {
		flags += " --hide-payloads"
	}
	return flags
}

// again is this command as it was given, with changes: a flag among them replaces the one that was given, as a flag of without is left out.
func (a *answer) again(without string, changes ...string) string {
	var flags []string
	for _, flag := range a.set {
		if name, _, _ := strings.Cut(flag[0], "="); !slices.Contains(changes, name) && !slices.Contains(strings.Fields(without), name) {
			flags = append(flags, flag...)
		}
	}
	command := strings.Join(a.command, " ")
	for _, flag := range append(flags, changes...) {
		command += " " + shell(flag)
	}
	return a.next(command, a.args...)
}

// setFlags are the flags of the command alone that were given, each as its arguments.
func setFlags(c *cobra.Command) (all [][]string) {
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		name, values := "--"+f.Name, []string{f.Value.String()}
		switch f.Value.Type() {
		case "stringArray":
			values = f.Value.(pflag.SliceValue).GetSlice()
		case "stringSlice", "stringToString": // in brackets, and otherwise as such a flag is given
			values[0] = values[0][1 : len(values[0])-1]
		}
		for _, v := range values {
			switch {
			case !f.Changed:
			case f.Value.Type() == "bool" && v == "true":
				all = append(all, []string{name})
			case f.Value.Type() == "bool":
				all = append(all, []string{name + "=" + v})
			case f.Name == "source":
				of := ""
				if f.Value.Type() == "stringArray" { // of NAME=URL
					of, v, _ = strings.Cut(v, "=")
					of += "="
				}
				all = append(all, []string{name, of + copied(v)})
			default:
				all = append(all, []string{name, v})
			}
		}
	})
	return all
}

// copied is store, or a word for it where it may have a password.
func copied(store string) string {
	if secretive(store) {
		return "URL"
	}
	return store
}

// secretive reports whether the URL or name of a store may have a password, also one that is not encoded and has come apart.
func secretive(store string) bool {
	u, err := url.Parse(store)
	text, escaped := url.QueryUnescape(store)
	if err != nil || escaped != nil || len(secrets(store)) > 1 {
		return true
	}
	return u.User == nil && strings.Contains(text, "@") || strings.Count(text, "@") > 1
}
