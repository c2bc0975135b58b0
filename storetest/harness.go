package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
)

// harness runs one case on its own store, or on one that other cases have used.
type harness struct {
	testing.TB
	ctx   context.Context
	cfg   Config
	caps  annals.Capabilities
	store annals.Store
	name  string // begins the ids of the case's entities, so that no two cases on a store have the same
	ids   atomic.Int64
}

func newHarness(tb testing.TB, p probe) *harness {
	h := sharingHarness(tb, p, p.cfg.Open(tb), "p")
	tb.Cleanup(func() { _ = h.store.Close() }) // a case may have closed the store
	return h
}

func sharingHarness(tb testing.TB, p probe, s annals.Store, name string) *harness {
	return &harness{TB: tb, ctx: tb.Context(), cfg: p.cfg, caps: p.caps, store: s, name: name}
}

// another is a harness of the same case on another empty store.
func (h *harness) another() *harness { return newHarness(h.TB, probe{caps: h.caps, cfg: h.cfg}) }

func (h *harness) journal() annals.Journal { return h.store.Journal() }

// id is a new persistence id.
func (h *harness) id() annals.PersistenceID { return h.idOf("Thing") }

func (h *harness) idOf(entityType string) annals.PersistenceID {
	return annals.NewPersistenceID(entityType, fmt.Sprintf("%s-%d", h.name, h.ids.Add(1)))
}

// volume is n, or short with Config.Short.
func (h *harness) volume(n, short int) int {
	if h.cfg.Short {
		return short
	}
	return n
}

// batch is n, or the largest number of events in a commit if that is less.
func (h *harness) batch(n int) int {
	if limit := h.caps.Limits.MaxEvents; limit > 0 {
		n = min(n, limit)
	}
	return n
}

// payload is the payload of event n of each entity. It depends on n only, so that each case can check it.
func payload(n annals.SeqNr) annals.Payload {
	return annals.Payload{SerializerID: 4, Manifest: "E", Data: []byte("e-" + strconv.FormatInt(int64(n), 10))}
}

// fill makes p count for n bytes of Limits.MaxBytes.
func fill(p *annals.Payload, n int) { p.Data = make([]byte, n-len(p.Manifest)) }

// newEvents are n events, numbered after+1 and following.
func newEvents(after annals.SeqNr, n int) []annals.NewEvent {
	es := make([]annals.NewEvent, n)
	for i := range es {
		es[i].Payload = payload(after + annals.SeqNr(i) + 1)
	}
	return es
}

// snapshotOf is the snapshot of id's state after event n.
func snapshotOf(id annals.PersistenceID, n annals.SeqNr) annals.Snapshot {
	return annals.Snapshot{ID: id, SeqNr: n, Payload: statePayload(n)}
}

// statePayload is the state after event n: the sum of all numbers up to n.
func statePayload(n annals.SeqNr) annals.Payload {
	return annals.Payload{SerializerID: 4, Manifest: "S", Data: []byte(strconv.FormatInt(int64(n)*(int64(n)+1)/2, 10))}
}

// commit is a commit of n events with the given After and a new WriteID.
func (h *harness) commit(id annals.PersistenceID, after annals.SeqNr, n int) annals.Commit {
	return h.complete(annals.Commit{ID: id, After: after, Events: newEvents(after, n), WriteID: annals.NewWriteID()})
}

// complete adds the snapshot that some stores require with the first commit.
func (h *harness) complete(c annals.Commit) annals.Commit {
	if h.caps.Limits.FirstSnapshot && c.After == 0 && c.Snapshot == nil {
		s := snapshotOf(c.ID, annals.SeqNr(len(c.Events)))
		c.Snapshot = &s
	}
	return c
}

