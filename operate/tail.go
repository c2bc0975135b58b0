package operate

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/query"
)

func (v eventView) print(w io.Writer) { v.line(w, "", name(string(v.ID))+"  ") }

func (o *options) tailCommand() *cobra.Command {
	c := &cobra.Command{Use: "tail", Short: "Show the newest events of all entities",
		Long: "Show the newest events, in the order in which the store shows them; with --follow new ones as they come, also after the store has failed for a while.\n\nWith --json each event is a line of its own."}
	f := c.Flags()
	follow := f.BoolP("follow", "f", false, "go on with new events until it is interrupted")
	kind := f.String("type", "", "only entities of this type")
	tag := f.String("tag", "", "only events with this tag")
	after := f.String("after", "10m", "begin so long ago, or after this time (RFC 3339); 0 is the first event")
	limit := f.Int("limit", 0, "end after so many events; 0 is no limit")
	payloads := newPayloadFlags(c)
	o.completeType(c)
	return o.command(c, func(k *call) error {
		if *limit < 0 {
			return usage("--limit is 0 or more")
		}
		from, err := since(*after)
		if err != nil {
			return err
		}
		s, shows, err := payloads.open(k)
		if err != nil {
			return err
		}
		filter := annals.Filter{Type: *kind, Tag: *tag, After: annals.Offset{Time: from}, Limit: *limit}
		events := k.there(s, filter)
		if *follow {
			events = query.Events(k.ctx, s, filter, query.Options{OnRetry: func(err error, _ int) {
				k.progress("waiting for the store: %s", line(k.redacted(plain(err)), 200))
			}})
		}
		for e, err := range events {
			if err == nil {
				err = k.emit(k.viewOf(e, shows, false))
			}
			if *follow && k.ctx.Err() != nil {
				return nil // an interrupt is how it ends
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// there yields the events that fit f and are there. The first error ends it, where package query would try again for as long as the store fails.
func (a *answer) there(s annals.Store, f annals.Filter) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		ctx, fail := context.WithCancelCause(a.ctx)
		defer fail(nil)
		for e, err := range query.Events(ctx, s, f, query.Options{Current: true, OnRetry: func(err error, _ int) { fail(err) }}) {
			if cause := context.Cause(ctx); err != nil && cause != nil {
				err = cause
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// since reads a time, or how long ago it was; 0 is the zero time.
func since(text string) (time.Time, error) {
	if text == "0" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, usage("%s is neither a time such as 2026-11-27T18:00:00Z nor a duration such as 90m", name(text))
	}
	return t, nil
}
