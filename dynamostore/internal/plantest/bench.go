package plantest

import (
	"errors"
	"fmt"
	"testing"
	"testing/cryptotest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Bench calls a layout on tables in memory. Its methods make calls about one entity and record the results.
type Bench struct {
	testing.TB
	*Executor
	plan.Contracts
	Offer plan.Offer
	ID    annals.PersistenceID
}

// Requests compares the requests of do with the golden file of that name. prepare, which may be nil, fills the tables before. Random
// numbers are the same in each run, so cases do not run in parallel.
func Requests(t *testing.T, name string, layout plan.Layout, prepare, do func(b *Bench)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, 1)
		offer, err := layout.Plan()
		if err != nil {
			t.Fatal(err)
		}
		x := New(offer.Tables)
		b := &Bench{t, x, offer.On(x), offer, "Thread|42"}
		if prepare != nil {
			prepare(b)
			b.Executor.Log()
		}
		do(b)
		Golden(t, name, b.Executor.Log())
	})
}

// Event returns an event with data.
func Event(data string) annals.NewEvent {
	return annals.NewEvent{Payload: annals.Payload{SerializerID: 31, Manifest: "chat.posted", Data: []byte(data)}}
}

// WriteID returns the WriteID that ends with n.
func WriteID(n byte) (w annals.WriteID) {
	w[15] = n
	return w
}

// Told records the result of a call, and the kind of its error.
func (b *Bench) Told(what string, err error) {
	b.Helper()
	kind := ""
	if e := (*annals.Error)(nil); errors.As(err, &e) {
		kind = ", " + e.Kind.Error()
	} else if err != nil {
		b.Errorf("%s: %v", what, err)
	}
	b.Note("%s%s", what, kind)
}

// Append stores one event for each of data after the number after, with the WriteID after+1.
func (b *Bench) Append(after annals.SeqNr, data ...string) {
	b.Helper()
	c := annals.Commit{ID: b.ID, After: after, WriteID: WriteID(byte(after) + 1)}
	for _, d := range data {
		c.Events = append(c.Events, Event(d))
	}
	b.Commit(c)
}

// Commit stores c.
func (b *Bench) Commit(c annals.Commit) {
	b.Helper()
	r, err := b.Journal.Append(b.Context(), c)
	b.Told(fmt.Sprintf("append after %d: %d, repeated %v", c.After, r.SeqNr, r.Repeated), err)
}

// Replay reads the events from … to.
func (b *Bench) Replay(from, to annals.SeqNr) {
	b.Helper()
	var numbers []annals.SeqNr
	var failed error
	for e, err := range b.Journal.Replay(b.Context(), b.ID, from, to) {
		if failed = err; err == nil {
			numbers = append(numbers, e.SeqNr)
		}
	}
	b.Told(fmt.Sprintf("replay from %d to %d: %v", from, to, numbers), failed)
}

// Last reads the last number.
func (b *Bench) Last() {
	b.Helper()
	last, err := b.Journal.LastSeqNr(b.Context(), b.ID)
	b.Told(fmt.Sprintf("last %d", last), err)
}

// Delete deletes events.
func (b *Bench) Delete(to annals.SeqNr) {
	b.Helper()
	b.Told(fmt.Sprintf("delete to %d", to), b.Journal.DeleteTo(b.Context(), b.ID, to))
}

// Save saves a snapshot of number n.
func (b *Bench) Save(n annals.SeqNr, data []byte) {
	b.Helper()
	s := annals.Snapshot{ID: b.ID, SeqNr: n, Time: b.Now(), Payload: annals.Payload{SerializerID: 31, Manifest: "chat.thread", Data: data}}
	b.Told(fmt.Sprintf("save snapshot %d", n), b.Snapshots.Save(b.Context(), s))
}

// Latest reads the newest snapshot that fits c.
func (b *Bench) Latest(c annals.SnapshotCriteria) {
	b.Helper()
	s, ok, err := b.Snapshots.Latest(b.Context(), b.ID, c)
	b.Told(fmt.Sprintf("latest snapshot %d, %v", s.SeqNr, ok), err)
}

// Prune deletes the snapshots that fit c.
func (b *Bench) Prune(c annals.SnapshotCriteria) {
	b.Helper()
	b.Told(fmt.Sprintf("delete snapshots %d to %d", c.MinSeqNr, c.MaxSeqNr), b.Snapshots.Delete(b.Context(), b.ID, c))
}

// Put writes the state after revision after. change, which may be nil, changes the write before.
func (b *Bench) Put(after annals.SeqNr, change func(*plan.StateWrite)) {
	b.Helper()
	w := plan.StateWrite{StateWrite: annals.StateWrite{ID: b.ID, After: after, WriteID: WriteID(byte(after) + 1),
		Payload: annals.Payload{SerializerID: 31, Manifest: "chat.thread", Data: fmt.Appendf(nil, `{"revision":%d}`, after+1)}}, Time: b.Now(), Given: true}
	if change != nil {
		change(&w)
	}
	r, err := b.Offer.States.Write(b.Context(), b, w)
	b.Told(fmt.Sprintf("write state after %d: %d, repeated %v", after, r.SeqNr, r.Repeated), err)
}

// State reads the state.
func (b *Bench) State() {
	b.Helper()
	st, ok, err := b.Offer.States.Get(b.Context(), b, b.ID)
	metadata := ""
	if st.Metadata.SerializerID != 0 {
		metadata = fmt.Sprintf(", metadata %q", st.Metadata.Data)
	}
	b.Told(fmt.Sprintf("get state: revision %d, %q, %v%s", st.Revision, st.Data, ok, metadata), err)
}

// SkipState skips the state to each of numbers in turn.
func (b *Bench) SkipState(numbers ...annals.SeqNr) {
	b.Helper()
	for _, n := range numbers {
		b.Told(fmt.Sprintf("skip state to %d", n), b.Offer.SkipStateTo(b.Context(), b, b.ID, n))
	}
}
