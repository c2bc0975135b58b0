package annals

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// maxFaults is how many events of a commit an error names.
const maxFaults = 10

// Validate says what is wrong with c for a store with limits l: nil, ErrInvalid or ErrTooLarge. Stores call it before
// anything else. It reports everything that is wrong at once, of ten events at most.
func (c Commit) Validate(l Limits) error {
	var faults []error // stays nil for a valid Commit, so that nothing is allocated
	if fault := c.ID.validate(l); fault != nil {
		faults = append(faults, fault)
	}
	size := 0
	if c.After < 0 || c.After > MaxSeqNr-SeqNr(len(c.Events)) {
		faults = append(faults, fmt.Errorf("After is %d", c.After))
	}
	if len(c.Events) == 0 {
		faults = append(faults, errors.New("there are no events"))
	}
	wrong := 0
	for i := range c.Events {
		e := &c.Events[i]
		size += e.Size()
		if fault := e.fault(); fault != nil {
			if wrong++; wrong <= maxFaults {
				faults = append(faults, fmt.Errorf("event %d: %w", i+1, fault))
			}
		}
	}
	if wrong > maxFaults {
		faults = append(faults, fmt.Errorf("and %d further events", wrong-maxFaults))
	}
	if s := c.Snapshot; s != nil {
		size += s.size()
		if s.ID != c.ID || s.SeqNr != c.After+SeqNr(len(c.Events)) {
			faults = append(faults, errors.New("the snapshot is not of the state after the last event"))
		}
		faults = append(faults, s.fault())
	}
	if err := errors.Join(faults...); err != nil {
		return &Error{Op: "append", ID: c.ID, Kind: ErrInvalid, Err: err}
	}
	if l.FirstSnapshot && c.After == 0 && c.Snapshot == nil {
		return &Error{Op: "append", ID: c.ID, Kind: ErrInvalid, Err: errors.New("the store wants a snapshot with the first commit")}
	}
	return tooLarge("append", c.ID, len(c.Events), size, l)
}

// Validate says what is wrong with w for a store with limits l: nil, ErrInvalid or ErrTooLarge. A deleting write has no
// payload; op is "put state" or "delete state".
func (w StateWrite) Validate(op string, l Limits) error {
	faults := []error{w.ID.validate(l), validTags(w.Tags), metadataFault(w.Metadata)}
	size, events := tagBytes(w.Tags)+w.Metadata.size(), 0
	if w.After < 0 || w.After == MaxSeqNr {
		faults = append(faults, fmt.Errorf("After is %d", w.After))
	}
	if op != "delete state" {
		size += w.Payload.size()
		faults = append(faults, w.Payload.fault())
	}
	if w.Event != nil {
		events = 1
		size += w.Event.Size()
		faults = append(faults, w.Event.fault())
	}
	if err := errors.Join(faults...); err != nil {
		return &Error{Op: op, ID: w.ID, Kind: ErrInvalid, Err: err}
	}
	return tooLarge(op, w.ID, events, size, l)
}

// Validate says what is wrong with s for a store with limits l: nil, ErrInvalid or ErrTooLarge.
func (s Snapshot) Validate(l Limits) error {
	faults := []error{s.ID.validate(l), s.fault()}
	if s.SeqNr < 1 {
		faults = append(faults, fmt.Errorf("SeqNr is %d", s.SeqNr))
	}
	if err := errors.Join(faults...); err != nil {
		return &Error{Op: "save snapshot", ID: s.ID, Kind: ErrInvalid, Err: err}
	}
	return tooLarge("save snapshot", s.ID, 0, s.size(), l)
}

// ValidateSkip says what is wrong with an id, the last number and the number to skip to, for a store with limits l: nil or ErrInvalid. op is
// "skip" or "skip state".
func (id PersistenceID) ValidateSkip(op string, after, n SeqNr, l Limits) error {
	err := id.validate(l)
	if after < 0 || n <= after || n >= MaxSeqNr {
		err = errors.Join(err, fmt.Errorf("the number to skip to is %d, after %d", n, after))
	}
	if err != nil {
		return &Error{Op: op, ID: id, Kind: ErrInvalid, Err: err}
	}
	return nil
}

// ValidateRead says what is wrong with id for a store with limits l: nil or ErrInvalid. op is the operation that
// reads or deletes it.
func (id PersistenceID) ValidateRead(op string, l Limits) error {
	if err := id.validate(l); err != nil {
		return &Error{Op: op, ID: id, Kind: ErrInvalid, Err: err}
	}
	return nil
}

// ValidateDelete is ValidateRead for SnapshotStore.Delete, which also demands an upper bound.
func (c SnapshotCriteria) ValidateDelete(id PersistenceID, l Limits) error {
	if err := id.ValidateRead("delete snapshots", l); err != nil {
		return err
	}
	if c.MaxSeqNr == 0 && c.MaxTime.IsZero() {
		return &Error{Op: "delete snapshots", ID: id, Kind: ErrInvalid, Err: errors.New("the criteria have no upper bound")}
	}
	return nil
}

