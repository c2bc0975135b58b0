package main

import (
	"net/http"

	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/examples/groupchat/profile"
)

// userAnswer is a profile with the id of its user.
type userAnswer struct {
	User string `json:"user"`
	profile.Profile
}

func (a *api) userRoutes() {
	a.user("PUT /users/{user}/profile", func(w http.ResponseWriter, r *http.Request) error {
		var b struct{ Name string }
		if err := decode(w, r, &b); err != nil {
			return err
		}
		return a.askUser(w, r, profile.SetName(b))
	})
	a.user("PUT /users/{user}/status", func(w http.ResponseWriter, r *http.Request) error {
		var b struct{ Status profile.Status }
		if err := decode(w, r, &b); err != nil {
			return err
		}
		return a.askUser(w, r, profile.SetStatus(b))
	})
	a.user("DELETE /users/{user}/profile", func(w http.ResponseWriter, r *http.Request) error {
		return a.askUser(w, r, profile.Remove{})
	})
	a.user("GET /users/by-id/{user}", func(w http.ResponseWriter, r *http.Request) error {
		return a.askUser(w, r, profile.Show{})
	})
	a.user("GET /users/by-name/{name}", func(w http.ResponseWriter, r *http.Request) error {
		name := r.PathValue("name")
		if err := profile.Check(profile.SetName{Name: name}); err != nil { // no profile has such a name, and not every store accepts it
			return err
		}
		user, p, ok, err := a.users.byName(r.Context(), name)
		if err == nil && !ok {
			err = profile.ErrNoProfile
		}
		if err != nil {
			return err
		}
		answer(w, http.StatusOK, userAnswer{user, p})
		return nil
	})
	a.user("GET /users/counts", func(w http.ResponseWriter, r *http.Request) error {
		counts, err := a.users.count(r.Context())
		if err != nil {
			return err
		}
		answer(w, http.StatusOK, counts)
		return nil
	})
}

// user registers a route of profiles.
func (a *api) user(pattern string, handle func(w http.ResponseWriter, r *http.Request) error) {
	a.routes.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		err := errNoUsers
		if a.users != nil {
			err = handle(w, r)
		}
		if err != nil {
			a.refuse(w, r, err)
		}
	})
}

// askUser refuses a command that no profile could accept before an entity is loaded, as ask does.
func (a *api) askUser(w http.ResponseWriter, r *http.Request, c profile.Command) error {
	user := r.PathValue("user")
	if !chat.ValidID(user) {
		return chat.ErrBadID
	}
	if err := profile.Check(c); err != nil {
		return err
	}
	p, err := a.users.profiles.Ask(r.Context(), user, c)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, userAnswer{user, p})
	return nil
}
