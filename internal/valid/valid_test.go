package valid_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/valid"
)

var payload = annals.Payload{SerializerID: 4, Data: []byte("12345")}

func TestCommitValidate(t *testing.T) {
	t.Parallel()
	one := []annals.NewEvent{{Payload: payload}}
	limits := annals.Limits{MaxEvents: 2, MaxBytes: 12, MaxIDBytes: 8}
	snapshot := &annals.Snapshot{ID: "Thing|1", SeqNr: 4, Payload: payload}
	for name, c := range map[string]struct {
		commit annals.Commit
		limits annals.Limits
		want   error
	}{
		"one event":               {annals.Commit{ID: "Thing|1", Events: one}, limits, nil},
		"no limits":               {annals.Commit{ID: "Thing|1", Events: make3()}, annals.Limits{}, nil},
		"with snapshot":           {annals.Commit{ID: "Thing|1", After: 3, Events: one, Snapshot: snapshot}, limits, nil},
		"empty id":                {annals.Commit{Events: one}, limits, annals.ErrInvalid},
		"broken id":               {annals.Commit{ID: "a\xff", Events: one}, limits, annals.ErrInvalid},
		"zero in id":              {annals.Commit{ID: "a\x00", Events: one}, limits, annals.ErrInvalid},
		"long id":                 {annals.Commit{ID: "Thing|123", Events: one}, limits, annals.ErrInvalid},
		"characters, not bytes":   {annals.Commit{ID: "Thing|éé", Events: one}, annals.Limits{MaxIDChars: 8}, nil},
		"too many characters":     {annals.Commit{ID: "Thing|ééé", Events: one}, annals.Limits{MaxIDChars: 8}, annals.ErrInvalid},
		"negative After":          {annals.Commit{ID: "Thing|1", After: -1, Events: one}, limits, annals.ErrInvalid},
		"After at the end":        {annals.Commit{ID: "Thing|1", After: annals.MaxSeqNr, Events: one}, limits, annals.ErrInvalid},
		"no events":               {annals.Commit{ID: "Thing|1"}, limits, annals.ErrInvalid},
		"no serializer":           {annals.Commit{ID: "Thing|1", Events: []annals.NewEvent{{}}}, limits, annals.ErrInvalid},
		"broken manifest":         {annals.Commit{ID: "Thing|1", Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 4, Manifest: "\xff"}}}}, limits, annals.ErrInvalid},
		"broken adapter":          {annals.Commit{ID: "Thing|1", Events: []annals.NewEvent{{Payload: payload, Adapter: "\x00"}}}, limits, annals.ErrInvalid},
		"year 1":                  {annals.Commit{ID: "Thing|1", Events: at(1)}, limits, annals.ErrInvalid},
		"year 2":                  {annals.Commit{ID: "Thing|1", Events: at(2)}, limits, nil},
		"year 9999":               {annals.Commit{ID: "Thing|1", Events: at(9999)}, limits, nil},
		"year 10000":              {annals.Commit{ID: "Thing|1", Events: at(10_000)}, limits, annals.ErrInvalid},
		"empty tag":               {annals.Commit{ID: "Thing|1", Events: []annals.NewEvent{{Payload: payload, Tags: []string{""}}}}, limits, annals.ErrInvalid},
		"metadata without number": {annals.Commit{ID: "Thing|1", Events: []annals.NewEvent{{Payload: payload, Metadata: annals.Payload{Data: []byte("x")}}}}, limits, annals.ErrInvalid},
		"snapshot of another":     {annals.Commit{ID: "Thing|2", After: 3, Events: one, Snapshot: snapshot}, limits, annals.ErrInvalid},
		"snapshot too early":      {annals.Commit{ID: "Thing|1", After: 4, Events: one, Snapshot: snapshot}, limits, annals.ErrInvalid},
		"first without snapshot":  {annals.Commit{ID: "Thing|1", Events: one}, annals.Limits{FirstSnapshot: true}, annals.ErrInvalid},
		"too many events":         {annals.Commit{ID: "Thing|1", Events: make3()}, annals.Limits{MaxEvents: 2}, annals.ErrTooLarge},
		"too many bytes":          {annals.Commit{ID: "Thing|1", Events: make3()}, annals.Limits{MaxBytes: 14}, annals.ErrTooLarge},
	} {
		err := valid.Commit(c.commit, c.limits)
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// at is an event in the last nanosecond of a year.
func at(year int) []annals.NewEvent {
	return []annals.NewEvent{{Payload: payload, Time: time.Date(year+1, 1, 1, 0, 0, 0, -1, time.UTC)}}
}

func make3() []annals.NewEvent {
	return []annals.NewEvent{{Payload: payload}, {Payload: payload}, {Payload: payload}}
}

func TestValidateReportsAllFaults(t *testing.T) {
	t.Parallel()
	err := valid.Commit(annals.Commit{After: -1}, annals.Limits{})
	for _, part := range []string{"append", "invalid", "id is empty", "After is -1", "no events"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestStateWriteValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		write annals.StateWrite
		op    string
		want  error
	}{
		"put":                  {annals.StateWrite{ID: "a", Payload: payload}, "put state", nil},
		"put without payload":  {annals.StateWrite{ID: "a"}, "put state", annals.ErrInvalid},
		"delete":               {annals.StateWrite{ID: "a", After: 1}, "delete state", nil},
		"negative":             {annals.StateWrite{ID: "a", After: -1, Payload: payload}, "put state", annals.ErrInvalid},
		"broken event":         {annals.StateWrite{ID: "a", Payload: payload, Event: &annals.NewEvent{}}, "put state", annals.ErrInvalid},
		"too large with event": {annals.StateWrite{ID: "a", Payload: payload, Event: &annals.NewEvent{Payload: payload}}, "put state", annals.ErrTooLarge},
	} {
		err := valid.StateWrite(c.op, c.write, annals.Limits{MaxBytes: 9})
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestSnapshotProgressAndFilterValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ err, want error }{
		"snapshot":          {valid.Snapshot(annals.Snapshot{ID: "a", SeqNr: 1, Payload: payload}, annals.Limits{}), nil},
		"snapshot of 0":     {valid.Snapshot(annals.Snapshot{ID: "a", Payload: payload}, annals.Limits{}), annals.ErrInvalid},
		"snapshot too big":  {valid.Snapshot(annals.Snapshot{ID: "a", SeqNr: 1, Payload: payload}, annals.Limits{MaxBytes: 4}), annals.ErrTooLarge},
		"read":              {valid.ID("replay", annals.PersistenceID("a"), annals.Limits{}), nil},
		"read of a long id": {valid.ID("replay", annals.PersistenceID("ab"), annals.Limits{MaxIDBytes: 1}), annals.ErrInvalid},
		"bounded delete":    {valid.SnapshotDelete("a", annals.SnapshotCriteria{MaxSeqNr: 3}, annals.Limits{}), nil},
		"unbounded delete":  {valid.SnapshotDelete("a", annals.SnapshotCriteria{MinSeqNr: 3}, annals.Limits{}), annals.ErrInvalid},
		"progress":          {valid.Progress("save offsets", annals.Progress{Projection: "p", Offsets: []annals.Offset{{ID: "a"}}}, annals.Limits{}), nil},
		"nameless progress": {valid.Progress("save offsets", annals.Progress{}, annals.Limits{}), annals.ErrInvalid},
		"filter":            {valid.Filter("query events", annals.Filter{}), nil},
		"negative slices":   {valid.Filter("query events", annals.Filter{Slices: annals.SliceRange{From: -1, To: 4}}), annals.ErrInvalid},
		"empty slices":      {valid.Filter("query events", annals.Filter{Slices: annals.SliceRange{From: 4, To: 4}}), annals.ErrInvalid},
		"negative limit":    {valid.Filter("query events", annals.Filter{Limit: -1}), annals.ErrInvalid},
		"negative behind":   {valid.Filter("query events", annals.Filter{Behind: -1}), annals.ErrInvalid},
		"slices beyond":     {valid.Progress("save offsets", annals.Progress{Projection: "p", Slices: annals.SliceRange{From: 0, To: 1025}}, annals.Limits{}), annals.ErrInvalid},
	} {
		if !errors.Is(c.err, c.want) || c.want == nil && c.err != nil {
			t.Errorf("%s: got %v, want %v", name, c.err, c.want)
		}
	}
}

func TestErrorsAreShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é\xff", 1<<20)
	many := make([]annals.NewEvent, 10_000)
	for i := range many {
		many[i] = annals.NewEvent{Payload: payload, Tags: []string{strings.Repeat("\xff", 300)}}
	}
	one := []annals.NewEvent{{Payload: payload, Tags: []string{long}}}
	for name, err := range map[string]error{
		"id":         valid.ID("replay", annals.PersistenceID(long), annals.Limits{}),
		"tag":        valid.Commit(annals.Commit{ID: "a", Events: one}, annals.Limits{}),
		"tags":       valid.Commit(annals.Commit{ID: "a", Events: many}, annals.Limits{}),
		"projection": valid.Progress("save offsets", annals.Progress{Projection: long}, annals.Limits{}),
		"cause":      &annals.Error{Op: "x", Err: errors.New(long)},
	} {
		if text := err.Error(); len(text) > 8<<10 || !strings.Contains(text, "bytes)") {
			t.Errorf("%s: got %d bytes: %.300s", name, len(text), text)
		}
		for inner := errors.Unwrap(err); inner != nil && name != "cause"; inner = errors.Unwrap(inner) {
			if n := len(inner.Error()); n > 16<<10 {
				t.Errorf("%s: the cause has %d bytes", name, n)
			}
		}
	}
}

