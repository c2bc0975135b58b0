package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/stream"
	"github.com/annals-go/annals/dynamostore/internal/subscription"
)

// Subscriptions make a Store an ability.Subscriber of the events in its table, through the table's stream (DynamoDB Streams). The stream must
// have new images; Open gives one to a table that it creates.
//
// A new name begins with all events that are in the table. A name has up to 1,000 bytes. Its shards are those of the stream, and 8 parts of the table
// before. A delivery has up to 100 events.
//
// A loop goes on without entities that it cannot read (see Store.ParkedEntities). It ends with an error when requests have been refused for five
// minutes, and at once when items of the subscription cannot be read, or 1,000 entities are parked.
//
// An acknowledgement is one transaction. It takes two write units for each entity in the delivery, and two for the shard. Events that are
// deleted before they are delivered may be left out.
type Subscriptions struct {
	// Table keeps what was acknowledged, for all subscriptions of any stores of the same layout and tables; "" is no subscriptions.
	// Open creates it where Options.CreateTables says so.
	Table string
	// Lease is how long a process may show no sign of life until the others take its shards; at least 10 ms; 0 is 10 seconds. Each loop
	// writes one item, and reads those of its subscription, three times in a lease.
	Lease   time.Duration
	Streams StreamsClient // a *dynamodbstreams.Client, preferably from NewStreamsClient; required where Table is set
}

const (
	defaultLease = 10 * time.Second
	leastLease   = 10 * time.Millisecond
)

// fault says what is wrong with s for a layout's offer.
func (s Subscriptions) fault(offer plan.Offer) error {
	switch {
	case s.Table == "":
		if s.Lease != 0 || s.Streams != nil {
			return errors.New("Subscriptions has no Table")
		}
		return nil
	case offer.Feed == nil:
		return errors.New("Subscriptions is set, and the stream of the layout's tables does not tell of events")
	case s.Lease != 0 && s.Lease < leastLease:
		return fmt.Errorf("Subscriptions.Lease is %v, less than %v", s.Lease, leastLease)
	case slices.ContainsFunc(offer.Tables, func(t plan.Table) bool { return t.Name == s.Table }):
		return fmt.Errorf("Subscriptions.Table %q is a table of the layout", s.Table)
	}
	return nil
}

// openSubscriptions prepares the table of subscriptions, and checks that the events have a stream.
func (s *Store) openSubscriptions(ctx context.Context, o Options) error {
	if o.Subscriptions.Table == "" {
		return nil
	}
	if o.Subscriptions.Streams == nil {
		return errors.New("Subscriptions.Streams is nil")
	}
	feed := s.offer.Feed
	if _, err := s.engine.streamOf(ctx, feed.Table); err != nil {
		return err
	}
	table := subscription.Table(o.Subscriptions.Table)
	if err := s.openTables(ctx, []plan.Table{table}, nil, o); err != nil {
		return err
	}
	s.subscriptions = subscription.New(subscription.Source{Executor: s.engine, Journal: s.offer.On(s.engine).Journal, Feed: feed, Table: table.Name,
		Stream: feedStream{streams{s.engine, o.Subscriptions.Streams}, feed.Table}, Lease: cmp.Or(o.Subscriptions.Lease, defaultLease)})
	return nil
}

// feedStream is the subscription.Stream of a table.
type feedStream struct {
	streams
	table string
}

func (f feedStream) Name(ctx context.Context) (string, error) { return f.streamOf(ctx, f.table) }

func (f feedStream) Shards(ctx context.Context, name, after string) (page []stream.Shard, next string, err error) {
	return stream.Shards(ctx, f.streams, name, after)
}

func (f feedStream) Reader(name, shard, after string) subscription.Reader {
	return stream.NewReader(f.streams, name, shard, after)
}

// ParkedEntity is an entity with events that a subscription cannot read, so that it goes on without them.
type ParkedEntity struct {
	ID    annals.PersistenceID
	From  annals.SeqNr // the first number that is not delivered; the item that cannot be read has this number or a later one
	Error string       // why
	Since time.Time    // when a loop noticed it, by the clock of its process
}

// ParkedEntities returns the parked entities of a subscription, in no order: those that have an item of annals.ErrCorrupt, a hole, or an item of a later
// version of Annals. An entity is not parked any more when its events from From on are acknowledged. The error is ErrUnsupported without
// Options.Subscriptions. A name without a subscription has no parked entities.
func (s *Store) ParkedEntities(ctx context.Context, subscription string) (parked []ParkedEntity, err error) {
	if s.subscriptions == nil {
		return nil, errNoSubscriptions("list parked entities")
	}
	err = driver.Read(ctx, s.Store, annals.Call{Op: "list parked entities"}, func(ctx context.Context) error {
		return driver.Fetch(ctx, func(ctx context.Context) error {
			all, err := s.subscriptions.Parked(ctx, subscription)
			for _, p := range all {
				parked = append(parked, ParkedEntity(p))
			}
			return err
		})
	})
	return parked, err
}

func errNoSubscriptions(op string) error {
	return &annals.Error{Op: op, Kind: annals.ErrUnsupported, Err: errors.New("the store has no Options.Subscriptions")}
}

// RetryParked orders that a subscription reads the events of all parked entities again, after the items in the tables have been put right. It
// does not wait for that: the loops begin a new round of catching up (see docs/stores/dynamodb.md). What still cannot be read is parked again.
// The error is ErrUnsupported without Options.Subscriptions, and ErrInvalid when there is no subscription of this name.
func (s *Store) RetryParked(ctx context.Context, subscription string) error {
	const op = "retry parked entities"
	if s.subscriptions == nil {
		return errNoSubscriptions(op)
	}
	return driver.Write(ctx, s.Store, annals.Call{Op: op}, func(ctx context.Context) error { return s.subscriptions.Retry(ctx, subscription) })
}

// Subscribe is ability.Subscriber.
func (v view) Subscribe(ctx context.Context, name string, f annals.Filter) iter.Seq2[ability.Delivery, error] {
	return v.s.subscriptions.Subscribe(ctx, name, f)
}
