package operate

import (
	"context"
	"net/http"
	"slices"
	"time"
)

const (
	mostTraced  = 200             // of a trace on the page
	traceTime   = 5 * time.Second // to search for it
	traceBefore = time.Hour       // before the event from which it is asked for
)

// tracePage is what belongs to a correlation.
type tracePage struct {
	*traceView
	Since   string // where the search begins
	Command string
}

// trace searches for a few seconds; the command has no limit.
func (p *page) trace(a *answer, r *http.Request) (*sheet, error) {
	q := r.URL.Query()
	wanted := quotable(q.Get, "correlation")
	if wanted == "" {
		return nil, usage("name a correlation, an event, a write or a command")
	}
	v := &tracePage{Since: q.Get("since")}
	if v.Since == "" {
		v.Since = "24h"
	}
	from, err := since(v.Since)
	if err != nil {
		return nil, err
	}
	request := a.ctx
	ctx, cancel := context.WithTimeout(request, traceTime)
	defer cancel()
	a.ctx = ctx
	t := &tracing{answer: a, progress: func(string, ...any) {}, store: p.store, shower: a.shower(false), limit: mostTraced, view: &traceView{Trace: wanted, Since: at(from), Tree: []*traceNode{}}, projections: slices.Clone(p.Projections)}
	err = t.run(&reading{from: from})
	a.ctx = request
	switch {
	case err != nil && ctx.Err() != nil && request.Err() == nil:
		a.say("more", "", "the search has ended after %s: the command goes on", traceTime)
	case err != nil:
		return nil, err
	case !t.view.Complete:
		a.say("more", "", "these are the first %d: the command shows more", mostTraced)
	}
	v.traceView, v.Command = t.view, a.next("trace --since "+shell(v.Since), wanted)
	return &sheet{Title: name(wanted), Data: v}, nil
}
