package operate

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/annals-go/annals"
)

// PageOptions configure a Handler. The zero PageOptions are a page at "/" that only programs of the same machine can see, and that changes nothing.
type PageOptions struct {
	// Prefix is the path below which the program mounts the page, such as "/annals/"; "" is "/".
	Prefix string
	// Positions is the store with the positions of the projections; nil: the store of the events.
	Positions annals.Store
	// Token, of 16 characters or more, is asked of everybody: in a form, once for each browser session, or as "Authorization: Bearer TOKEN". "": it is not.
	Token string
	// Allow is asked about each request, after Token: an error refuses it, and its text is shown. So a program lets only those in whom its own session or
	// the header of its proxy names. It may be called from many goroutines at once, also to find out which buttons to show. nil: each request with the Token
	// may read, and none may change anything; without Token only requests from this machine are answered. A proxy on this machine must then add a header
	// such as X-Forwarded-For, which has its requests refused: others cannot be told from those of this machine.
	Allow func(r *http.Request, a Action) error
	// User names who has sent a request, for the Logger: from the program's own session, or from the header of its proxy. It may be called from many
	// goroutines at once. nil: the Logger gets the address only.
	User func(r *http.Request) string
	// Logger gets a line for each change that was made or refused, and for each page that failed; nil: slog.Default().
	Logger *slog.Logger
}

// Action is what a request wants.
type Action struct {
	Name       string // "read", "pause", "resume", "retry" or "discard"; all but "read" change a projection
	Projection string
	ID         annals.PersistenceID // of the parked entity; "": several, or it is not about one
}

// page is a Handler.
type page struct {
	*options
	o         PageOptions
	store     annals.Store
	positions annals.Store
	program   string          // what the commands on the page begin with
	secrets   []string        // what no page may show
	ends      context.Context // of all streams
	streams   chan struct{}
	overviews cache
}

// shortestToken is the least length of a token.
const shortestToken = 16

// Handler returns the page for operators, a part of the program's own HTTP server or one of its own: what is stored in s, what happens now, how far the
// projections are, and, where Allow says so, to pause and resume them and to retry or discard parked entities. Of c it uses Name, Entities, Projections and
// HidePayloads; the commands that it shows are those of Command. It works without JavaScript. Streams of new events end after half a minute, and the
// browser asks again: a server that is shut down waits for them, unless its BaseContext ends.
//
// ErrInvalid for a short Token or a Prefix that is not a plain path.
func Handler(s annals.Store, c Config, o PageOptions) (http.Handler, error) {
	if c.Name == "" {
		c.Name = "annals"
	}
	options := &options{Config: c, hide: c.HidePayloads || os.Getenv(hideEnv) != "", messages: messagesIn(c.Descriptors)}
	return newPage(context.Background(), s, options, o, c.Name, nil)
}

// newPage returns a page whose streams end with ctx.
func newPage(ctx context.Context, s annals.Store, c *options, o PageOptions, program string, secrets []string) (http.Handler, error) {
	var faults []error
	if o.Token != "" && len(o.Token) < shortestToken {
		faults = append(faults, fmt.Errorf("Token is shorter than %d characters", shortestToken))
	}
	prefix := pathPrefix(o.Prefix)
	if !regexp.MustCompile(`^[A-Za-z0-9._~/-]*$`).MatchString(prefix) || path.Clean(prefix)+"/" != prefix && prefix != "/" {
		faults = append(faults, errors.New("Prefix is not a path of letters, digits, and -._~"))
	}
	if s == nil {
		faults = append(faults, errors.New("there is no store"))
	}
	if len(faults) > 0 {
		return nil, &annals.Error{Op: "make the page for operators", Kind: annals.ErrInvalid, Err: errors.Join(faults...)}
	}
	if o.Prefix = prefix; o.Logger == nil {
		o.Logger = slog.Default()
	}
	p := &page{options: c, o: o, store: s, positions: o.Positions, program: program, secrets: secrets, ends: ctx, streams: make(chan struct{}, mostStreams), overviews: cache{turn: make(chan struct{}, 1)}}
	if p.positions == nil {
		p.positions = s
	}
	mux := http.NewServeMux()
	for _, r := range p.table() {
		mux.HandleFunc(r.method+" "+p.o.Prefix+r.path, r.handler)
	}
	return protected(mux), nil
}

// pathPrefix is prefix between slashes.
func pathPrefix(prefix string) string {
	if prefix = strings.Trim(prefix, "/"); prefix == "" {
		return "/"
	}
	return "/" + prefix + "/"
}

