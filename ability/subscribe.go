package ability

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
)

// Subscriber is an optional ability of a Store that can push events. It keeps for each name what was acknowledged, in
// shards of the store's choice. Events of an entity may be in several shards: then a loop can get events that another loop has, too, or has acknowledged.
// One of them can acknowledge them.
type Subscriber interface {
	// Subscribe yields deliveries of the events that fit f and are not acknowledged under name, at least once each, and waits for more. A new
	// name begins with the oldest events that the store can push. Loops of one name, in any processes, share the work: each shard is
	// delivered to one of them at a time. They must have the filter that the name began with (ErrInvalid), without After, Behind and Limit.
	//
	// As in Replay an error comes once, last: ErrUnavailable when ctx ends, ErrClosed, or what the store could not repeat. Nothing is
	// held while the body runs.
	Subscribe(ctx context.Context, name string, f annals.Filter) iter.Seq2[Delivery, error]
}

// Delivery is some events of one shard. Those of each entity follow each other in the order of their numbers, also from one delivery of the
// shard to the next. A loop may have deliveries of several shards at the same time, at most one of each.
type Delivery struct {
	Events []annals.Event // at least one
	// Ack says that Events have been handled. Nothing else does, and the shard's next delivery comes after that. The loop may ask for
	// deliveries of other shards before, and acknowledge them in any order. When the loop has ended, or its process has stopped, its
	// shards are delivered to others, from what was not acknowledged. Then Ack is ErrFenced, as it is when another loop has acknowledged events of
	// these entities. It can be repeated, and called from any goroutine.
	Ack func(ctx context.Context) error
}
