// Package outlet publishes events to message brokers: Kafka, AMQP, Google Cloud Pub/Sub, NATS, SNS and others, each through its Watermill
// publisher. It is a handler for a grouped projection, which has the events in order and remembers how far they have been published.
//
// An event is published at least once. After a crash, or when a publisher fails, some events are published again; the message then has
// the same UUID. The messages of an entity are published in the order of their numbers, also to different topics, where a repeat begins
// again with an earlier number. The persistence id is the ordering key: a broker with partitions keeps the order only when the publisher
// is given OrderingKey.
//
// Durable states (projection.Source.States) are published as events are. The message of a deleted state has no payload, and serializer id 0.
//
// Package outlet is a module of its own, so that programs without a broker do not depend on Watermill.
package outlet

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/projection"
)

// Options of Handler. The zero value publishes every event as stored.
type Options[E any] struct {
	// Edit changes the message of an event before it is published: it can replace the payload, which is as stored, and add or replace
	// headers, such as a correlation id from the metadata of the event. An error fails the event as an error of the publisher does. nil
	// changes nothing.
	Edit func(e projection.Envelope[E], m *message.Message) error
	// SkipRebuilding leaves out events with projection.Envelope.Rebuilding. false: after projection.Control.Reset the events that come again are
	// published again, with the same UUIDs, which is why an outlet is reset as a rule.
	SkipRebuilding bool
}

// Handler returns a handler for projection.AtLeastOnceGrouped which publishes the events of a group. topic names the topic of an event;
// an event with the topic "" is not published. Topic and Options.Edit are called from many goroutines at once.
//
// Messages with the same topic are one call of Publish, in the order of the events. They are several calls when an entity's events go to
// this topic, then to another and then to this one again, so that no message is published before an earlier one of its entity. The size
// of a group is at most projection.Options.BatchSize. The handler returns when the publisher has accepted all messages, so the publisher
// must be synchronous: one that only queues messages loses them in a crash. Publish has no context of its own; the messages have the one
// of the handler. A publisher that ignores it must have a time-out, because the projection waits for it.
//
// An error of the publisher, or of Edit, is returned, and the projection then calls the handler again with single events, until
// projection.Options.OnError decides otherwise: by default an event is published again and again, and the later events of its range
// wait. With projection.Park only the later events of its entity wait.
//
// The error is annals.ErrInvalid without a publisher or topic.
func Handler[E any](publisher message.Publisher, topic func(e projection.Envelope[E]) string, o Options[E]) (func(ctx context.Context, es []projection.Envelope[E]) error, error) {
	if publisher == nil || topic == nil {
		return nil, &annals.Error{Kind: annals.ErrInvalid, Op: "outlet", Err: errors.New("a publisher and a topic are required")}
	}
	return func(ctx context.Context, es []projection.Envelope[E]) error {
		var batches []batch
		newest := map[string]int{}               // topic to its last batch
		placed := map[annals.PersistenceID]int{} // entity to the batch of its last message
		for _, e := range es {
			if e.Rebuilding && o.SkipRebuilding {
				continue
			}
			name := topic(e)
			if name == "" {
				continue
			}
			m := newMessage(ctx, e.Event)
			if o.Edit != nil {
				if err := o.Edit(e, m); err != nil {
					return fmt.Errorf("outlet: message of event %d of %.256q: %w", e.SeqNr, e.ID, err)
				}
			}
			at, ok := newest[name]
			if !ok || at < placed[e.ID] {
				at = len(batches)
				batches = append(batches, batch{topic: name})
			}
			newest[name], placed[e.ID] = at, at
			batches[at].messages = append(batches[at].messages, m)
		}
		for _, b := range batches {
			if err := publisher.Publish(b.topic, b.messages...); err != nil {
				return fmt.Errorf("outlet: publish %d messages to topic %.256q: %w", len(b.messages), b.topic, err)
			}
		}
		return nil
	}, nil
}

// batch is what one call of Publish publishes. A message is in the same batch as the message before it of its entity, or in a later one.
type batch struct {
	topic    string
	messages []*message.Message
}
