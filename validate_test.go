package annals_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/annals-go/annals"
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
		"negative After":          {annals.Commit{ID: "Thing|1", After: -1, Events: one}, limits, annals.ErrInvalid},
		"After at the end":        {annals.Commit{ID: "Thing|1", After: annals.MaxSeqNr, Events: one}, limits, annals.ErrInvalid},
		"no events":               {annals.Commit{ID: "Thing|1"}, limits, annals.ErrInvalid},
		"no serializer":           {annals.Commit{ID: "Thing|1", Events: []annals.NewEvent{{}}}, limits, annals.ErrInvalid},
		"broken manifest":         {annals.Commit{ID: "Thing|1", Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 4, Manifest: "\xff"}}}}, limits, annals.ErrInvalid},
		"empty tag":               {annals.Commit{ID: "Thing|1", Events: []annals.NewEvent{{Payload: payload, Tags: []string{""}}}}, limits, annals.ErrInvalid},
		"metadata without number": {annals.Commit{ID: "Thing|1", Events: []annals.NewEvent{{Payload: payload, Metadata: annals.Payload{Data: []byte("x")}}}}, limits, annals.ErrInvalid},
		"snapshot of another":     {annals.Commit{ID: "Thing|2", After: 3, Events: one, Snapshot: snapshot}, limits, annals.ErrInvalid},
		"snapshot too early":      {annals.Commit{ID: "Thing|1", After: 4, Events: one, Snapshot: snapshot}, limits, annals.ErrInvalid},
		"first without snapshot":  {annals.Commit{ID: "Thing|1", Events: one}, annals.Limits{FirstSnapshot: true}, annals.ErrInvalid},
		"too many events":         {annals.Commit{ID: "Thing|1", Events: make3()}, annals.Limits{MaxEvents: 2}, annals.ErrTooLarge},
		"too many bytes":          {annals.Commit{ID: "Thing|1", Events: make3()}, annals.Limits{MaxBytes: 14}, annals.ErrTooLarge},
	} {
		err := c.commit.Validate(c.limits)
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func make3() []annals.NewEvent {
	return []annals.NewEvent{{Payload: payload}, {Payload: payload}, {Payload: payload}}
}

func TestValidateReportsAllFaults(t *testing.T) {
	t.Parallel()
	err := annals.Commit{After: -1}.Validate(annals.Limits{})
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
		err := c.write.Validate(c.op, annals.Limits{MaxBytes: 9})
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestSnapshotProgressAndFilterValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ err, want error }{
		"snapshot":          {annals.Snapshot{ID: "a", SeqNr: 1, Payload: payload}.Validate(annals.Limits{}), nil},
		"snapshot of 0":     {annals.Snapshot{ID: "a", Payload: payload}.Validate(annals.Limits{}), annals.ErrInvalid},
		"snapshot too big":  {annals.Snapshot{ID: "a", SeqNr: 1, Payload: payload}.Validate(annals.Limits{MaxBytes: 4}), annals.ErrTooLarge},
		"read":              {annals.PersistenceID("a").ValidateRead("replay", annals.Limits{}), nil},
		"read of a long id": {annals.PersistenceID("ab").ValidateRead("replay", annals.Limits{MaxIDBytes: 1}), annals.ErrInvalid},
		"bounded delete":    {annals.SnapshotCriteria{MaxSeqNr: 3}.ValidateDelete("a", annals.Limits{}), nil},
		"unbounded delete":  {annals.SnapshotCriteria{MinSeqNr: 3}.ValidateDelete("a", annals.Limits{}), annals.ErrInvalid},
		"progress":          {annals.Progress{Projection: "p", Offsets: []annals.Offset{{ID: "a"}}}.Validate(), nil},
		"nameless progress": {annals.Progress{}.Validate(), annals.ErrInvalid},
		"filter":            {annals.Filter{}.Validate("query events"), nil},
		"negative slices":   {annals.Filter{Slices: annals.SliceRange{From: -1, To: 4}}.Validate("query events"), annals.ErrInvalid},
		"empty slices":      {annals.Filter{Slices: annals.SliceRange{From: 4, To: 4}}.Validate("query events"), annals.ErrInvalid},
		"negative limit":    {annals.Filter{Limit: -1}.Validate("query events"), annals.ErrInvalid},
		"negative behind":   {annals.Filter{Behind: -1}.Validate("query events"), annals.ErrInvalid},
		"slices beyond":     {annals.Progress{Projection: "p", Slices: annals.SliceRange{From: 0, To: 1025}}.Validate(), annals.ErrInvalid},
	} {
		if !errors.Is(c.err, c.want) || c.want == nil && c.err != nil {
			t.Errorf("%s: got %v, want %v", name, c.err, c.want)
		}
	}
}
