package panics_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
)

// broken is an Observer and a slog.Handler whose methods call worst.
type broken struct {
	slog.Handler
	worst func()
}

func (b broken) Start(context.Context, annals.Call) context.Context { b.worst(); return nil }
func (b broken) End(context.Context, annals.Call, annals.Result)    { b.worst() }
func (b broken) Enabled(context.Context, slog.Level) bool           { b.worst(); return true }
func (b broken) Handle(context.Context, slog.Record) error          { b.worst(); return nil }
func (b broken) WithAttrs([]slog.Attr) slog.Handler                 { b.worst(); return nil }
func (b broken) WithGroup(string) slog.Handler                      { b.worst(); return nil }

// returns is an Observer that promises to return.
type returns struct{ annals.Observer }

func (returns) AlwaysReturns() {}

func TestObserverAndLoggerAreContained(t *testing.T) {
	t.Parallel()
	for name, worst := range map[string]func(){
		"panic": func() { panic("of the test") }, "nil error": func() { panic((*myError)(nil)) }, "Goexit": runtime.Goexit, "nil": func() {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, b := t.Context(), broken{worst: worst}
			o := panics.Observer(b)
			if got := o.Start(ctx, annals.Call{}); got != ctx {
				t.Errorf("Start returned %v, want the context that it was given", got)
			}
			o.End(ctx, annals.Call{}, annals.Result{})
			l := panics.Logger(slog.New(b))
			l.With("a", 1).WithGroup("g").Error("lost")
			l.Error("lost")
		})
	}
}

func TestObserverAndLoggerWork(t *testing.T) {
	t.Parallel()
	if panics.Observer(nil) != nil {
		t.Error("no Observer became one, which costs")
	}
	if o := (returns{}); panics.Observer(o) != o {
		t.Error("an Observer that always returns is not called directly")
	}
	var log bytes.Buffer
	panics.Logger(slog.New(slog.NewTextHandler(&log, nil))).With("a", 1).WithGroup("g").Info("said", "b", 2)
	if want := "msg=said a=1 g.b=2\n"; !bytes.HasSuffix(log.Bytes(), []byte(want)) {
		t.Errorf("logged %q, want %q at its end", log.String(), want)
	}
}