// append stores c, by send. The case ends when that fails.
func (h *harness) append(c annals.Commit) annals.Receipt {
	h.Helper()
	r, err := h.send(h.ctx, h.store, c)
	if err != nil {
		h.Fatalf("append %d events to %q after %d: got error %v, want none", len(c.Events), c.ID, c.After, err)
	}
	if want := c.After + annals.SeqNr(len(c.Events)); r.SeqNr != want {
		h.Fatalf("append %d events to %q after %d: got receipt for %d, want %d", len(c.Events), c.ID, c.After, r.SeqNr, want)
	}
	return r
}

// send appends c to s, and repeats that while the error says that this is safe.
func (h *harness) send(ctx context.Context, s annals.Store, c annals.Commit) (annals.Receipt, error) {
	for try := 1; ; try++ {
		r, err := s.Journal().Append(ctx, c)
		repeatable := errors.Is(err, annals.ErrUnavailable) || h.caps.Repeatable && errors.Is(err, annals.ErrUnknown)
		if !repeatable || !again(ctx, try) {
			return r, err
		}
	}
}

// retried runs a call, and repeats it while that is safe.
func (h *harness) retried(run func() error) error {
	for try := 1; ; try++ {
		if err := run(); !annals.SafeToRetry(err) || !again(h.ctx, try) {
			return err
		}
	}
}

// again waits for at most 32 milliseconds after the given try of a call, as clients do. It returns false when ctx has ended and after
// 20 tries: a store that is never available fails the case.
func again(ctx context.Context, try int) bool {
	return try < 20 && backoff.Wait(ctx, min(try-1, 5)) == nil
}

// write appends n events after number after, in commits of at most 100, and returns the last number.
func (h *harness) write(id annals.PersistenceID, after annals.SeqNr, n int) annals.SeqNr {
	h.Helper()
	for n > 0 {
		size := h.batch(min(n, 100))
		after = h.append(h.commit(id, after, size)).SeqNr
		n -= size
	}
	return after
}

// writeSizes appends one commit of each size after number after, or several where the store takes no such size.
func (h *harness) writeSizes(id annals.PersistenceID, after annals.SeqNr, sizes ...int) annals.SeqNr {
	h.Helper()
	for _, size := range sizes {
		for size > 0 {
			n := h.batch(size)
			after = h.append(h.commit(id, after, n)).SeqNr
			size -= n
		}
	}
	return after
}

// replay reads the events of id. The case ends when that fails.
func (h *harness) replay(id annals.PersistenceID, from, to annals.SeqNr) []annals.Event {
	h.Helper()
	es, err := collect(h.journal().Replay(h.ctx, id, from, to))
	if err != nil {
		h.Fatalf("replay %q from %d to %d: got error %v after %d events, want none", id, from, to, err, len(es))
	}
	return es
}

// events reads the events first … last of id. The case ends when one is missing.
func (h *harness) events(id annals.PersistenceID, first, last annals.SeqNr) []annals.Event {
	h.Helper()
	es := h.replay(id, first, last)
	if len(es) != int(last-first+1) {
		h.Fatalf("replay %q from %d to %d: got %s, want all", id, first, last, span(es))
	}
	return es
}

// wantReplay checks that a replay yields the numbers first … last, with their payloads. first > last means no events.
func (h *harness) wantReplay(id annals.PersistenceID, from, to, first, last annals.SeqNr) {
	h.Helper()
	h.wantEvents(fmt.Sprintf("replay %q from %d to %d", id, from, to), h.replay(id, from, to), id, first, last)
}

// wantEvents checks that got are the numbers first … last of id, with their payloads.
func (h *harness) wantEvents(did string, got []annals.Event, id annals.PersistenceID, first, last annals.SeqNr) {
	h.Helper()
	if fault := eventsFault(got, id, first, last); fault != "" {
		h.Errorf("%s: got %s, want numbers %d to %d; %s", did, span(got), first, last, fault)
	}
}

