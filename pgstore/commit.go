package pgstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/annals-go/annals"
)

// commit is an annals.Commit on its way, as the rows it becomes.
type commit struct {
	id       annals.PersistenceID
	after    annals.SeqNr
	writer   string
	events   []annals.NewEvent
	tags     []*string // of each event, as an array's text; nil is NULL. Only of a commit that is kept
	snapshot *annals.Snapshot
	size     int // bytes of payload

	since     time.Time    // when the first attempt went out
	tries     int          // attempts that settled nothing
	deadlocks int          // attempts that the server undid because of other transactions
	maybe     bool         // an attempt may have stored it: its answer never came
	done      chan outcome // buffered: whoever waits may have left
}

type outcome struct {
	receipt annals.Receipt
	err     error
}

// newCommit is c for as long as its caller waits. The zero WriteID becomes a random one, for the store's own retries.
func newCommit(c annals.Commit) *commit {
	w := c.WriteID
	if w.IsZero() {
		w = annals.NewWriteID()
	}
	m := &commit{id: c.ID, after: c.After, writer: w.String(), events: c.Events, snapshot: c.Snapshot}
	for i := range m.events {
		e := &m.events[i]
		m.size += len(e.Data) + len(e.Metadata.Data)
	}
	if c.Snapshot != nil {
		m.size += len(c.Snapshot.Data)
	}
	return m
}

// keep makes m one that others write while its caller may leave: nothing that the caller may change is left in it but bytes.
func (m *commit) keep() {
	m.events = slices.Clone(m.events)
	m.tags = make([]*string, len(m.events))
	for i := range m.events {
		m.tags[i] = arrayText(m.events[i].Tags)
	}
	if m.snapshot != nil {
		s := *m.snapshot
		s.Tags = slices.Clone(s.Tags)
		m.snapshot = &s
	}
	m.done = make(chan outcome, 1)
}

// tagsOf are the tags of event i as an array's text.
func (m *commit) tagsOf(i int) *string {
	if m.tags != nil {
		return m.tags[i]
	}
	return arrayText(m.events[i].Tags)
}

// validate says what the columns do not hold and annals.Commit.Validate does not know of.
func (s *Store) validate(c annals.Commit) error {
	if err := c.Validate(s.limits); err != nil {
		return err
	}
	for i := range c.Events {
		e := &c.Events[i]
		if err := s.storable(s.journal, "event_payload", e.Payload, e.Metadata, e.Adapter); err != nil {
			return invalid("append", c.ID, fmt.Errorf("event %d: %w", i+1, err))
		}
	}
	if c.Snapshot != nil {
		if err := s.storable(s.snapshot, "snapshot", c.Snapshot.Payload, c.Snapshot.Metadata, ""); err != nil {
			return invalid("append", c.ID, fmt.Errorf("snapshot: %w", err))
		}
	}
	return nil
}

// last is the number of the commit's last event.
func (m *commit) last() annals.SeqNr { return m.after + annals.SeqNr(len(m.events)) }

func (m *commit) won(at time.Time) outcome {
	return outcome{receipt: annals.Receipt{SeqNr: m.last(), Time: at.UTC()}}
}

// maxChars is what the plugins' text columns hold.
const maxChars = 255

// storable says what t's columns would refuse, before anything is sent.
func (s *Store) storable(t *table, column string, p, metadata annals.Payload, adapter string) error {
	switch {
	case utf8.RuneCountInString(p.Manifest) > maxChars || utf8.RuneCountInString(metadata.Manifest) > maxChars:
		return fmt.Errorf("a manifest has more than %d characters", maxChars)
	case utf8.RuneCountInString(adapter) > maxChars || !utf8.ValidString(adapter) || strings.ContainsRune(adapter, 0):
		return fmt.Errorf("the adapter's manifest is not valid UTF-8 without U+0000 of at most %d characters", maxChars)
	case t.json(column) && (!json.Valid(p.Data) || !utf8.Valid(p.Data)):
		return errors.New("the payload is not JSON, but its column is")
	}
	return nil
}
