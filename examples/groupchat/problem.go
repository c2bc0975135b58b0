package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/examples/groupchat/profile"
)

// problem is the body of every answer that reports an error.
type problem struct {
	Code string `json:"error"`   // for programs
	Text string `json:"message"` // for people
}

// badRequest is the error of a request that cannot be turned into a command.
type badRequest struct{ err error }

func (b *badRequest) Error() string { return b.err.Error() }
func (b *badRequest) Unwrap() error { return b.err }

// errNotJSON is the error of a body whose Content-Type is not JSON.
var errNotJSON = errors.New("the Content-Type of a body is application/json")

// statuses are the HTTP statuses of rejections. A rejection that is not listed is a violation of a rule of the domain: 422.
var statuses = map[*chat.Rejection]int{
	chat.ErrBadID:   http.StatusBadRequest,
	chat.ErrBadName: http.StatusBadRequest,
	chat.ErrBadText: http.StatusBadRequest,
	chat.ErrBadRole: http.StatusBadRequest,
	chat.ErrBadPage: http.StatusBadRequest,

	chat.ErrBadPosition: http.StatusBadRequest,

	profile.ErrBadStatus: http.StatusBadRequest,

	chat.ErrNoThread:      http.StatusNotFound,
	chat.ErrThreadDeleted: http.StatusNotFound,
	chat.ErrNoMember:      http.StatusNotFound,
	chat.ErrNoMessage:     http.StatusNotFound,
	profile.ErrNoProfile:  http.StatusNotFound,

	chat.ErrThreadExists:  http.StatusConflict,
	chat.ErrAlreadyMember: http.StatusConflict,
	chat.ErrSameName:      http.StatusConflict,
	chat.ErrMessageExists: http.StatusConflict,
}

// explain returns the HTTP status and the problem that tell a client about err.
func explain(err error) (status int, p problem) {
	if rejection := (*chat.Rejection)(nil); errors.As(err, &rejection) {
		if status, ok := statuses[rejection]; ok {
			return status, problem{rejection.Code, rejection.Text}
		}
		return http.StatusUnprocessableEntity, problem{rejection.Code, rejection.Text}
	}
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return http.StatusRequestEntityTooLarge, problem{"too-large", fmt.Sprintf("a body has at most %d bytes", tooLong.Limit)}
	}
	if errors.Is(err, errNotJSON) {
		return http.StatusUnsupportedMediaType, problem{"no-json", errNotJSON.Error()}
	}
	if bad := (*badRequest)(nil); errors.As(err, &bad) {
		return http.StatusBadRequest, problem{"bad-request", bad.Error()}
	}
	switch {
	case errors.Is(err, errNoUsers):
		return http.StatusNotImplemented, problem{"no-profiles", errNoUsers.Error()}
	case errors.Is(err, errNoReads):
		return http.StatusNotImplemented, problem{"no-read-model", errNoReads.Error()}
	case errors.Is(err, annals.ErrConstraint):
		return http.StatusConflict, problem{"name-taken", "another user has that name"}
	case errors.Is(err, annals.ErrUnknown):
		return http.StatusServiceUnavailable, problem{"unknown", "it may have been stored: look, or repeat it with the same id"}
	case errors.Is(err, annals.ErrUnavailable), errors.Is(err, annals.ErrClosed), errors.Is(err, annals.ErrOverloaded), errors.Is(err, annals.ErrConflict):
		return http.StatusServiceUnavailable, problem{"unavailable", "nothing was stored: try again"}
	}
	return http.StatusInternalServerError, problem{"internal", "the server's log says more"}
}

// refuse answers with err. An error of the server is also logged.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, p := explain(err)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if status >= http.StatusInternalServerError && status != http.StatusNotImplemented && r.Context().Err() == nil {
		a.log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "status", status, "error", err)
	}
	answer(w, status, p)
}