func eventsFault(got []annals.Event, id annals.PersistenceID, first, last annals.SeqNr) string {
	for i, e := range got {
		want := first + annals.SeqNr(i)
		switch {
		case e.SeqNr != want:
			return fmt.Sprintf("at place %d is number %d, want %d", i+1, e.SeqNr, want)
		case e.ID != id:
			return fmt.Sprintf("number %d has id %q, want %q", e.SeqNr, e.ID, id)
		case !equal(e.Payload, payload(want)):
			return fmt.Sprintf("number %d has %s, want %s", e.SeqNr, show(e.Payload), show(payload(want)))
		}
	}
	if n := max(last-first+1, 0); annals.SeqNr(len(got)) != n {
		return fmt.Sprintf("that are %d events, want %d", len(got), n)
	}
	return ""
}

// span describes events for a message.
func span(es []annals.Event) string {
	if len(es) == 0 {
		return "no events"
	}
	return fmt.Sprintf("%d events, %d to %d", len(es), es[0].SeqNr, es[len(es)-1].SeqNr)
}

// last reads the last number of id. The case ends when that fails.
func (h *harness) last(id annals.PersistenceID) annals.SeqNr {
	h.Helper()
	n, err := h.journal().LastSeqNr(h.ctx, id)
	if err != nil {
		h.Fatalf("last number of %q: got error %v, want none", id, err)
	}
	return n
}

func (h *harness) wantLast(id annals.PersistenceID, want annals.SeqNr) {
	h.Helper()
	if got := h.last(id); got != want {
		h.Errorf("last number of %q: got %d, want %d", id, got, want)
	}
}

func (h *harness) deleteTo(id annals.PersistenceID, to annals.SeqNr) {
	h.Helper()
	if err := h.journal().DeleteTo(h.ctx, id, to); err != nil {
		h.Fatalf("delete events of %q to %d: got error %v, want none", id, to, err)
	}
}

func (h *harness) saveSnapshot(s annals.Snapshot) {
	h.Helper()
	if err := h.store.Snapshots().Save(h.ctx, s); err != nil {
		h.Fatalf("save snapshot %d of %q: got error %v, want none", s.SeqNr, s.ID, err)
	}
}

// wantKind checks that err is of a kind.
func (h *harness) wantKind(err, kind error, format string, args ...any) {
	h.Helper()
	if !errors.Is(err, kind) {
		h.Errorf("%s: got error %v, want %q", fmt.Sprintf(format, args...), err, kind)
	}
}

// wantEqual checks that values are equal. nil and empty slices are equal.
func (h *harness) wantEqual(got, want any, format string, args ...any) {
	h.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		h.Errorf("%s: got %v, want %v (-want +got):\n%s", fmt.Sprintf(format, args...), got, want, diff)
	}
}

// equal compares values. nil and empty slices are equal.
func equal(a, b any) bool {
	if p, ok := a.(annals.Payload); ok { // most values are payloads, and cmp is slow
		q := b.(annals.Payload)
		return p.SerializerID == q.SerializerID && p.Manifest == q.Manifest && bytes.Equal(p.Data, q.Data)
	}
	return cmp.Equal(a, b, cmpopts.EquateEmpty())
}

// show is a payload for a message.
func show(p annals.Payload) string {
	data := p.Data
	if len(data) > 40 {
		data = data[:40]
	}
	return fmt.Sprintf("payload (%d, %q, %d bytes %q)", p.SerializerID, p.Manifest, len(p.Data), data)
}

// collect reads a sequence to its end.
func collect[T any](seq iter.Seq2[T, error]) (all []T, err error) {
	for v, e := range seq {
		if e != nil {
			return all, e
		}
		all = append(all, v)
	}
	return all, nil
}

// together runs f(0) … f(n-1) in goroutines that start at the same moment, and waits for them.
func together(n int, f func(i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// shuffled are the numbers 1 … n in an order that looks random and is always the same.
func shuffled(n int) []annals.SeqNr {
	ns := make([]annals.SeqNr, n)
	for i := range ns {
		ns[i] = annals.SeqNr(i + 1)
	}
	slices.SortFunc(ns, func(a, b annals.SeqNr) int { return int(a*7919%10007) - int(b*7919%10007) })
	return ns
}
