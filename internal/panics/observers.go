package panics

import (
	"context"
	"log/slog"
	"sync"

	"github.com/annals-go/annals"
)

// Observer returns an Observer that calls o and recovers its panics, so that they do not affect calls. The first panic is logged to
// slog.Default(). For nil it returns nil, and an Observer that promises to return it returns as it is.
func Observer(o annals.Observer) annals.Observer {
	if o == nil {
		return nil
	}
	if _, promises := o.(interface{ AlwaysReturns() }); promises {
		return o
	}
	return &observer{observer: o}
}

type observer struct {
	observer annals.Observer
	once     sync.Once
}

func (o *observer) Start(ctx context.Context, c annals.Call) context.Context {
	var started context.Context
	o.contain(func() { started = o.observer.Start(ctx, c) })
	if started == nil {
		return ctx
	}
	return started
}

func (o *observer) End(ctx context.Context, c annals.Call, r annals.Result) {
	o.contain(func() { o.observer.End(ctx, c, r) })
}

func (o *observer) contain(fn func()) {
	err := Contain("observe", "", func() error { fn(); return nil })
	if err != nil {
		o.once.Do(func() {
			Logger(nil).LogAttrs(context.Background(), slog.LevelError, "annals: the Observer panicked, which is said once", slog.Any("error", err))
		})
	}
}

// Logger returns a Logger that calls the handler of l and recovers its panics; a record whose handler panics is lost. For nil it uses
// slog.Default().
func Logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		l = slog.Default()
	}
	return slog.New(handler{l.Handler()})
}

type handler struct{ slog.Handler }

func (h handler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	_ = Contain("log", "", func() error { enabled = h.Handler.Enabled(ctx, level); return nil })
	return enabled
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	return Contain("log", "", func() error { return h.Handler.Handle(ctx, r) })
}

func (h handler) WithAttrs(attrs []slog.Attr) (with slog.Handler) {
	_ = Contain("log", "", func() error { with = h.Handler.WithAttrs(attrs); return nil })
	return contained(with, h)
}

func (h handler) WithGroup(name string) (with slog.Handler) {
	_ = Contain("log", "", func() error { with = h.Handler.WithGroup(name); return nil })
	return contained(with, h)
}

func contained(with slog.Handler, otherwise handler) slog.Handler {
	if with == nil {
		return otherwise
	}
	return handler{with}
}
