package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
)

var replayCases = []testCase{
	{id: "REPLAY-1", about: "breaking off early, many times, leaks no goroutines", needs: needs(events), own: true, run: breakOffEarly},
	{id: "REPLAY-2", about: "the body of a replay may append to the same entity", needs: needs(events), run: appendWithinReplay},
	{id: "REPLAY-3", about: "replays may be nested", needs: needs(events), run: nestedReplays},
	{id: "REPLAY-4", about: "events have their id, and all events of a commit the time of its receipt, in UTC and microseconds, or none without Times", needs: needs(events), run: fieldsOfEvents},
	{id: "REPLAY-6", about: "a follower that replays from the next number misses no event that is written at the same time", needs: needs(events), run: tailBesideWriter},
	{id: "PAGE-2", about: "more bytes than a page holds are all replayed", needs: needs(events), run: manyBytes},
	{id: "PAGE-3", about: "replays of consecutive ranges of any size are together the whole", needs: needs(events), run: windows},
	{id: "PAGE-4", about: "more single events than a page holds, the first of them deleted", needs: needs(events), run: manySinglesCut},
	{id: "Q-G3", about: "an event that is written during a replay of the three before it", needs: needs(events), run: writtenMeanwhile},
}

// breakOffEarly counts the goroutines that are left after many replays that break off. A few may belong to connections that were opened meanwhile.
func breakOffEarly(h *harness) {
	const few = 50
	id, rounds := h.id(), h.volume(200, 80)
	h.write(id, 0, h.volume(400, 200))
	label := pprof.Labels("storetest", annals.NewWriteID().String()) // goroutines inherit it
	pprof.Do(h.ctx, label, func(ctx context.Context) {
		for i := range rounds {
			if i%2 == 0 {
				h.atMost(id, 1, annals.MaxSeqNr, 1+i%7)
				continue
			}
			next, stop := iter.Pull2(h.journal().Replay(ctx, id, 1, annals.MaxSeqNr))
			h.wantEvents("first step of a replay", h.steps(next, 1), id, 1, 1)
			stop()
		}
		value, _ := pprof.Label(ctx, "storetest")
		if left := goroutines(value, few); left > few {
			h.Errorf("goroutines left by %d replays that were broken off: got %d, want none, or a few of connections", rounds, left)
		}
	})
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, h.last(id))
	h.write(id, h.last(id), 1)
	if err := h.store.Close(); err != nil {
		h.Errorf("Close after replays that were broken off: got %v, want nil", err)
	}
}

// goroutines waits until at most limit goroutines have the label, for at most five seconds, and returns how many have it.
func goroutines(label string, limit int) int {
	for deadline := time.Now().Add(5 * time.Second); ; runtime.Gosched() {
		if n := labelled(label); n <= limit || time.Now().After(deadline) {
			return n
		}
	}
}

// labelled counts the goroutines with the label in the goroutine profile. A record of the profile begins with a count; the next line has the labels.
func labelled(label string) (n int) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return 0
	}
	count := 0
	for line := range strings.Lines(profile.String()) {
		if _, err := fmt.Sscanf(line, "%d @", &count); err == nil {
			continue
		}
		if strings.HasPrefix(line, "# labels:") && strings.Contains(line, label) {
			n += count
		}
	}
	return n - 1 // without the caller
}

func appendWithinReplay(h *harness) {
	id, n := h.id(), annals.SeqNr(h.volume(300, 50))
	last := h.write(id, 0, int(n))
	var got []annals.Event
	for e, err := range h.journal().Replay(h.ctx, id, 1, n) {
		if err != nil {
			h.Fatalf("replay of %d events with appends in its body: got error %v after %d events, want none", n, err, len(got))
		}
		got = append(got, e)
		if e.SeqNr%10 == 0 {
			last = h.write(id, last, 1)
			h.wantLast(id, last)
		}
	}
	h.wantEvents("replay with appends in its body", got, id, 1, n)
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, last)
}

func nestedReplays(h *harness) {
	a, b := h.id(), h.id()
	h.write(a, 0, 10)
	h.write(b, 0, 10)
	n := 0
	for _, err := range h.journal().Replay(h.ctx, a, 1, annals.MaxSeqNr) {
		if err != nil {
			h.Fatalf("outer replay: got error %v after %d events, want none", err, n)
		}
		h.wantReplay(a, 3, 7, 3, 7)
		h.wantReplay(b, 1, annals.MaxSeqNr, 1, 10)
		n++
	}
	h.wantEqual(n, 10, "events of the outer replay")
}

func fieldsOfEvents(h *harness) {
	id := h.id()
	var receipts []annals.Receipt
	var commits []annals.Commit
	for range 3 {
		c := h.commit(id, annals.SeqNr(2*len(receipts)), 2)
		if h.batch(2) == 1 {
			c = h.commit(id, annals.SeqNr(len(receipts)), 1)
		}
		commits, receipts = append(commits, c), append(receipts, h.append(c))
	}
	size := len(commits[0].Events)
	for i, e := range h.events(id, 1, receipts[2].SeqNr) {
		c, r := commits[i/size], receipts[i/size]
		if e.ID != id || e.WriteID != (annals.WriteID{}) && e.WriteID != c.WriteID {
			h.Errorf("number %d: got id %q and write %v, want %q and %v (or zero)", e.SeqNr, e.ID, e.WriteID, id, c.WriteID)
		}
		if h.caps.Times && (!e.Time.After(time.Unix(0, 0)) || e.Time.Location() != time.UTC || e.Time.Nanosecond()%1000 != 0) {
			h.Errorf("time of number %d: got %v, want one after 1970, UTC in microseconds", e.SeqNr, e.Time)
		}
		if !e.Time.Equal(r.Time) {
			h.Errorf("time of number %d: got %v, want %v as in the receipt", e.SeqNr, e.Time, r.Time)
		}
	}
}

