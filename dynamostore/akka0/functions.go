package akka0

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/quote"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Confirmation says that a channel has delivered an event.
type Confirmation struct {
	SeqNr   annals.SeqNr
	Channel string
}

// Confirm adds confirmations to events of id. Each event is given its own only; a confirmation that it has already changes nothing. Events
// that do not exist are left out; those marked as deleted are not. The events are updated one after the other, so an error may leave some
// of them updated: Confirm may be repeated. A number below 1 or an empty Channel is ErrInvalid.
func Confirm(ctx context.Context, s annals.Store, id annals.PersistenceID, confirmations ...Confirmation) error {
	return plan.Run(ctx, s, plan.Function{Op: "confirm", ID: id, Writes: true, Run: plan.OnJournal(func(ctx context.Context, j *journal) error {
		return j.confirm(ctx, id, confirmations)
	})})
}

// Messages yields the events from ≤ SeqNr ≤ to as Journal.Replay does, with those that are marked as deleted, and with their
// confirmations.
func Messages(ctx context.Context, s annals.Store, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[Message, error] {
	return plan.Each(ctx, s, plan.Function{Op: "read messages", ID: id}, func(ctx context.Context, j *journal) iter.Seq2[Message, error] {
		return j.messages(ctx, id, max(from, 1), to)
	})
}

// Delete deletes single events of id. If permanent is set, Delete removes them, also those marked as deleted; otherwise Delete marks
// them as deleted. Events that do not exist are left out. The events are deleted one after the other, so an error may leave some of them deleted:
// Delete may be repeated. A number below 1 is ErrInvalid.
func Delete(ctx context.Context, s annals.Store, id annals.PersistenceID, permanent bool, numbers ...annals.SeqNr) error {
	return plan.Run(ctx, s, plan.Function{Op: "delete events", ID: id, Writes: true, Run: plan.OnJournal(func(ctx context.Context, j *journal) error {
		numbers := slices.Compact(slices.Sorted(slices.Values(numbers)))
		if len(numbers) > 0 && numbers[0] < 1 {
			return &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("there is no event %d", numbers[0])}
		}
		return deletion{j, id, permanent, 0}.run(ctx, j.at(ctx, id, numbers))
	})})
}

// Lowest returns the number at which the plugin begins when it deletes up to a number; 0 if nothing was deleted. It is the lowest number of
// the deleted events that the table has counters of, and not the first event that is left.
func Lowest(ctx context.Context, s annals.Store, id annals.PersistenceID) (lowest annals.SeqNr, err error) {
	err = plan.Run(ctx, s, plan.Function{Op: "read the lowest number", ID: id, Run: plan.OnJournal(func(ctx context.Context, j *journal) error {
		_, low, err := j.Read(ctx, j.x, id, akkakeys.Low)
		if err == nil && len(low) > 0 {
			lowest = slices.Min(low)
		}
		return err
	})})
	return lowest, err
}

func (j *journal) confirm(ctx context.Context, id annals.PersistenceID, confirmations []Confirmation) error {
	channels := map[annals.SeqNr][]string{}
	for _, c := range confirmations {
		if c.SeqNr < 1 || c.Channel == "" {
			return &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("the confirmation of event %d by channel %s", c.SeqNr, quote.Text(c.Channel))}
		}
		if !slices.Contains(channels[c.SeqNr], c.Channel) {
			channels[c.SeqNr] = append(channels[c.SeqNr], c.Channel)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(channels)) {
		_, err := plan.Try(ctx, j.x, plan.Op{Table: j.Table, Key: j.event(id, n), Update: "ADD #confirmations :channels", Condition: "attribute_exists(#payload)",
			Names: map[string]string{"#confirmations": confirmationsName, "#payload": payloadName}, Values: plan.Item{":channels": &types.AttributeValueMemberSS{Value: channels[n]}}})
		if err != nil {
			return err
		}
	}
	return nil
}
