package pgstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/pgstore/internal/wire"
)

// commit is an annals.Commit that is being written.
type commit struct {
	id       annals.PersistenceID
	after    annals.SeqNr
	writer   string
	events   []annals.NewEvent
	latest   time.Time // the latest of the events' own times, zero without any
	tags     []*string // of each event, as the text of an array; nil is NULL. Only of a commit that is kept
	snapshot *annals.Snapshot
	size     int // bytes of payload

	attempts attempts
	done     chan outcome // buffered: the caller may not wait any more
}

type outcome struct {
	receipt annals.Receipt
	err     error
}

// newCommit is c for as long as its caller waits.
func newCommit(c annals.Commit) *commit {
	m := &commit{id: c.ID, after: c.After, writer: c.WriteID.String(), events: c.Events, snapshot: c.Snapshot}
	for i := range m.events {
		e := &m.events[i]
		m.size += len(e.Data) + len(e.Metadata.Data)
		if e.Time.After(m.latest) {
			m.latest = e.Time
		}
	}
	if c.Snapshot != nil {
		m.size += len(c.Snapshot.Data)
	}
	return m
}

// keep copies what the caller may change once its call has returned, so that others can go on writing m.
func (m *commit) keep() {
	m.events = slices.Clone(m.events)
	m.tags = make([]*string, len(m.events))
	for i := range m.events {
		m.tags[i] = wire.TextArray(m.events[i].Tags)
	}
	if m.snapshot != nil {
		s := *m.snapshot
		s.Tags = slices.Clone(s.Tags)
		m.snapshot = &s
	}
	m.done = make(chan outcome, 1)
}

// tagsOf are the tags of event i as the text of an array.
func (m *commit) tagsOf(i int) *string {
	if m.tags != nil {
		return m.tags[i]
	}
	return wire.TextArray(m.events[i].Tags)
}

// timed reports whether events have times of their own.
func (m *commit) timed() bool { return !m.latest.IsZero() }

// single reports whether m is one event whose time is the store's.
func (m *commit) single() bool { return len(m.events) == 1 && !m.timed() }

// last is the number of the commit's last event.
func (m *commit) last() annals.SeqNr { return m.after + annals.SeqNr(len(m.events)) }

// won is the outcome of m when it was stored at that time.
func (m *commit) won(at time.Time) outcome {
	if own := m.events[len(m.events)-1].Time; !own.IsZero() {
		at = own.Truncate(time.Microsecond)
	}
	return outcome{receipt: annals.Receipt{SeqNr: m.last(), Time: at.UTC()}}
}

// ahead is why a commit is not written whose latest event has a time in the future.
func (m *commit) ahead() error {
	return fmt.Errorf("the time of an event is %v, more than %v ahead of the server's clock", m.latest, maxAhead)
}

// free reports whether o, of a look-up, says that m's number is not taken.
func (m *commit) free(o outcome) bool {
	e := (*annals.Error)(nil)
	return errors.As(o.err, &e) && e.Last == m.after
}

// storableCommit says what the columns would refuse of c.
func (s *backend) storableCommit(c annals.Commit) error {
	for i := range c.Events {
		if err := s.storableEvent(&c.Events[i]); err != nil {
			return invalid(fmt.Errorf("event %d: %w", i+1, err))
		}
	}
	if c.Snapshot != nil {
		if err := storable(s.snapshot, "snapshot", c.Snapshot.Payload, c.Snapshot.Metadata); err != nil {
			return invalid(fmt.Errorf("snapshot: %w", err))
		}
	}
	return nil
}

// maxChars is how many characters the plugins' text columns hold.
const maxChars = 255

func (s *backend) storableEvent(e *annals.NewEvent) error {
	switch y := e.Time.Year(); {
	case utf8.RuneCountInString(e.Adapter) > maxChars:
		return fmt.Errorf("the adapter's manifest has more than %d characters", maxChars)
	case y < 1 || y > 9999:
		return fmt.Errorf("its time is in the year %d", y)
	}
	return storable(s.journal, "event_payload", e.Payload, e.Metadata)
}

// storable says what the columns of t would refuse.
func storable(t *table, column string, p, metadata annals.Payload) error {
	if err := manifestsFit(p, metadata); err != nil {
		return err
	}
	if t.json(column) && (!json.Valid(p.Data) || !utf8.Valid(p.Data)) {
		return errors.New("the payload is not JSON, but its column is")
	}
	return nil
}

func manifestsFit(payloads ...annals.Payload) error {
	for _, p := range payloads {
		if utf8.RuneCountInString(p.Manifest) > maxChars {
			return fmt.Errorf("a manifest has more than %d characters", maxChars)
		}
	}
	return nil
}
