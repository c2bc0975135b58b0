package cleanup

import (
	"errors"
	"fmt"
	"strings"

	"github.com/annals-go/annals"
)

// Result is what was done, or in a dry run would be, to one entity.
type Result struct {
	ID        annals.PersistenceID
	Events    annals.SeqNr // so many were deleted
	Snapshots bool         // its snapshots were deleted, all or the older ones
	State     bool         // its state was deleted
	Forgotten bool         // nothing is left of it
	Waiting   bool         // it can be forgotten later
	Kept      bool         // something of it is still there, so ForgetDeleted left it alone
	Err       error        // an *annals.Error whose Op is the step that failed; what the other fields say was done before
}

// Report counts what a run did, or in a dry run would do.
type Report struct {
	Entities  int          // dealt with, those that failed included
	Failed    int          // entities
	Events    annals.SeqNr // deleted
	Snapshots int          // entities whose snapshots were deleted, all or the older ones
	States    int          // deleted
	Forgotten int          // entities of which nothing is left
	Waiting   int          // entities to forget later
	Kept      int          // entities that ForgetDeleted left alone

	// Last is the last id dealt with: it and all in front of it are done or failed. A later run goes on behind it, with
	// Query.IDs(ctx, entityType, Last); those that failed are in Error.Failed. "" when there was none.
	Last annals.PersistenceID
}

func (r *Report) add(done Result) {
	r.Entities++
	r.Events += done.Events
	for _, count := range []struct {
		is bool
		n  *int
	}{
		{done.Err != nil, &r.Failed}, {done.Snapshots, &r.Snapshots}, {done.State, &r.States},
		{done.Forgotten, &r.Forgotten}, {done.Waiting, &r.Waiting}, {done.Kept, &r.Kept},
	} {
		if count.is {
			*count.n++
		}
	}
	r.Last = done.ID
}

// ErrFailures ends a run in which Options.MaxFailures entities failed.
var ErrFailures = errors.New("too many entities failed")

// Error says what of a run was not done. errors.Is and As find the errors of the entities and Err.
type Error struct {
	Op     string // "delete events", …
	Report Report
	Failed []Result // each entity that failed: at most Options.MaxFailures and those that were under way at the time
	Err    error    // what ended the run behind Report.Last: the context's error, that of the ids, or ErrFailures; nil: nothing
}

// Error names the first of the entities that failed.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cleanup: %s", e.Op)
	if len(e.Failed) > 0 {
		fmt.Fprintf(&b, ": %d of %d entities failed, the first with: %v", len(e.Failed), e.Report.Entities, e.Failed[0].Err)
	}
	if e.Err != nil && e.Report.Last != "" {
		fmt.Fprintf(&b, ": ended behind %s", annals.Quote(string(e.Report.Last)))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap are the errors of the entities, and Err.
func (e *Error) Unwrap() []error {
	var all []error
	for _, f := range e.Failed {
		all = append(all, f.Err)
	}
	if e.Err != nil {
		all = append(all, e.Err)
	}
	return all
}
