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

// Confirm adds to events of id the channels that have delivered them, by the numbers of the events. A channel that an event has already changes
// nothing. Events that do not exist are left out; those marked as deleted are not. The events are updated one after the other, so an error may
// leave some of them updated: Confirm may be repeated. A number below 1 or an empty channel is ErrInvalid.
func Confirm(ctx context.Context, s annals.Store, id annals.PersistenceID, channels map[annals.SeqNr][]string) error {
	return plan.Run(ctx, s, plan.Function{Op: "confirm", ID: id, Writes: true, Run: plan.OnJournal(func(ctx context.Context, j *journal) error {
		return j.confirm(ctx, id, channels)
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

func (j *journal) confirm(ctx context.Context, id annals.PersistenceID, channels map[annals.SeqNr][]string) error {
	numbers := slices.Sorted(maps.Keys(channels))
	for _, n := range numbers {
		for _, channel := range channels[n] {
			if n < 1 || channel == "" {
				return &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("the confirmation of event %d by channel %s", n, quote.Text(channel))}
			}
		}
	}
	for _, n := range numbers {
		if len(channels[n]) == 0 {
			continue
		}
		_, err := plan.Try(ctx, j.x, plan.Op{Table: j.Table, Key: j.event(id, n), Update: "ADD #confirmations :channels", Condition: "attribute_exists(#payload)",
			Names:  map[string]string{"#confirmations": confirmationsName, "#payload": payloadName},
			Values: plan.Item{":channels": &types.AttributeValueMemberSS{Value: distinct(channels[n])}}})
		if err != nil {
			return err
		}
	}
	return nil
}

// distinct are names in their order, each once.
func distinct(names []string) (all []string) {
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}
