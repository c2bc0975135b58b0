package readmodel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqltx"
)

// updater keeps a generation up to date from a store that pushes its events (ability.Subscriber). The store delivers an event again when the
// updater ended before it acknowledged the event. So each transaction also keeps the number of the last event of each thread, and
// events up to that number are left out.
type updater struct {
	model      *Model
	journal    ability.Subscriber
	generation int64
	log        *slog.Logger
}

// subscriber returns the journal as an ability.Subscriber. ok is false when the journal can be queried: then a projection follows it.
func subscriber(journal annals.Store) (s ability.Subscriber, ok bool) {
	s, err := ability.Of[ability.Subscriber](journal)
	return s, err == nil && !journal.Capabilities().EventQueries
}

func (m *Model) updater(journal ability.Subscriber, generation int64, o projection.Options) updater {
	log := o.Logger
	if log == nil {
		log = slog.Default()
	}
	return updater{m, journal, generation, log}
}

// retryAfter is how long an updater waits after an error.
const retryAfter = 500 * time.Millisecond

// run handles events until ctx ends, and returns nil then. After an error it begins again with the events that are not acknowledged. It
// ends with an error only when the store is closed or cannot push events. Updaters of a generation share the work.
func (u updater) run(ctx context.Context) error {
	for {
		err := u.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, annals.ErrClosed) || errors.Is(err, annals.ErrUnsupported):
			return err
		}
		u.log.Warn("the read model reads events again after", slog.Int64("generation", u.generation), slog.Any("error", err))
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
		}
	}
}

func (u updater) follow(ctx context.Context) error {
	name, err := u.model.subscription(ctx, u.generation)
	if err != nil {
		return err
	}
	for delivery, err := range u.journal.Subscribe(ctx, name, annals.Filter{Type: chat.Behavior.Type}) {
		if err == nil {
			err = u.update(ctx, delivery.Events)
		}
		if err == nil {
			err = delivery.Ack(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// update handles events, and keeps their numbers, in one transaction.
func (u updater) update(ctx context.Context, events []annals.Event) error {
	return u.model.inTx(ctx, func(ctx context.Context, tx sqltx.Tx) error {
		for _, e := range events {
			v, err := chat.Events.Decode(e.Payload)
			if err != nil {
				return err
			}
			next, err := count(ctx, tx, u.generation, e)
			if err != nil {
				return err
			}
			if !next {
				continue
			}
			if err := handle(ctx, tx, u.generation, projection.Envelope[chat.Event]{Event: e, Value: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	countFirst = `INSERT INTO chat_handled (generation, thread, number) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
	countNext  = `UPDATE chat_handled SET number = $3 WHERE generation = $1 AND thread = $2 AND number = $3 - 1`
	isCounted  = `UPDATE chat_handled SET number = number WHERE generation = $1 AND thread = $2 AND number >= $3`
)

// count keeps the number of e, if e is the next event of its thread. It reports false for an event that was handled before. An event after
// one that was not handled is an error.
func count(ctx context.Context, tx sqltx.Tx, generation int64, e annals.Event) (next bool, err error) {
	try := countNext
	if e.SeqNr == 1 {
		try = countFirst
	}
	for _, text := range []string{try, isCounted} {
		n, err := tx.Exec(ctx, text, generation, e.ID.EntityID(), int64(e.SeqNr))
		if err != nil {
			return false, err
		}
		if n == 1 {
			return text == try, nil
		}
	}
	return false, fmt.Errorf("read model, generation %d, thread %q: event %d came without event %d; rebuild the read model",
		generation, e.ID.EntityID(), e.SeqNr, e.SeqNr-1)
}

// handled returns the number of the last event of each thread that a generation has handled.
func (m *Model) handled(ctx context.Context, generation int64) (map[string]int64, error) {
	numbers := map[string]int64{}
	err := m.in.Read(ctx, func(scan func(...any) error) error {
		var thread string
		var n int64
		err := scan(&thread, &n)
		numbers[thread] = n
		return err
	}, `SELECT thread, number FROM chat_handled WHERE generation = $1`, generation)
	return numbers, err
}

// subscription is the name under which the updaters of a generation subscribe. A read model in another database has other names, because
// it has not handled what this one has acknowledged.
func (m *Model) subscription(ctx context.Context, generation int64) (name string, err error) {
	err = m.in.Read(ctx, func(scan func(...any) error) error { return scan(&name) }, `SELECT name FROM chat_subscription`)
	return fmt.Sprintf("%s-%s", projectionOf(generation), name), err
}
