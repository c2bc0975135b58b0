// Package valid says what is wrong with the arguments of a call to a store: nil, ErrInvalid or ErrTooLarge. Package driver asks it in front of
// each driver, and hosts ask it before they answer a command. An op "" is for callers that name their errors later.
package valid

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/progress"
	"github.com/annals-go/annals/internal/quote"
)

// ErrReadOnly refuses what would write to a store that is open for reading only.
var ErrReadOnly error = &annals.Error{Kind: annals.ErrUnsupported, Err: errors.New("the store is open for reading only (Options.ReadOnly)")}

// maxFaults is how many events of a commit an error names.
const maxFaults = 10

// Commit says what is wrong with c for a store with limits l: everything at once, of ten events at most.
func Commit(c annals.Commit, l annals.Limits) error {
	var faults []error // stays nil for a valid Commit, so that nothing is allocated
	if fault := errors.Join(idFault(c.ID, l), reservedFault(c.ID)); fault != nil {
		faults = append(faults, fault)
	}
	size := 0
	if c.After < 0 || c.After > annals.MaxSeqNr-annals.SeqNr(len(c.Events)) {
		faults = append(faults, fmt.Errorf("After is %d", c.After))
	}
	if len(c.Events) == 0 {
		faults = append(faults, errors.New("there are no events"))
	}
	wrong := 0
	for i := range c.Events {
		e := &c.Events[i]
		size += EventSize(e)
		if fault := eventFault(e); fault != nil {
			if wrong++; wrong <= maxFaults {
				faults = append(faults, fmt.Errorf("event %d: %w", i+1, fault))
			}
		}
	}
	if wrong > maxFaults {
		faults = append(faults, fmt.Errorf("and %d further events", wrong-maxFaults))
	}
	if s := c.Snapshot; s != nil {
		size += snapshotSize(s)
		if s.ID != c.ID || s.SeqNr != c.After+annals.SeqNr(len(c.Events)) {
			faults = append(faults, errors.New("the snapshot is not of the state after the last event"))
		}
		faults = append(faults, snapshotFault(s))
	}
	if l.FirstSnapshot && c.After == 0 && c.Snapshot == nil {
		faults = append(faults, errors.New("the store wants a snapshot with the first commit"))
	}
	return cmp.Or(invalid("append", c.ID, faults...), tooLarge("append", c.ID, len(c.Events), size, l))
}

// StateWrite says what is wrong with w for a store with limits l. A deleting write has no payload; op is "put state" or "delete state".
func StateWrite(op string, w annals.StateWrite, l annals.Limits) error {
	faults := []error{idFault(w.ID, l), tagFault(w.Tags), metadataFault(w.Metadata)}
	size, events := tagBytes(w.Tags)+payloadSize(&w.Metadata), 0
	if w.After < 0 || w.After == annals.MaxSeqNr {
		faults = append(faults, fmt.Errorf("After is %d", w.After))
	}
	if op != "delete state" {
		size += payloadSize(&w.Payload)
		faults = append(faults, payloadFault(w.Payload))
	}
	if w.Event != nil {
		events = 1
		faults = append(faults, reservedFault(w.ID))
		size += EventSize(w.Event)
		faults = append(faults, eventFault(w.Event))
	}
	return cmp.Or(invalid(op, w.ID, faults...), tooLarge(op, w.ID, events, size, l))
}

// Snapshot says what is wrong with s for a store with limits l.
func Snapshot(s annals.Snapshot, l annals.Limits) error {
	faults := []error{idFault(s.ID, l), reservedFault(s.ID), snapshotFault(&s)}
	if s.SeqNr < 1 {
		faults = append(faults, fmt.Errorf("SeqNr is %d", s.SeqNr))
	}
	return cmp.Or(invalid("save snapshot", s.ID, faults...), tooLarge("save snapshot", s.ID, 0, snapshotSize(&s), l))
}

// Skip says what is wrong with an id, the last number and the number to skip to, for a store with limits l. op is "skip" or "skip state".
func Skip(op string, id annals.PersistenceID, after, n annals.SeqNr, l annals.Limits) error {
	var number error
	if after < 0 || n <= after || n >= annals.MaxSeqNr {
		number = fmt.Errorf("the number to skip to is %d, after %d", n, after)
	}
	return invalid(op, id, idFault(id, l), number)
}

// ID says what is wrong with id for a store with limits l. op is the operation that reads or deletes it.
func ID(op string, id annals.PersistenceID, l annals.Limits) error {
	return invalid(op, id, idFault(id, l))
}

