package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

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
	program string   // what next begins with
	help    string   // the command that helps when an argument is wrong
	secrets []string // what no output may show

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

// next is a command of this program, with its arguments quoted for a shell.
func (a *answer) next(args ...string) string {
	text := a.program
	for _, arg := range args {
		text += " " + shell(arg)
	}
	return text
}
