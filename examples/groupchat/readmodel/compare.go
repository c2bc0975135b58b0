package readmodel

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/examples/groupchat/chat"
)

// Totals are what a comparison has found to be equal.
type Totals struct{ Threads, Members, Messages, Unread int }

// Compare folds the events of every thread in a journal and compares the result with the rows of the read model. The error says what
// differs first. Nobody may write to the journal meanwhile, and the read model must have caught up. threads are those of a journal that
// cannot be asked for its ids.
func (m *Model) Compare(ctx context.Context, journal annals.Store, threads ...string) (Totals, error) {
	var total Totals
	for id, err := range ids(ctx, journal, threads) {
		if err != nil {
			return total, err
		}
		want, err := fold(id, journal.Journal().Replay(ctx, id, 1, math.MaxInt64))
		if err != nil {
			return total, err
		}
		got, err := m.thread(ctx, id.EntityID())
		if err != nil {
			return total, err
		}
		if what := want.difference(got); what != "" {
			return total, fmt.Errorf("the read model differs from the journal: thread %q: %s", id.EntityID(), what)
		}
		total.add(want)
	}
	n := 0
	err := m.in.Read(ctx, func(scan func(...any) error) error { return scan(&n) }, `SELECT count(*) FROM chat_thread WHERE generation = `+currentGeneration)
	if err == nil && n != total.Threads {
		err = fmt.Errorf("the read model differs from the journal: it has %d threads, not %d", n, total.Threads)
	}
	return total, err
}

// ids yields the ids of the threads in a journal.
func ids(ctx context.Context, journal annals.Store, threads []string) iter.Seq2[annals.PersistenceID, error] {
	if journal.Capabilities().IDQueries {
		return journal.Query().IDs(ctx, chat.Behavior.Type, "")
	}
	return func(yield func(annals.PersistenceID, error) bool) {
		for _, thread := range threads {
			if !yield(chat.Behavior.ID(thread), nil) {
				return
			}
		}
	}
}

func (total *Totals) add(t contents) {
	total.Threads += len(t.rows)
	total.Members += len(t.members)
	total.Messages += len(t.messages)
	for _, member := range t.members {
		total.Unread += member.Unread
	}
}

// contents are the rows of one thread.
type contents struct {
	rows     []row // one, or none when the thread was deleted
	members  []Member
	messages []Message
}

// row is a row of chat_thread.
type row struct {
	name                      string
	members, posted, messages int
}

// thread reads what the tables have of a thread.
func (m *Model) thread(ctx context.Context, id string) (c contents, err error) {
	err = m.in.Read(ctx, func(scan func(...any) error) error {
		var r row
		err := scan(&r.name, &r.members, &r.posted, &r.messages)
		c.rows = append(c.rows, r)
		return err
	}, `SELECT name, members, posted, messages FROM chat_thread WHERE generation = `+currentGeneration+` AND thread = $1`, id)
	if err == nil {
		c.members, _, err = m.Members(ctx, id, "", math.MaxInt32)
	}
	if err == nil {
		c.messages, _, err = m.Messages(ctx, id, 0, math.MaxInt32)
	}
	return c, err
}

// fold returns what the tables should have of a thread.
func fold(id annals.PersistenceID, events iter.Seq2[annals.Event, error]) (c contents, err error) {
	state := chat.Behavior.Init(id.EntityID())
	at := map[string]time.Time{} // by message
	for e, err := range events {
		if err != nil {
			return c, err
		}
		v, err := chat.Events.Decode(e.Payload)
		if err != nil {
			return c, err
		}
		if v, ok := v.(chat.Posted); ok {
			at[v.ID] = e.Time
		}
		state = chat.Behavior.Evolve(state, v)
	}
	if state.Deleted {
		return c, nil
	}
	for i, id := range state.Order {
		if m := state.Messages[id]; !m.Deleted {
			c.messages = append(c.messages, Message{chat.Listed{Position: i + 1, ID: id, Sender: m.Sender, Text: m.Text, Edited: m.Edited}, at[id]})
		}
	}
	for _, account := range slices.Sorted(maps.Keys(state.Members)) {
		member := Member{chat.Membership{Account: account, Role: state.Members[account]}, state.Read[account], 0}
		for _, m := range c.messages {
			if m.Position > member.ReadTo && m.Sender != account {
				member.Unread++
			}
		}
		c.members = append(c.members, member)
	}
	c.rows = []row{{state.Name, len(c.members), len(state.Order), len(c.messages)}}
	return c, nil
}

// difference says what differs in got, "" when nothing does.
func (c contents) difference(got contents) string {
	slices.SortFunc(got.members, func(a, b Member) int { return cmp.Compare(a.Account, b.Account) }) // a database may order them otherwise
	switch {
	case !slices.Equal(c.rows, got.rows):
		return fmt.Sprintf("its row is %v, not %v", got.rows, c.rows)
	case !slices.Equal(c.members, got.members):
		return fmt.Sprintf("its members are %v, not %v", got.members, c.members)
	case !slices.Equal(c.messages, got.messages):
		return fmt.Sprintf("its %d messages are not those %d of the journal", len(got.messages), len(c.messages))
	}
	return ""
}
