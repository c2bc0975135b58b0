package pgstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/annals-go/annals"
)

// storableCommit says what the columns would refuse of c.
func (s *backend) storableCommit(c annals.Commit) error {
	for i := range c.Events {
		if err := s.storableEvent(&c.Events[i]); err != nil {
			return invalid(fmt.Errorf("event %d: %w", i+1, err))
		}
	}
	if c.Snapshot != nil {
		if err := storable(s.snapshot, c.Snapshot.Payload, c.Snapshot.Metadata); err != nil {
			return invalid(fmt.Errorf("snapshot: %w", err))
		}
	}
	return nil
}

// maxChars is how many characters the plugins' text columns hold.
const maxChars = 255

func (s *backend) storableEvent(e *annals.NewEvent) error {
	if utf8.RuneCountInString(e.Adapter) > maxChars {
		return fmt.Errorf("the adapter's manifest has more than %d characters", maxChars)
	}
	return storable(s.journal, e.Payload, e.Metadata)
}

// storable says what the columns of t would refuse. p has serializer 0 in a tombstone.
func storable(t *table, p, metadata annals.Payload) error {
	for _, manifest := range []string{p.Manifest, metadata.Manifest} {
		if utf8.RuneCountInString(manifest) > maxChars {
			return fmt.Errorf("a manifest has more than %d characters", maxChars)
		}
	}
	if t.json() && p.SerializerID != 0 && (!json.Valid(p.Data) || !utf8.Valid(p.Data)) {
		return errors.New("the payload is not JSON, but its column is")
	}
	return nil
}
