package operate

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/projection"
)

const (
	pageSize     = 100  // events, ids and parked entities of one page
	mostReplayed = 1000 // events that are read for the newest state, which is shown unasked
)

// overview is how all projections are.
type overview struct {
	Statuses    []projection.Status
	Diagnostics []diagnostic
	Well        bool
	Reachable   bool
	Took        time.Duration // until the store has answered first
	At          time.Time
}

// cache keeps an overview for a moment: several browsers have it sent again and again, and it can count many events.
type cache struct {
	turn chan struct{} // a lock of what follows, for which a request can stop to wait; of one element
	kept overview
	read time.Time
}

// fresh is how long an overview is kept.
const fresh = 2 * time.Second

// overview reads how all projections are, in ten seconds at most. Its errors are diagnostics.
func (p *page) overview(ctx context.Context) overview {
	select {
	case p.overviews.turn <- struct{}{}:
		defer func() { <-p.overviews.turn }()
	case <-ctx.Done():
		return overview{}
	}
	if time.Since(p.overviews.read) < fresh {
		return p.overviews.kept
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	a := &answer{options: p.options, ctx: short, program: p.program, secrets: p.secrets}
	began := time.Now()
	v := overview{At: began.Truncate(time.Second), Statuses: []projection.Status{}}
	names, err := a.names(p.positions)
	v.Took = time.Since(began)
	for i := 0; i < len(names.Names) && err == nil; i++ {
		var s projection.Status
		if s, err = a.howFar(p.positions, p.store, names.Names[i]); err == nil {
			v.Statuses = append(v.Statuses, s)
		}
	}
	v.Reachable = true
	if err != nil {
		d, _ := a.explain(err)
		switch d.Code {
		case "interrupted":
			d = diagnostic{Code: "timeout", Message: "the store has not answered in time"}
			v.Reachable = false
		case "unsupported":
			d.Message = "the store cannot list the projections: the program can name them (Config.Projections)"
		default:
			v.Reachable = d.Code != "unavailable" && d.Code != "closed"
		}
		a.diagnostics = append(a.diagnostics, d)
		if d.Code != "unsupported" {
			a.status = found
		}
	}
	v.Diagnostics, v.Well = a.diagnostics, a.status == well
	if ctx.Err() == nil {
		p.overviews.kept, p.overviews.read = v, time.Now()
	}
	return v
}

// forget has the next overview be read again.
func (p *page) forget() {
	p.overviews.turn <- struct{}{}
	p.overviews.read = time.Time{}
	<-p.overviews.turn
}

// typed is an entity type and how many entities of it there are.
type typed struct {
	Type  string
	Count int
	Least bool // there are more
}

func (p *page) start(a *answer, r *http.Request) (*sheet, error) {
	v := p.overview(a.ctx)
	a.diagnostics = append(a.diagnostics, v.Diagnostics...)
	types := p.types(a.ctx, !streams(r))
	return &sheet{Title: "All projections", Live: true, Data: struct {
		overview
		Types        []typed
		Type, Search string // of the form, empty
		CanIDs       bool
	}{v, types, "", "", p.store.Capabilities().IDQueries}}, nil
}

// types are the types of the program, and those of the first ids of the store, with counts that end at pageSize, in two seconds at most.
func (p *page) types(ctx context.Context, counts bool) (all []typed) {
	for _, t := range p.options.types() {
		all = append(all, typed{Type: t, Count: -1})
	}
	if !counts || !p.store.Capabilities().IDQueries {
		return all
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	a := &answer{options: p.options, ctx: ctx}
	first, err := a.ids(p.store, "", "", "", pageSize)
	for _, id := range first.IDs {
		if t := id.Type(); t != "" && !slices.ContainsFunc(all, func(k typed) bool { return k.Type == t }) {
			all = append(all, typed{Type: t, Count: -1})
		}
	}
	for i := 0; i < len(all) && err == nil; i++ {
		var v idsView
		if v, err = a.ids(p.store, all[i].Type, "", "", pageSize); err == nil {
			all[i].Count, all[i].Least = len(v.IDs), v.More
		}
	}
	return all // a type without a count is one for which there was no time
}

// entityData is the page of an entity.
type entityData struct {
	*entityView
	At          annals.SeqNr // the event that is looked at; 0: none
	Moment      *momentView
	Wrong       *diagnostic // why there is no Moment
	Known       bool        // the program has the behavior
	Raw         bool
	First       annals.SeqNr // the number before the first event of the page
	Before      annals.SeqNr // that of the page before
	Newest      annals.SeqNr // that of the last page
	Command     string
	Since       string // from where what correlates with the event is searched
	Test        string // the command that writes a test; "" where there is none
	StateIsLong bool   // the state is not shown, because many events would be read for it
}

func (p *page) entityPage(a *answer, r *http.Request) (*sheet, error) {
	q := r.URL.Query()
	id := annals.PersistenceID(quotable(q.Get, "id"))
	if id == "" {
		return nil, usage("name an entity")
	}
	number := func(name string) (annals.SeqNr, error) {
		if q.Get(name) == "" {
			return 0, nil
		}
		n, err := strconv.ParseInt(q.Get(name), 10, 64)
		if err != nil || n < 0 {
			return 0, usage("%s is not the number of an event", line(q.Get(name), 50))
		}
		return annals.SeqNr(n), nil
	}
	at, err := number("at")
	if err != nil {
		return nil, err
	}
	after, err := number("after")
	if err != nil {
		return nil, err
	}
	if !q.Has("after") && at > 0 {
		after = (at - 1) / pageSize * pageSize
	}
	w := a.showing(p.store, id, q.Get("raw") != "")
	w.after, w.limit, w.mostReplayed = after, pageSize, mostReplayed
	if err := w.page(); err != nil {
		return nil, err
	}
	v := &entityData{entityView: w.view.(*entityView), At: at, Known: w.entity != nil, Raw: w.raw, First: after, Before: max(after-pageSize, 0)}
	v.Newest = max((v.Last-1)/pageSize*pageSize, 0)
	v.StateIsLong = v.Known && v.State == nil && v.Last > 0 && !v.broken && !v.Deleted
	v.Command = a.next("show", string(id))
	if v.Known && !a.hide {
		v.Test = a.next("test", string(id))
	}
	if at > 0 {
		p.moment(a, v)
	}
	a.diagnostics = slices.DeleteFunc(a.diagnostics, func(d diagnostic) bool { return d.Code == "more" || d.Code == "end" || d.Code == "next" })
	return &sheet{Title: name(string(id)), Data: v}, nil
}

// moment adds the event v.At, with the state after it and what it has changed where the behavior is known.
func (p *page) moment(a *answer, v *entityData) {
	w := a.showing(p.store, v.ID, v.Raw)
	w.whole = true
	number := v.At
	if err := w.moment(moment{number: &number}, v.Known, ""); err != nil {
		d, _ := a.explain(err)
		v.Wrong = &d
		return
	}
	v.Moment = w.view.(*momentView)
	if e := v.Moment.Event; e != nil {
		if stored, err := time.Parse(time.RFC3339Nano, e.Time); err == nil {
			v.Since = at(stored.Add(-traceBefore))
		}
	}
	command := fmt.Sprintf("show --at %d", number)
	if v.Known {
		command += " --diff"
	}
	v.Command = a.next(command, string(v.ID))
	if v.Test != "" {
		v.Test = a.next(fmt.Sprintf("test --to %d", number), string(v.ID))
	}
}

// projectionData is the page of a projection.
type projectionData struct {
	projection.Status
	Parks parkedView
	After annals.PersistenceID
	Said  string
	May   map[string]bool // the actions that the viewer may take
}

// Mark is that of the error of the i-th parked entity.
func (v *projectionData) Mark(i int) string { return v.Parks.marks[i] }

// LastParked is where the next page begins.
func (v *projectionData) LastParked() annals.PersistenceID {
	return v.Parks.Entities[len(v.Parks.Entities)-1].ID
}

func (p *page) projection(a *answer, r *http.Request) (*sheet, error) {
	q := r.URL.Query()
	n := q.Get("name")
	if n == "" {
		return nil, usage("name a projection")
	}
	s, err := a.howFar(p.positions, p.store, n)
	if err != nil {
		return nil, err
	}
	v := &projectionData{Status: s, After: annals.PersistenceID(q.Get("after")), Said: said[q.Get("said")], May: map[string]bool{}}
	if s.Parked > 0 || v.After != "" {
		if v.Parks, err = a.parked(projection.NewControl(p.positions, n), v.After, pageSize); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"pause", "resume", "retry", "discard"} {
		v.May[name] = (name != "pause" || len(s.Ranges) > 0) && p.may(r, Action{Name: name, Projection: n}) == nil // one that has been run
	}
	return &sheet{Title: name(n), Live: true, Data: v}, nil
}

// tailData is a page of events of all entities.
type tailData struct {
	Type, Tag, After string
	Events           []eventView
	More             bool
	Next             string // where the next page begins
	Stream           string // the query of the events that come
	Page             bool   // After is the place of a page, and nothing that somebody has typed
	HasTags          bool
}

func (p *page) tailPage(a *answer, r *http.Request) (*sheet, error) {
	q := r.URL.Query()
	v := &tailData{Type: q.Get("type"), Tag: q.Get("tag"), After: q.Get("after"), HasTags: p.store.Capabilities().TagQueries}
	v.Page = strings.HasPrefix(v.After, "{")
	f := annals.Filter{Type: v.Type, Tag: v.Tag}
	var found some
	var err error
	if v.After == "" {
		if found, err = p.newest(a, f); err != nil {
			return nil, err
		}
		v.Events, v.Stream = found.views, p.streamOf(v, found.last)
		slices.Reverse(v.Events)
	} else {
		if f.After, err = parseOffset(v.After); err != nil {
			return nil, err
		}
		f.Limit = pageSize + 1
		if found, err = a.collect(p.store.Query().Events(a.ctx, f), true); err != nil {
			return nil, err
		}
		if v.Events, v.More = found.views, found.all > pageSize; v.More {
			v.Next = formatOffset(found.last)
		}
	}
	return &sheet{Title: "Events", Data: v}, nil
}
