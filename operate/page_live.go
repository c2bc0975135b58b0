package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/query"
)

const (
	mostStreams  = 100              // at the same time
	streamTime   = 30 * time.Second // then the browser asks again, so that a server that is shut down does not wait for long
	repeatEach   = 5 * time.Second
	writeTimeout = 10 * time.Second // for a browser that does not read
)

// stream is an answer of server-sent events.
type stream struct {
	w http.ResponseWriter
	c *http.ResponseController
}

// streams reports whether r asks for a stream.
func streams(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// stream begins one and calls run with a context that ends after streamTime.
func (p *page) stream(w http.ResponseWriter, r *http.Request, run func(ctx context.Context, s *stream) error) {
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		http.Error(w, "too many browsers follow", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events back
	ctx, cancel := context.WithTimeout(r.Context(), streamTime)
	defer cancel()
	defer context.AfterFunc(p.ends, cancel)()
	s := &stream{w, http.NewResponseController(w)}
	err := s.send(": begins\n\n")
	if err == nil {
		err = run(ctx, s)
	}
	if err != nil && ctx.Err() == nil {
		d, _ := p.answer(r).explain(err)
		_ = s.event("failed", "", line(d.Message, 1000))
	}
}

// within sets the time in which the browser must take what is written. Some writers of tests have none.
func (s *stream) within(d time.Duration) { _ = s.c.SetWriteDeadline(time.Now().Add(d)) }

func (s *stream) send(text string) error {
	s.within(writeTimeout)
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	err := s.c.Flush()
	s.within(2 * streamTime) // at the end of this time HTTP/2 ends a stream also when nothing waits to be written
	return err
}

// event sends data, as JSON in one line. The browser sends id when it asks again.
func (s *stream) event(kind, id, data string) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	return s.send(id + "event: " + kind + "\ndata: " + string(text) + "\n\n")
}

// repeats sends the live part of a page whenever it has changed.
func (p *page) repeats(w http.ResponseWriter, r *http.Request, template string, read func(a *answer, r *http.Request) (*sheet, error)) {
	form := p.form(w, r)
	p.stream(w, r, func(ctx context.Context, s *stream) error {
		ticks := time.NewTicker(repeatEach)
		defer ticks.Stop()
		for last := ""; ; {
			a := p.answer(r)
			a.ctx = ctx
			shown, err := read(a, r)
			if err != nil || ctx.Err() != nil { // what was read then says that the store does not answer
				return err
			}
			shown.Page, shown.Form, shown.Program, shown.Hides, shown.Diagnostics = template, form, p.Name, p.hide, a.diagnostics
			var b bytes.Buffer
			if err := templates().ExecuteTemplate(&b, template+" live", shown); err != nil {
				return err
			}
			if b.String() != last {
				if last = b.String(); s.event("page", "", last) != nil {
					return nil // the connection has ended
				}
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// tailEvents sends rows for the events that come after Last-Event-ID, or after the parameter from.
func (p *page) tailEvents(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	from := r.Header.Get("Last-Event-ID")
	if from == "" {
		from = q.Get("from")
	}
	a := p.answer(r)
	through, err := parseOffset(from)
	if err != nil {
		p.fail(w, r, a, err, 0)
		return
	}
	feed, err := query.NewFeed(p.store, annals.Filter{Type: q.Get("type"), Tag: q.Get("tag")}, annals.Position{Through: through}, query.Options{})
	if err != nil {
		p.fail(w, r, a, err, 0)
		return
	}
	p.stream(w, r, func(ctx context.Context, s *stream) error {
		for {
			batch, err := feed.Next(ctx, pageSize)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			for _, e := range batch.Items {
				if err := templates().ExecuteTemplate(&b, "tail row", a.viewOf(e, a.shower(false), false)); err != nil {
					return err
				}
			}
			if s.event("rows", formatOffset(batch.Through), b.String()) != nil {
				return nil // the connection has ended
			}
		}
	})
}

// streamOf is the query of the stream of what comes after last, the newest event. Where events can become visible late, the stream begins earlier;
// the browser leaves out the rows that it has.
func (p *page) streamOf(v *tailData, last annals.Offset) string {
	from := annals.Offset{Time: time.Now().Add(-time.Second)}
	if !last.Time.IsZero() {
		if from = last; p.store.Capabilities().Lateness > 0 {
			from = annals.Offset{Time: from.Time.Add(-p.store.Capabilities().Lateness)}
		}
	}
	return url.Values{"type": {v.Type}, "tag": {v.Tag}, "from": {formatOffset(from)}}.Encode()
}

// some are events of a page.
type some struct {
	views []eventView
	all   int           // how many have been read, of which views are the last or the first ones
	last  annals.Offset // of views
}

// collect keeps the first pageSize events, or the last ones. So many payloads are not in memory at the same time.
func (a *answer) collect(events iter.Seq2[annals.Event, error], first bool) (c some, err error) {
	for e, err := range events {
		if err != nil {
			return c, err
		}
		if c.all++; c.all > pageSize && first {
			break
		}
		c.views, c.last = append(c.views, a.viewOf(e, a.shower(false), false)), e.Offset()
		if len(c.views) == 2*pageSize {
			c.views = append(c.views[:0], c.views[pageSize:]...)
		}
	}
	c.views = c.views[max(len(c.views)-pageSize, 0):]
	return c, nil
}

// newest are the newest pageSize events that fit f, in their order; fewer where more than ten times as many have nearly the same time. A store has no
// order from the end, so it looks back for a time that is long enough and not too long.
func (p *page) newest(a *answer, f annals.Filter) (c some, err error) {
	last, err := p.store.Query().Newest(a.ctx, f)
	if err != nil || last.Time.IsZero() {
		return c, err
	}
	f.Limit = 10 * pageSize
	var short, long time.Duration // back, and too short or too long; 0: not known
	var few some                  // those since short
	for back := time.Second; ; {
		if f.After = (annals.Offset{Time: last.Time.Add(-back)}); back > 50*365*24*time.Hour {
			f.After = annals.Offset{}
		}
		c, err := a.collect(p.store.Query().Events(a.ctx, f), false)
		switch {
		case err != nil:
			return c, err
		case c.all == f.Limit:
			long = back
		case c.all >= pageSize || f.After.Time.IsZero():
			return c, nil
		default:
			short, few = back, c
		}
		switch base := max(short, time.Microsecond); {
		case long == 0:
			back *= 30
		case float64(long)/float64(base) > 1.2:
			back = time.Duration(math.Sqrt(float64(base) * float64(long)))
		case few.all > 0:
			return few, nil
		default:
			return c, nil
		}
	}
}

// formatOffset is o as an address of the page has it.
func formatOffset(o annals.Offset) string {
	text, _ := json.Marshal(o) // of texts, numbers and a time
	return string(text)
}

// parseOffset reads what formatOffset has made, a time, or how long ago it was.
func parseOffset(text string) (o annals.Offset, err error) {
	if strings.HasPrefix(text, "{") {
		if json.Unmarshal([]byte(text), &o) != nil {
			return o, usage("this is no place among the events")
		}
		return o, nil
	}
	o.Time, err = since(text)
	return o, err
}
