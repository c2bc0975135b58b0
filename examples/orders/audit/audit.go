// Package audit says who caused a change, and in which request. The record is stored as the metadata of events and states.
package audit

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
)

// Record is the metadata of a change.
type Record struct {
	User        string
	Correlation string // the request that started everything
	Causation   string // what caused this change directly
}

// Records is the codec of a Record. Any is the same for behaviors.
var (
	Records = codec.JSON[Record]("audit.record")
	Any     = codec.Union[any](Records)
)

type key struct{}

// With is ctx for the commands that r is about.
func With(ctx context.Context, r Record) context.Context { return context.WithValue(ctx, key{}, r) }

// Of is the Record of ctx, the zero Record if there is none.
func Of(ctx context.Context) Record {
	r, _ := ctx.Value(key{}).(Record)
	return r
}

// Metadata is what entity.Options.Metadata and aggregate.Options.Metadata want: the same function for events and states.
func Metadata(ctx context.Context) (annals.Payload, error) { return Records.Encode(Of(ctx)) }
