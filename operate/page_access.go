package operate

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// guarded is h for those who may read.
func (p *page) guarded(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if p.o.Token != "" && !p.hasToken(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			p.write(w, r, http.StatusUnauthorized, &sheet{Page: "login", Title: "Log in", Data: struct {
				Next  string
				Wrong bool
			}{p.here(r), false}})
			return
		}
		if err := p.may(r, Action{Name: "read"}); err != nil {
			p.refuse(w, r, err)
			return
		}
		h(w, r)
	}
}

// may is an error when r may not do a.
func (p *page) may(r *http.Request, a Action) error {
	switch {
	case p.o.Allow != nil:
		return p.o.Allow(r, a)
	case a.Name != "read":
		return errors.New("this page is read-only")
	case p.o.Token == "" && !local(r):
		return errors.New("this page is for requests from its own machine")
	}
	return nil
}

func (p *page) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p.fail(w, r, p.answer(r), &failure{wrongUsage, diagnostic{Code: "refused", Message: clean(err.Error())}}, http.StatusForbidden)
}

// local reports whether r comes from this machine, by a name of this machine, and through no proxy that can be recognized: another site could have a name of
// its own that leads to this machine.
func local(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) { // nginx without settings names itself in no header, and browsers do not speak HTTP/1.0
		return false
	}
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header.Get(h) != "" {
			return false
		}
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return false
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && address.Unmap().IsLoopback()
}

// cookie is the name of the cookie of those who have the token, and its value. Both differ for each token: browsers send cookies to all ports of a host.
func (p *page) cookie() (name, value string) {
	sum := func(text string) string {
		h := hmac.New(sha256.New, []byte(p.o.Token))
		h.Write([]byte(text))
		return hex.EncodeToString(h.Sum(nil))
	}
	return "annals-" + sum("the name of the cookie")[:8], sum("the value of the cookie")
}

// hasToken reports whether r has the token, or the cookie that a request with the token gets.
func (p *page) hasToken(r *http.Request) bool {
	if token, ok := bearer(r); ok {
		return same(token, p.o.Token)
	}
	name, value := p.cookie()
	for _, c := range r.CookiesNamed(name) {
		if same(c.Value, value) {
			return true
		}
	}
	return false
}

// bearer is the token in the header of r, if there is one.
func bearer(r *http.Request) (token string, ok bool) {
	return strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// same compares secrets in a time that tells nothing of them.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// login gives the cookie to those who send the token.
func (p *page) login(w http.ResponseWriter, r *http.Request) {
	next := p.within(r.PostFormValue("next"))
	if p.o.Token == "" || !same(r.PostFormValue("token"), p.o.Token) {
		p.o.Logger.Warn("a wrong token for the page for operators", "from", name(r.RemoteAddr))
		p.write(w, r, http.StatusUnauthorized, &sheet{Page: "login", Title: "Log in", Data: struct {
			Next  string
			Wrong bool
		}{next, true}})
		return
	}
	name, value := p.cookie()
	p.setCookie(w, r, name, value, http.SameSiteLaxMode) // Lax: links to the page work
	http.Redirect(w, r, p.o.Prefix+next, http.StatusSeeOther)
}

func (p *page) setCookie(w http.ResponseWriter, r *http.Request, name, value string, site http.SameSite) {
	secure := r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: p.o.Prefix, HttpOnly: true, SameSite: site, Secure: secure})
}

// here is the address of r within the page.
func (p *page) here(r *http.Request) string {
	if r.Method != http.MethodGet {
		return ""
	}
	return p.within(strings.TrimPrefix(r.URL.RequestURI(), p.o.Prefix))
}

// within is address if it is one within the page, otherwise "", which is the start page.
func (p *page) within(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.IsAbs() || u.Host != "" || strings.ContainsAny(u.Path, `/\:`) || u.Path == ".." {
		return ""
	}
	return u.Path + "?" + u.RawQuery
}

// formCookie has the secret of the forms of a browser.
const formCookie = "annals-form"

// form is the secret that the forms on a page send back. A page that changes nothing has none.
func (p *page) form(w http.ResponseWriter, r *http.Request) string {
	if p.o.Allow == nil {
		return ""
	}
	if c, err := r.Cookie(formCookie); err == nil && len(c.Value) >= shortestToken && len(c.Value) <= 64 {
		return c.Value
	}
	secret := rand.Text()
	p.setCookie(w, r, formCookie, secret, http.SameSiteStrictMode)
	return secret
}

// fromForm reports whether r was sent by a form of the page in the same browser. What has the token in a header is no form of another site.
func (p *page) fromForm(r *http.Request) bool {
	if token, ok := bearer(r); ok && p.o.Token != "" {
		return same(token, p.o.Token)
	}
	c, err := r.Cookie(formCookie)
	return err == nil && len(c.Value) >= shortestToken && same(c.Value, r.PostFormValue("form"))
}