// SnapshotDelete is ID for SnapshotStore.Delete, which also demands an upper bound.
func SnapshotDelete(id annals.PersistenceID, c annals.SnapshotCriteria, l annals.Limits) error {
	var unbounded error
	if c.MaxSeqNr == 0 && c.MaxTime.IsZero() {
		unbounded = errors.New("the criteria have no upper bound")
	}
	return invalid("delete snapshots", id, idFault(id, l), unbounded)
}

// Progress says what is wrong with p for a store with limits l. op is the operation that p, or a part of it, is for.
func Progress(op string, p annals.Progress, l annals.Limits) error {
	faults := []error{nameFault("projection", p.Projection), sliceFault(p.Slices)}
	if p.Epoch < 0 {
		faults = append(faults, fmt.Errorf("the epoch is %d", p.Epoch))
	}
	for _, o := range p.Offsets {
		fault := idFault(o.ID, l)
		if fault == nil && !p.Slices.Contains(o.ID.Slice()) {
			fault = fmt.Errorf("%s is of slice %d, not of %s", quote.Text(string(o.ID)), o.ID.Slice(), p.Slices)
		}
		if fault != nil {
			faults = append(faults, fault)
		}
	}
	if err := invalid(op, "", faults...); err != nil {
		return err
	}
	if n := len(p.Offsets); l.MaxOffsets > 0 && n > l.MaxOffsets {
		return &annals.Error{Op: op, Kind: annals.ErrTooLarge, Err: fmt.Errorf("%d offsets, the store takes %d", n, l.MaxOffsets)}
	}
	return nil
}

// Filter says what is wrong with f. op is the operation that f is for.
func Filter(op string, f annals.Filter) error {
	return invalid(op, "", FilterFault(f))
}

// FilterFault says what is wrong with f, for an error of another operation.
func FilterFault(f annals.Filter) error {
	faults := selectionFaults(f)
	if f.Limit < 0 {
		faults = append(faults, fmt.Errorf("Limit is %d", f.Limit))
	}
	if f.Behind < 0 {
		faults = append(faults, fmt.Errorf("Behind is %v", f.Behind))
	}
	return errors.Join(faults...)
}

// selectionFaults are those of what f selects: slices, a type and a tag. Of a type or tag that no entity can have there would be nothing, for ever.
func selectionFaults(f annals.Filter) []error {
	faults := []error{sliceFault(f.Slices)}
	if f.Type != "" {
		faults = append(faults, Type(f.Type))
	}
	if f.Tag != "" {
		faults = append(faults, tagFault([]string{f.Tag}))
	}
	return faults
}

// Type says what is wrong with the name of an entity type.
func Type(name string) error {
	if name == "" || strings.Contains(name, "|") || !validText(name) {
		return fmt.Errorf("the Type %s is not non-empty valid UTF-8 without \"|\" and U+0000", quote.Text(name))
	}
	return nil
}

// OwnType is Type for an entity type of a program.
func OwnType(name string) error {
	if progress.Internal(annals.PersistenceID(name + "|")) {
		return fmt.Errorf("the Type %s begins with \"annals.\", as those of the library do", quote.Text(name))
	}
	return Type(name)
}

// Subscription says what is wrong with f and the name of a subscription.
func Subscription(name string, f annals.Filter) error {
	faults := append(selectionFaults(f), nameFault("subscription", name))
	if f.After != (annals.Offset{}) || f.Behind != 0 || f.Limit != 0 {
		faults = append(faults, errors.New("After, Behind and Limit must be zero"))
	}
	return invalid("subscribe", "", faults...)
}

// Forgetting says what is wrong with f for a store with limits l.
func Forgetting(f ability.Forgetting, l annals.Limits) error {
	var age error
	if f.Age < 0 {
		age = fmt.Errorf("the age is %v", f.Age)
	}
	return invalid("forget", f.ID, idFault(f.ID, l), age)
}

