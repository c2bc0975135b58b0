package operate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/projection"
)

// patience is how long the page waits for runners to pause.
const patience = 20 * time.Second

// said are the messages after an action, by the parameter that the next page gets.
var said = map[string]string{
	"paused":   "It is paused: no runner handles events, until it is resumed.",
	"pausing":  "It is paused, but runners still handle what they have begun.",
	"resumed":  "It is resumed: runners go on within seconds.",
	"retried":  "A retry is ordered: a runner carries it out within seconds.",
	"none":     "Nothing was parked with this error any more.",
	"discards": "It is ordered to leave out the events: a runner carries it out within seconds.",
}

// change is an action as a form asks for it.
type change struct {
	Action
	To   annals.SeqNr // of a discard: the last number that is left out
	Same string       // of a retry: all entities whose error has this mark
	Form string
}

// act does what a form asks for, when the viewer may.
func (p *page) act(w http.ResponseWriter, r *http.Request) {
	c := change{Action: Action{Name: r.PostFormValue("do"), Projection: quotable(r.PostFormValue, "name"), ID: annals.PersistenceID(quotable(r.PostFormValue, "id"))}, Same: r.PostFormValue("same")}
	a := p.answer(r)
	switch c.Name {
	case "pause", "resume", "retry", "discard":
	default:
		p.fail(w, r, a, usage("there is no such action"), 0)
		return
	}
	err := p.may(r, c.Action)
	if err == nil && !p.fromForm(r) {
		err = errors.New("this was not sent by a form of the page in this browser: go back, load the page again, and repeat it")
	}
	if err != nil {
		p.log(r, c, err)
		p.refuse(w, r, err)
		return
	}
	if c.Name == "discard" {
		if n, err := strconv.ParseInt(r.PostFormValue("to"), 10, 64); err == nil && n > 0 {
			c.To = annals.SeqNr(n)
		} else {
			p.fail(w, r, a, usage("name the last event that is left out"), 0)
			return
		}
		if r.PostFormValue("yes") == "" { // what is left out is not handled any more, so it asks first
			c.Form = p.form(w, r)
			p.write(w, r, http.StatusOK, &sheet{Page: "confirm", Title: "Leave events out for good?", Form: c.Form, Data: c})
			return
		}
	}
	var message string
	if err = a.changeable(p.positions, c.Projection); err == nil {
		message, err = c.run(a, projection.NewControl(p.positions, c.Projection))
	}
	p.log(r, c, err)
	p.forget()
	if err != nil {
		p.fail(w, r, a, err, 0)
		return
	}
	http.Redirect(w, r, p.o.Prefix+"projection?"+url.Values{"name": {c.Projection}, "said": {message}}.Encode(), http.StatusSeeOther)
}

// quotable is the value of a field, or of one that is quoted as in Go: browsers change newlines in the fields of forms.
func quotable(value func(string) string, field string) string {
	if v := value(field); v != "" {
		return v
	}
	v, _ := strconv.Unquote(value("quoted-" + field))
	return v
}

// run does c and returns a key of said.
func (c change) run(a *answer, control *projection.Control) (message string, err error) {
	switch c.Name {
	case "pause":
		ctx, cancel := context.WithTimeout(a.ctx, patience)
		defer cancel()
		if err := control.Pause(ctx); err != nil && a.ctx.Err() == nil && ctx.Err() != nil {
			return "pausing", nil
		} else if err != nil {
			return "", err
		}
		return "paused", nil
	case "resume":
		return "resumed", control.Resume(a.ctx)
	case "discard":
		return "discards", control.Discard(a.ctx, c.ID, c.To)
	}
	switch {
	case c.ID != "":
		return "retried", control.Retry(a.ctx, c.ID)
	case c.Same != "":
		n, err := a.retrySame(control, func(e projection.ParkedEntity) bool { return mark(e) == c.Same })
		if n == 0 && err == nil {
			return "none", nil
		}
		return "retried", err
	}
	return "retried", control.Retry(a.ctx)
}

// log has a line for each change.
func (p *page) log(r *http.Request, c change, err error) {
	attrs := []any{"action", c.Name, "projection", name(c.Projection), "id", name(string(c.ID)), "from", name(r.RemoteAddr)}
	if p.o.User != nil {
		attrs = append(attrs, "user", name(p.o.User(r)))
	}
	if c.To > 0 {
		attrs = append(attrs, "to", int64(c.To))
	}
	if err != nil {
		p.o.Logger.Warn("the page for operators did not change a projection", append(attrs, "error", line(p.answer(r).redacted(err.Error()), 1000))...)
		return
	}
	p.o.Logger.Info("the page for operators changed a projection", attrs...)
}

// mark names an error of parked entities, without its text.
func mark(e projection.ParkedEntity) string {
	sum := sha256.Sum256([]byte(e.Kind + "\x00" + e.Error))
	return hex.EncodeToString(sum[:8])
}

// retrySame orders a retry of all parked entities of which same is true, and returns how many there are. When it fails, some of the orders may have
// been given.
func (a *answer) retrySame(control *projection.Control, same func(projection.ParkedEntity) bool) (n int, err error) {
	var ids []annals.PersistenceID
	for e, err := range control.Parked(a.ctx, "") {
		if err != nil {
			return 0, err
		}
		if same(e) {
			ids = append(ids, e.ID)
		}
	}
	for some := range slices.Chunk(ids, pageSize) {
		err := control.Retry(a.ctx, some...)
		for i := 0; i < len(some) && errors.Is(err, annals.ErrInvalid); i++ { // one of them is not parked any more, so nothing was ordered
			if one := control.Retry(a.ctx, some[i]); one != nil && !errors.Is(one, annals.ErrInvalid) {
				err = one
			}
		}
		if err != nil && !errors.Is(err, annals.ErrInvalid) {
			return n, err
		}
		n += len(some)
	}
	return n, nil
}