// route is a way into the page.
type route struct {
	method, path string // below the prefix
	handler      http.HandlerFunc
}

// table are the only ways into the page. All but the style, the script and the login are for those who may read.
func (p *page) table() []route {
	return []route{
		{"GET", "page.css", asset("page.css", "text/css; charset=utf-8")},
		{"GET", "page.js", asset("page.js", "text/javascript; charset=utf-8")},
		{"POST", "login", p.login},
		{"GET", "{$}", p.reads("start", p.start)},
		{"GET", "entities", p.reads("entities", p.entities)},
		{"GET", "entity", p.reads("entity", p.entityPage)},
		{"GET", "projection", p.reads("projection", p.projection)},
		{"GET", "trace", p.reads("trace", p.trace)},
		{"GET", "tail", p.reads("tail", p.tailPage)},
		{"GET", "tail/events", p.guarded(p.tailEvents)},
		{"POST", "act", p.guarded(p.act)},
		{"GET", "", p.guarded(func(w http.ResponseWriter, r *http.Request) {
			p.fail(w, r, p.answer(r), usage("there is no such page"), http.StatusNotFound)
		})},
	}
}

// protected refuses what other sites make a browser send, and has browsers run, load and frame nothing that is not of the page.
func protected(h http.Handler) http.Handler {
	h = http.NewCrossOriginProtection().Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nonce := rand.Text()
		head := w.Header()
		head.Set("Content-Security-Policy", "default-src 'none'; script-src 'nonce-"+nonce+"'; style-src 'nonce-"+nonce+"'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer") // ids are in the addresses
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cache-Control", "no-store")
		head.Set("Vary", "Accept, Cookie, Authorization")
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), nonceKey{}, nonce)))
	})
}

type nonceKey struct{}

// answer is what one request is told.
func (p *page) answer(r *http.Request) *answer {
	return &answer{options: p.options, ctx: r.Context(), program: p.program, help: p.program + " --help", secrets: p.secrets}
}

// sheet is what the templates get.
type sheet struct {
	Page, Title string // Page is the name of the template
	Program     string
	Base        string // the way from the address to the start page
	Nonce, Form string // Form is the secret that a form sends back
	Hides       bool
	Live        bool // the browser may have the page sent again when it changes
	Diagnostics []diagnostic
	Data        any
}

// reads serves a page that read makes. A browser that asks for a stream of events gets the live part again whenever it has changed, if there is one.
func (p *page) reads(template string, read func(a *answer, r *http.Request) (*sheet, error)) http.HandlerFunc {
	return p.guarded(func(w http.ResponseWriter, r *http.Request) {
		if streams(r) && templates().Lookup(template+" live") != nil {
			p.repeats(w, r, template, read)
			return
		}
		a := p.answer(r)
		s, err := read(a, r)
		if err != nil {
			p.fail(w, r, a, err, 0)
			return
		}
		s.Page, s.Form, s.Diagnostics = template, p.form(w, r), a.diagnostics
		p.write(w, r, http.StatusOK, s)
	})
}

// write renders s whole before the first byte is sent.
func (p *page) write(w http.ResponseWriter, r *http.Request, status int, s *sheet) {
	s.Program, s.Hides = p.Name, p.hide
	s.Base = "./" + strings.Repeat("../", strings.Count(strings.TrimPrefix(r.URL.Path, p.o.Prefix), "/"))
	s.Nonce, _ = r.Context().Value(nonceKey{}).(string)
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, "layout", s); err != nil {
		p.o.Logger.Error("the page for operators cannot be rendered", "page", s.Page, "error", err)
		http.Error(w, "the page cannot be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // an error is one of the connection
}

// fail shows err; status 0 is that of its kind.
func (p *page) fail(w http.ResponseWriter, r *http.Request, a *answer, err error, status int) {
	d, exit := a.explain(err)
	switch {
	case status != 0:
	case exit == wrongUsage || d.Code == "invalid":
		status = http.StatusBadRequest
	case d.Code == "unsupported":
		status = http.StatusNotImplemented
	case d.Code == "unavailable" || d.Code == "closed" || d.Code == "interrupted":
		status = http.StatusServiceUnavailable
	default:
		status = http.StatusInternalServerError
	}
	if status == http.StatusInternalServerError {
		p.o.Logger.Error("a page for operators failed", "path", name(r.URL.Path), "error", line(d.Message, 1000))
	}
	if d.Next == a.help {
		d.Next = ""
	}
	p.write(w, r, status, &sheet{Page: "failure", Title: http.StatusText(status), Diagnostics: []diagnostic{d}})
}