// Codec is what the Validate of a codec returns; nil when it has none.
func Codec(c any) error {
	if v, ok := c.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

// invalid is ErrInvalid of op on id with all faults; nil when there are none.
func invalid(op string, id annals.PersistenceID, faults ...error) error {
	if err := errors.Join(faults...); err != nil {
		return &annals.Error{Op: op, ID: id, Kind: annals.ErrInvalid, Err: err}
	}
	return nil
}

// reservedFault is for ids of the library, which has durable states and no events.
func reservedFault(id annals.PersistenceID) error {
	if progress.Internal(id) {
		return errors.New(`types that begin with "annals." are those of the library, whose entities have no events`)
	}
	return nil
}

// idFault says what is wrong with id in a store with limits l.
func idFault(id annals.PersistenceID, l annals.Limits) error {
	switch {
	case id == "":
		return errors.New("the persistence id is empty")
	case !validText(string(id)):
		return errors.New("the persistence id is not valid UTF-8 without U+0000")
	case l.MaxIDBytes > 0 && len(id) > l.MaxIDBytes:
		return fmt.Errorf("the persistence id has %d bytes, the store takes %d", len(id), l.MaxIDBytes)
	case l.MaxIDChars > 0 && utf8.RuneCountInString(string(id)) > l.MaxIDChars:
		return fmt.Errorf("the persistence id has %d characters, the store takes %d", utf8.RuneCountInString(string(id)), l.MaxIDChars)
	}
	return nil
}

// nameFault says what is wrong with the name of a projection or subscription. Text that is not valid would be stored as other text.
func nameFault(what, name string) error {
	if name == "" || !validText(name) {
		return fmt.Errorf("the name %s of the %s is not non-empty valid UTF-8 without U+0000", quote.Text(name), what)
	}
	return nil
}

func sliceFault(r annals.SliceRange) error {
	from, to := r.Bounds()
	if first := from / annals.SliceCount * annals.SliceCount; from < 0 || from >= to || to > first+annals.SliceCount || first > annals.SliceCount {
		return fmt.Errorf("the slices %d ≤ s < %d are not within 0 and %[3]d, or %[3]d and %[4]d", from, to, annals.SliceCount, 2*annals.SliceCount)
	}
	return nil
}

func payloadFault(p annals.Payload) error {
	switch {
	case p.SerializerID == 0:
		return errors.New("the payload has no serializer id")
	case !validText(p.Manifest):
		return errors.New("the manifest is not valid UTF-8 without U+0000")
	}
	return nil
}

func eventFault(e *annals.NewEvent) error {
	var adapter error
	if !validText(e.Adapter) {
		adapter = errors.New("the adapter's manifest is not valid UTF-8 without U+0000")
	}
	return errors.Join(payloadFault(e.Payload), metadataFault(e.Metadata), tagFault(e.Tags), adapter, timeFault(e.Time))
}

// timeFault is for times that are stored. No other time than the zero time is rounded to it.
func timeFault(t time.Time) error {
	if year := t.UTC().Year(); !t.IsZero() && (year < 2 || year > 9999) {
		return fmt.Errorf("the time is in the year %d", year)
	}
	return nil
}

// EventSize is what e takes of Limits.MaxBytes.
func EventSize(e *annals.NewEvent) int {
	return payloadSize(&e.Payload) + payloadSize(&e.Metadata) + tagBytes(e.Tags) + len(e.Adapter)
}

func snapshotSize(s *annals.Snapshot) int {
	return payloadSize(&s.Payload) + payloadSize(&s.Metadata) + tagBytes(s.Tags)
}

func payloadSize(p *annals.Payload) int { return len(p.Manifest) + len(p.Data) }

func tagBytes(tags []string) (n int) {
	for _, t := range tags {
		n += len(t)
	}
	return n
}

func snapshotFault(s *annals.Snapshot) error {
	return errors.Join(payloadFault(s.Payload), metadataFault(s.Metadata), tagFault(s.Tags), timeFault(s.Time))
}

func metadataFault(p annals.Payload) error {
	if p.SerializerID == 0 && p.Manifest == "" && p.Data == nil {
		return nil
	}
	if err := payloadFault(p); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	return nil
}

func tagFault(tags []string) error {
	for _, t := range tags {
		if t == "" || !validText(t) {
			return fmt.Errorf("tag %s is not non-empty valid UTF-8 without U+0000", quote.Text(t))
		}
	}
	return nil
}

func validText(s string) bool { return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) }

func tooLarge(op string, id annals.PersistenceID, events, size int, l annals.Limits) error {
	var err error
	if l.MaxEvents > 0 && events > l.MaxEvents {
		err = fmt.Errorf("%d events, the store takes %d", events, l.MaxEvents)
	}
	if l.MaxBytes > 0 && size > l.MaxBytes {
		err = errors.Join(err, fmt.Errorf("%d bytes, the store takes %d", size, l.MaxBytes))
	}
	if err != nil {
		return &annals.Error{Op: op, ID: id, Kind: annals.ErrTooLarge, Err: err}
	}
	return nil
}
