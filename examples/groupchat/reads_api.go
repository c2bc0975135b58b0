package main

import (
	"errors"
	"net/http"

	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/examples/groupchat/readmodel"
)

// errNoReads answers every request to the read model where there is none.
var errNoReads = errors.New("the store of this server can neither be queried nor push its events, so there is no read model: a store in DynamoDB needs an index or subscriptions")

// readRoutes are answered by the read model, a moment behind what commands have stored.
func (a *api) readRoutes() {
	a.read("GET /accounts/{account}/threads", func(r *http.Request) (any, error) {
		after, limit, err := textPage(r)
		if err != nil {
			return nil, err
		}
		page, more, err := a.reads.Threads(r.Context(), r.PathValue("account"), after, limit)
		return pageOf("threads", page, more, func(t readmodel.Thread) any { return t.ID }), err
	})
	a.read("GET /accounts/{account}/unread", func(r *http.Request) (any, error) {
		return a.reads.Unread(r.Context(), r.PathValue("account"))
	})
	a.read("GET /accounts/{account}/threads/{thread}", func(r *http.Request) (any, error) { return a.threadOf(r) })
	a.read("GET /accounts/{account}/threads/{thread}/members", func(r *http.Request) (any, error) {
		after, limit, err := textPage(r)
		if err != nil {
			return nil, err
		}
		t, err := a.threadOf(r)
		if err != nil {
			return nil, err
		}
		page, more, err := a.reads.Members(r.Context(), t.ID, after, limit)
		return pageOf("members", page, more, func(m readmodel.Member) any { return m.Account }), err
	})
	a.read("GET /accounts/{account}/threads/{thread}/messages", func(r *http.Request) (any, error) {
		after, limit, err := numberPage(r)
		if err != nil {
			return nil, err
		}
		t, err := a.threadOf(r)
		if err != nil {
			return nil, err
		}
		page, more, err := a.reads.Messages(r.Context(), t.ID, after, limit)
		return pageOf("messages", page, more, func(m readmodel.Message) any { return m.Position }), err
	})
}

// read registers a route of the read model.
func (a *api) read(pattern string, read func(r *http.Request) (any, error)) {
	a.routes.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var found any
		err := errNoReads
		switch {
		case a.reads == nil:
		case !chat.ValidID(r.PathValue("account")):
			err = chat.ErrBadID
		default:
			found, err = read(r)
		}
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		answer(w, http.StatusOK, found)
	})
}

// threadOf returns the thread of a request, as the account sees it. The account sees the threads that it is a member of.
func (a *api) threadOf(r *http.Request) (readmodel.Thread, error) {
	thread := r.PathValue("thread")
	if !chat.ValidID(thread) {
		return readmodel.Thread{}, chat.ErrBadID
	}
	t, ok, err := a.reads.Thread(r.Context(), r.PathValue("account"), thread)
	if err == nil && !ok {
		err = chat.ErrNoThread
	}
	return t, err
}

// textPage reads which page a request is for, where the order is that of ids.
func textPage(r *http.Request) (after string, limit int, err error) {
	after = r.FormValue("after")
	if after != "" && !chat.ValidID(after) {
		return "", 0, chat.ErrBadID
	}
	limit, err = pageLimit(r)
	return after, limit, err
}

// numberPage reads which page a request is for, where the order is that of positions.
func numberPage(r *http.Request) (after, limit int, err error) {
	after, err = number(r, "after", 0)
	if err == nil && after < 0 {
		err = chat.ErrBadPage
	}
	if err != nil {
		return 0, 0, err
	}
	limit, err = pageLimit(r)
	return after, limit, err
}

func pageLimit(r *http.Request) (int, error) {
	limit, err := number(r, "limit", 100)
	if err == nil && limit < 1 {
		err = chat.ErrBadPage
	}
	return min(limit, chat.MaxPage), err
}

// pageOf is the answer with a page. more is the after of the next page.
func pageOf[T any](name string, page []T, more bool, key func(T) any) map[string]any {
	found := map[string]any{name: append([]T{}, page...)}
	if more {
		found["more"] = key(page[len(page)-1])
	}
	return found
}
