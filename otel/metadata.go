package annalsotel

import (
	"bytes"
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
)

// manifest is that of metadata which has a trace context only.
const manifest = "annals.trace"

// w3c is the propagation of the W3C Trace Context: traceparent and tracestate.
var w3c propagation.TraceContext

// Metadata returns a function for Options.Metadata of a host. It adds the trace context of the command to what own returns, which is the program's own metadata. Without a
// span there is nothing to add.
//
// With own, and metadata that is a JSON object (codec.JSON of a struct or a map), the object gets the members "traceparent" and "tracestate", which the codec of
// the program leaves out when it decodes. Metadata in another format, or with a member traceparent of its own, and an empty Payload, are returned as own made them: there the
// program stores Headers(ctx) in a field of its own, and Options.Headers finds them. own may be nil: then the metadata has the trace context alone, with the
// manifest "annals.trace".
func (t *Telemetry) Metadata(own func(ctx context.Context) (annals.Payload, error)) func(ctx context.Context) (annals.Payload, error) {
	return func(ctx context.Context) (p annals.Payload, err error) {
		if own != nil {
			if p, err = own(ctx); err != nil {
				return p, err
			}
		}
		var of carrier
		if w3c.Inject(ctx, &of); of.Traceparent == "" {
			return p, nil
		}
		if own == nil {
			p = annals.Payload{SerializerID: codec.JSONSerializer, Manifest: manifest, Data: []byte("{}")}
		}
		added, err := json.Marshal(&of)
		if err != nil {
			return p, err
		}
		if data := bytes.TrimSpace(p.Data); p.SerializerID == codec.JSONSerializer && isObject(data) && !bytes.Contains(bytes.ToLower(data), []byte(`"traceparent"`)) {
			merged := append(make([]byte, 0, len(data)+len(added)), data[:len(data)-1]...)
			if len(bytes.TrimSpace(data[1:len(data)-1])) > 0 {
				merged = append(merged, ',')
			}
			p.Data = append(merged, added[1:]...)
		}
		return p, nil
	}
}

func isObject(data []byte) bool { return len(data) >= 2 && data[0] == '{' && data[len(data)-1] == '}' }

// Headers returns the W3C trace context of the span in ctx, traceparent and tracestate; nil without one.
func Headers(ctx context.Context) map[string]string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	headers := propagation.MapCarrier{}
	w3c.Inject(ctx, headers)
	return headers
}

// Context returns ctx with the span that has written an event with this metadata, as a remote parent: what a handler does for one event can be part of the trace of
// that event. It is ctx when the metadata has no trace context.
func (t *Telemetry) Context(ctx context.Context, metadata annals.Payload) context.Context {
	if of := t.writer(metadata); of.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, of)
	}
	return ctx
}

// writer is the span that has written an event with metadata.
func (t *Telemetry) writer(metadata annals.Payload) trace.SpanContext {
	if metadata.SerializerID == codec.JSONSerializer && bytes.Contains(metadata.Data, []byte(`"traceparent"`)) {
		var of carrier
		if json.Unmarshal(metadata.Data, &of) == nil && of.Traceparent != "" {
			return trace.SpanContextFromContext(w3c.Extract(context.Background(), &of))
		}
	}
	if metadata.SerializerID == 0 || t.o.Headers == nil {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(w3c.Extract(context.Background(), propagation.MapCarrier(t.o.Headers(metadata))))
}

// carrier has the trace context in JSON.
type carrier struct {
	Traceparent string `json:"traceparent"`
	Tracestate  string `json:"tracestate,omitempty"`
}

func (c *carrier) field(key string) *string {
	if key == "traceparent" {
		return &c.Traceparent
	}
	return &c.Tracestate
}

func (c *carrier) Get(key string) string { return *c.field(key) }
func (c *carrier) Set(key, value string) { *c.field(key) = value }
func (c *carrier) Keys() []string        { return w3c.Fields() }