// Whatever is stored with an event counts towards the limit.
func TestSizes(t *testing.T) {
	t.Parallel()
	e := annals.NewEvent{Payload: annals.Payload{SerializerID: 4, Manifest: "ab", Data: []byte("abc")}, Tags: []string{"abcd", "e"},
		Metadata: annals.Payload{SerializerID: 4, Manifest: "abcdef", Data: []byte("abcdefg")}, Adapter: "abcdefgh"}
	if valid.EventSize(&e) != 2+3+5+6+7+8 {
		t.Errorf("an event of %d bytes, want 31", valid.EventSize(&e))
	}
	for name, validate := range map[string]func(l annals.Limits) error{
		"commit": func(l annals.Limits) error {
			return valid.Commit(annals.Commit{ID: "a", Events: []annals.NewEvent{e}}, l)
		},
		"snapshot": func(l annals.Limits) error {
			return valid.Snapshot(annals.Snapshot{ID: "a", SeqNr: 1, Payload: e.Payload, Tags: append(e.Tags, e.Adapter), Metadata: e.Metadata}, l)
		},
		"state": func(l annals.Limits) error {
			return valid.StateWrite("put state", annals.StateWrite{ID: "a", Payload: annals.Payload{SerializerID: 4, Manifest: "abcdefghijklmnopqrstuvwxyz"}, Tags: e.Tags}, l)
		},
		"state, event": func(l annals.Limits) error {
			return valid.StateWrite("delete state", annals.StateWrite{ID: "a", Event: &e, Payload: annals.Payload{SerializerID: 1, Data: []byte("x")}}, l)
		},
	} {
		if err := validate(annals.Limits{MaxBytes: 31}); err != nil {
			t.Errorf("%s of 31 bytes: %v", name, err)
		}
		if err := validate(annals.Limits{MaxBytes: 30}); !errors.Is(err, annals.ErrTooLarge) {
			t.Errorf("%s of 31 bytes where 30 are taken: %v", name, err)
		}
	}
}