// tailBesideWriter lets one goroutine append while others follow the journal: each replay begins after the last number that the replay before
// yielded. The writer appends when a follower that has seen all events begins its next replay.
func tailBesideWriter(h *harness) {
	const followers = 3
	id, end := h.id(), annals.SeqNr(h.volume(400, 60))
	var acked, left atomic.Int64
	left.Store(followers)
	begins := make(chan struct{}, 1)
	begin := func() {
		select {
		case begins <- struct{}{}:
		default:
		}
	}
	errs := make([]error, 1+followers)
	together(len(errs), func(i int) {
		if i == 0 {
			for round := 0; errs[i] == nil && annals.SeqNr(acked.Load()) < end; round++ {
				if left.Load() > 0 {
					<-begins
				}
				var r annals.Receipt
				r, errs[i] = h.send(h.ctx, h.store, h.commit(id, annals.SeqNr(acked.Load()), h.batch(1+round%3)))
				acked.Store(int64(r.SeqNr))
			}
			acked.Store(int64(end)) // also after an error: the others must not wait
			return
		}
		defer begin()
		defer left.Add(-1)
		for seen := annals.SeqNr(0); errs[i] == nil && seen < end; {
			before := annals.SeqNr(acked.Load())
			if seen == before {
				begin()
			}
			es, err := collect(h.journal().Replay(h.ctx, id, seen+1, annals.MaxSeqNr))
			if fault := eventsFault(es, id, seen+1, seen+annals.SeqNr(len(es))); err == nil && fault != "" {
				err = fmt.Errorf("replay from %d: got %s, want no hole: %s", seen+1, span(es), fault)
			}
			if seen += annals.SeqNr(len(es)); err == nil && seen < before {
				err = fmt.Errorf("replay ends with %d, want at least %d, which was acknowledged before", seen, before)
			}
			errs[i] = err
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("appends and followers side by side: %v", err)
	}
}

// manyBytes writes 3 MB in events of 4 KB: pages of DynamoDB end at 1 MB.
func manyBytes(h *harness) {
	id, n, size := h.id(), h.volume(768, 300), 4096
	if limit := h.caps.Limits.MaxBytes; limit > 0 {
		size = min(size, limit/2-len("big"))
	}
	fill := func(n annals.SeqNr) annals.Payload {
		return annals.Payload{SerializerID: 4, Manifest: "big", Data: bytes.Repeat([]byte{byte(n), byte(n >> 8)}, size/2)}
	}
	var after annals.SeqNr
	perCommit := h.batch(8)
	if limit := h.caps.Limits.MaxBytes; limit > 0 {
		perCommit = max(min(perCommit, limit/(size+len("big"))), 1)
	}
	for after < annals.SeqNr(n) {
		c := h.commit(id, after, perCommit)
		for i := range c.Events {
			c.Events[i].Payload = fill(after + annals.SeqNr(i) + 1)
		}
		after = h.append(h.complete(c)).SeqNr
	}
	es := h.replay(id, 1, annals.MaxSeqNr)
	if annals.SeqNr(len(es)) != after {
		h.Errorf("replay of %d events of %d bytes: got %s", after, size, span(es))
	}
	for i, e := range es {
		if want := annals.SeqNr(i + 1); e.SeqNr != want || !equal(e.Payload, fill(want)) {
			h.Fatalf("at place %d of a replay: got number %d with %s, want number %d with %s", i+1, e.SeqNr, show(e.Payload), want, show(fill(want)))
		}
	}
}

func windows(h *harness) {
	id := h.id()
	last := h.writeSizes(id, h.write(id, 0, 998), 4) // in the middle of which a window of 1,000 ends
	last = h.write(id, last, h.volume(348, 1))
	for _, size := range []annals.SeqNr{50, 99, 100, 101, 1000} {
		var all []annals.Event
		for from := annals.SeqNr(1); from <= last; from += size {
			all = append(all, h.replay(id, from, from+size-1)...)
		}
		if fault := eventsFault(all, id, 1, last); fault != "" {
			h.Errorf("replay in windows of %d: got %s, want all %d; %s", size, span(all), last, fault)
		}
	}
}

func manySinglesCut(h *harness) {
	id, n := h.id(), h.volume(600, 150)
	for i := range n {
		h.append(h.commit(id, annals.SeqNr(i), 1))
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, annals.SeqNr(n))
	cut := annals.SeqNr(n / 2)
	h.deleteTo(id, cut)
	h.wantReplay(id, 1, annals.MaxSeqNr, cut+1, annals.SeqNr(n))
	h.wantReplay(id, cut, cut+1, cut+1, cut+1)
	h.wantReplay(id, 1, cut, 1, 0)
}

func writtenMeanwhile(h *harness) {
	id := h.id()
	h.write(id, 0, 3)
	next, stop := iter.Pull2(h.journal().Replay(h.ctx, id, 0, annals.MaxSeqNr))
	defer stop()
	got := h.steps(next, 2)
	h.write(id, 3, 1)
	got = append(got, h.steps(next, 10)...)
	if len(got) != 4 { // the fourth event may be seen or not
		h.wantEvents("replay with a fourth event written meanwhile", got, id, 1, 3)
		return
	}
	h.wantEvents("replay with a fourth event written meanwhile", got, id, 1, 4)
}
