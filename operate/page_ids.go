package operate

import (
	"net/http"
	"strings"

	"github.com/annals-go/annals"
)

// mostLooked is how many ids a search looks at where it has to look at all.
const mostLooked = 10_000

// idsPage is a list of ids.
type idsPage struct {
	Type, Search string
	Exact        []annals.PersistenceID // entities with the id that is searched for
	Groups       []idsGroup             // of a search without a type, what begins with it in each type of the program
	idsView
	All    bool // the search looks at all ids, in the order of the store
	Looked int
	Last   annals.PersistenceID // where to go on
	After  annals.PersistenceID
	Types  []typed
	Lists  bool // the store can list ids
}

// idsGroup are the first ids of a type that a search has found.
type idsGroup struct {
	Type string
	idsView
}

func (p *page) entities(a *answer, r *http.Request) (*sheet, error) {
	q := r.URL.Query()
	v := &idsPage{Type: q.Get("type"), Search: q.Get("search"), All: q.Get("all") != "", After: annals.PersistenceID(q.Get("after")), Lists: p.store.Capabilities().IDQueries}
	v.Types = p.types(a.ctx, false)
	if err := p.exact(a, v); err != nil {
		return nil, err
	}
	if !v.Lists {
		a.say("unsupported", "", "the store cannot list ids: search for a whole id")
	} else if err := p.list(a, v); err != nil {
		return nil, err
	}
	return &sheet{Title: "Entities", Data: v}, nil
}

// exact finds the entities with the id that is searched for, also without its type.
func (p *page) exact(a *answer, v *idsPage) error {
	if v.Search == "" || v.After != "" {
		return nil
	}
	ids := []annals.PersistenceID{annals.PersistenceID(v.Search)}
	for _, e := range p.Entities {
		if v.Type == "" || e.entityType() == v.Type {
			ids = append(ids, annals.NewPersistenceID(e.entityType(), v.Search))
		}
	}
	for _, id := range ids {
		ok, err := a.exists(p.store, id)
		switch {
		case codeOf(err) == "invalid": // no id can be so
		case err != nil:
			return err
		case ok:
			v.Exact = append(v.Exact, id)
		}
	}
	return nil
}

// list lists ids: all of a type, or those that are searched for.
func (p *page) list(a *answer, v *idsPage) (err error) {
	if v.All && v.Search != "" {
		return p.look(a, v)
	}
	begins := func(t string) string {
		if v.Search != "" && t != "" && !strings.HasPrefix(v.Search, t+"|") {
			return t + "|" + v.Search
		}
		return v.Search
	}
	if v.idsView, err = a.ids(p.store, v.Type, begins(v.Type), v.After, pageSize); err != nil {
		return err
	}
	if v.More {
		v.Last = v.IDs[len(v.IDs)-1]
	}
	for _, t := range v.Types {
		if v.Search == "" || v.Type != "" || v.After != "" || strings.Contains(v.Search, "|") {
			break
		}
		found, err := a.ids(p.store, t.Type, begins(t.Type), "", pageSize/5)
		if err != nil {
			return err
		}
		if len(found.IDs) > 0 {
			v.Groups = append(v.Groups, idsGroup{t.Type, found})
		}
	}
	return nil
}

// look looks at ids in the order of the store, for those that contain what is searched for.
func (p *page) look(a *answer, v *idsPage) error {
	for id, err := range p.store.Query().IDs(a.ctx, v.Type, v.After) {
		if err != nil {
			return err
		}
		if v.More = len(v.IDs) == pageSize || v.Looked == mostLooked; v.More {
			break
		}
		if strings.Contains(string(id), v.Search) {
			v.IDs = append(v.IDs, id)
		}
		v.Looked++
		v.Last = id
	}
	return nil
}