// Validate says what is wrong with p for a store with limits l: nil, ErrInvalid or ErrTooLarge. op is the operation that p, or a part of it,
// is for.
func (p Progress) Validate(op string, l Limits) error {
	var faults []error
	if p.Projection == "" || !validText(p.Projection) {
		faults = append(faults, fmt.Errorf("the projection's name %s is not non-empty valid UTF-8 without U+0000", Quote(p.Projection)))
	}
	faults = append(faults, p.Slices.fault())
	if p.Epoch < 0 {
		faults = append(faults, fmt.Errorf("the epoch is %d", p.Epoch))
	}
	for _, o := range p.Offsets {
		fault := o.ID.validate(l)
		if fault == nil && !p.Slices.Contains(o.ID.Slice()) {
			fault = fmt.Errorf("%s is of slice %d, not of %s", Quote(string(o.ID)), o.ID.Slice(), p.Slices)
		}
		faults = append(faults, fault)
	}
	if err := errors.Join(faults...); err != nil {
		return &Error{Op: op, Kind: ErrInvalid, Err: err}
	}
	if n := len(p.Offsets); l.MaxOffsets > 0 && n > l.MaxOffsets {
		return &Error{Op: op, Kind: ErrTooLarge, Err: fmt.Errorf("%d offsets, the store takes %d", n, l.MaxOffsets)}
	}
	return nil
}

// Validate says what is wrong with f: nil or ErrInvalid. op is the operation that f is for.
func (f Filter) Validate(op string) error {
	faults := []error{f.Slices.fault()}
	if f.Limit < 0 {
		faults = append(faults, fmt.Errorf("Limit is %d", f.Limit))
	}
	if f.Behind < 0 {
		faults = append(faults, fmt.Errorf("Behind is %v", f.Behind))
	}
	if err := errors.Join(faults...); err != nil {
		return &Error{Op: op, Kind: ErrInvalid, Err: err}
	}
	return nil
}

// ValidateSubscribe says what is wrong with f and the name of a subscription: nil or ErrInvalid.
func (f Filter) ValidateSubscribe(name string) error {
	const op = "subscribe"
	switch {
	case name == "":
		return &Error{Op: op, Kind: ErrInvalid, Err: errors.New("there is no name")}
	case f.After != Offset{} || f.Behind != 0 || f.Limit != 0:
		return &Error{Op: op, Kind: ErrInvalid, Err: errors.New("After, Behind and Limit must be zero")}
	}
	return f.Validate(op)
}

func (r SliceRange) fault() error {
	if from, to := r.Bounds(); from < 0 || from >= to || to > SliceCount {
		return fmt.Errorf("the slices %d ≤ s < %d are not within 0 and %d", from, to, SliceCount)
	}
	return nil
}

func (p Payload) fault() error {
	switch {
	case p.SerializerID == 0:
		return errors.New("the payload has no serializer id")
	case !validText(p.Manifest):
		return errors.New("the manifest is not valid UTF-8 without U+0000")
	}
	return nil
}

func (e *NewEvent) fault() error {
	var adapter error
	if !validText(e.Adapter) {
		adapter = errors.New("the adapter's manifest is not valid UTF-8 without U+0000")
	}
	var at error
	if year := e.Time.UTC().Year(); !e.Time.IsZero() && (year < 2 || year > 9999) { // no other time is rounded to the zero time
		at = fmt.Errorf("the time is in the year %d", year)
	}
	return errors.Join(e.Payload.fault(), metadataFault(e.Metadata), validTags(e.Tags), adapter, at)
}

// Size is what e takes of Limits.MaxBytes.
func (e *NewEvent) Size() int {
	return e.Payload.size() + e.Metadata.size() + tagBytes(e.Tags) + len(e.Adapter)
}

func (s *Snapshot) size() int { return s.Payload.size() + s.Metadata.size() + tagBytes(s.Tags) }

func (p *Payload) size() int { return len(p.Manifest) + len(p.Data) }

func tagBytes(tags []string) (n int) {
	for _, t := range tags {
		n += len(t)
	}
	return n
}

func (s *Snapshot) fault() error {
	return errors.Join(s.Payload.fault(), metadataFault(s.Metadata), validTags(s.Tags))
}

func metadataFault(p Payload) error {
	if p.SerializerID == 0 && p.Manifest == "" && p.Data == nil {
		return nil
	}
	if err := p.fault(); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	return nil
}

func validTags(tags []string) error {
	for _, t := range tags {
		if t == "" || !validText(t) {
			return fmt.Errorf("tag %s is not non-empty valid UTF-8 without U+0000", Quote(t))
		}
	}
	return nil
}

func validText(s string) bool {
	for i := range len(s) {
		if s[i] == 0 {
			return false
		}
	}
	return utf8.ValidString(s)
}

func tooLarge(op string, id PersistenceID, events, size int, l Limits) error {
	var err error
	if l.MaxEvents > 0 && events > l.MaxEvents {
		err = fmt.Errorf("%d events, the store takes %d", events, l.MaxEvents)
	}
	if limit := orMax(l.MaxBytes); size > limit {
		err = errors.Join(err, fmt.Errorf("%d bytes, the store takes %d", size, limit))
	}
	if err != nil {
		return &Error{Op: op, ID: id, Kind: ErrTooLarge, Err: err}
	}
	return nil
}

func orMax(n int) int {
	if n == 0 {
		return math.MaxInt
	}
	return n
}
