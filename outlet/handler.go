// Package outlet publishes events to message brokers: Kafka, AMQP, Google Cloud Pub/Sub, NATS, SNS and others, each through its Watermill
// publisher. It is a handler for a grouped projection, which has the events in order and remembers how far they have been published.
//
// An event is published at least once. After a crash, or when a publisher fails, some events are published again; the message then has
// the same UUID. The messages of an entity are published in the order of their numbers, where a repeat begins again with an earlier
// number. The persistence id is the ordering key: a broker with partitions keeps the order only when the publisher is given OrderingKey.
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
}

// Handler returns a handler for projection.AtLeastOnceGrouped which publishes the events of a group. topic names the topic of an event;
// an event with the topic "" is not published. Topic and Options.Edit are called from many goroutines at once.
//
// Messages with the same topic are one call of Publish, in the order of the events; the size of a group is at most
// projection.Options.BatchSize. The handler returns when the publisher has accepted all messages, so the publisher must be
// synchronous: one that only queues messages loses them in a crash. Publish has no context of its own; the messages have the one of
// the handler. A publisher that ignores it must have a time-out, because the projection waits for it.
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
		var topics []string // in the order of their first events
		batches := map[string][]*message.Message{}
		for _, e := range es {
			name := topic(e)
			if name == "" {
				continue
			}
			m := newMessage(ctx, e.Event)
			if o.Edit != nil {
				if err := o.Edit(e, m); err != nil {
					return fmt.Errorf("outlet: message of event %d of %s: %w", e.SeqNr, annals.Quote(string(e.ID)), err)
				}
			}
			if batches[name] == nil {
				topics = append(topics, name)
			}
			batches[name] = append(batches[name], m)
		}
		for _, name := range topics {
			if err := publisher.Publish(name, batches[name]...); err != nil {
				return fmt.Errorf("outlet: publish %d messages to topic %s: %w", len(batches[name]), annals.Quote(name), err)
			}
		}
		return nil
	}, nil
}
