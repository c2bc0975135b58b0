package cleanup

import (
	"errors"
	"fmt"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/quote"
)

// Result says what was done to one entity, or in a dry run what would be done.
type Result struct {
	ID        annals.PersistenceID
	Events    annals.SeqNr // number of deleted events
	Snapshots bool         // its snapshots were deleted, all or the older ones
	State     bool         // its state was deleted
	Forgotten bool         // the store has nothing of it any more
	Waiting   bool         // it is deleted and can be forgotten later
	Kept      bool         // it is not deleted completely, so ForgetDeleted did not change it
	Err       error        // an *annals.Error whose Op is the step that failed; the other fields say what was done before
}

// Report counts what a run did, or in a dry run what it would do.
type Report struct {
	Entities  int          // processed entities, with those that failed
	Failed    int          // entities that failed
	Events    annals.SeqNr // deleted events
	Snapshots int          // entities whose snapshots were deleted, all or the older ones
	States    int          // deleted states
	Forgotten int          // entities of which the store has nothing any more
	Waiting   int          // entities that can be forgotten later
	Kept      int          // entities that ForgetDeleted did not change

	// Last is the last id that was processed: it and all ids before it are done or have failed. A later run continues after it, with
	// Query.IDs(ctx, entityType, Last). Those that failed are in Error.Failed. "": none was processed.
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

// Error is the error of a run. errors.Is and errors.As find the errors of the entities, and Err.
type Error struct {
	Op     string // "delete events", …
	Report Report
	Failed []Result // the entities that failed
	Err    error    // why the run ended after Report.Last: the error of the context or of the ids, or ErrFailures; nil: it did not end early
}

// Error names the first of the entities that failed.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cleanup: %s", e.Op)
	if len(e.Failed) > 0 {
		fmt.Fprintf(&b, ": %d of %d entities failed, the first with: %v", len(e.Failed), e.Report.Entities, e.Failed[0].Err)
	}
	if e.Err != nil && e.Report.Last != "" {
		fmt.Fprintf(&b, ": ended after %s", quote.Text(string(e.Report.Last)))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns the errors of the entities, and Err.
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
