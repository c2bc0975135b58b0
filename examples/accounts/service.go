package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/sqltx"
)

type service struct {
	store    sqltx.Store
	accounts *aggregate.Repository[Command, int64, int64]
	log      *slog.Logger
}

func (s *service) routes() http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("POST /accounts/{id}/deposits", s.command(func(cents int64) Command { return Deposit{cents} }))
	routes.HandleFunc("POST /accounts/{id}/withdrawals", s.command(func(cents int64) Command { return Withdraw{cents} }))
	routes.HandleFunc("GET /accounts/{id}", s.show)
	routes.HandleFunc("GET /richest", s.richest)
	routes.HandleFunc("GET /ready", s.ready)
	return routes
}

// command executes a command once for each Idempotency-Key.
func (s *service) command(of func(cents int64) Command) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Cents int64 }
		key := r.Header.Get("Idempotency-Key")
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1000)).Decode(&body); err != nil || key == "" {
			answer(w, http.StatusBadRequest, map[string]string{"error": "send cents, and an Idempotency-Key"})
			return
		}
		balance, err := s.accounts.AskOnce(r.Context(), key, r.PathValue("id"), of(body.Cents))
		s.answer(w, map[string]int64{"balance": balance}, err)
	}
}

func (s *service) show(w http.ResponseWriter, r *http.Request) {
	balance, _, err := s.accounts.Load(r.Context(), r.PathValue("id"))
	s.answer(w, map[string]int64{"balance": balance}, err)
}

func (s *service) richest(w http.ResponseWriter, r *http.Request) {
	names, err := richest(r.Context(), s.store)
	s.answer(w, map[string][]string{"richest": names}, err)
}

func (s *service) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	h, err := ability.Of[ability.HealthChecker](s.store)
	if err == nil {
		err = h.CheckHealth(ctx)
	}
	s.answer(w, map[string]bool{"ready": true}, err)
}

// answer answers with v, or with the error.
func (s *service) answer(w http.ResponseWriter, v any, err error) {
	switch {
	case err == nil:
		answer(w, http.StatusOK, v)
	case errors.Is(err, ErrAmount):
		answer(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
	case errors.Is(err, ErrFunds):
		answer(w, http.StatusConflict, map[string]string{"error": err.Error()})
	case errors.Is(err, annals.ErrInvalid):
		answer(w, http.StatusBadRequest, map[string]string{"error": "this is no name of an account"})
	default: // a client sends it again, with the same key
		s.log.Error("a request failed", "error", err)
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusServiceUnavailable, map[string]string{"error": "try again"})
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
