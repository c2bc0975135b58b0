package subscription

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/internal/stream"
	"github.com/annals-go/annals/internal/random"
)

const (
	subscriptions = "subscriptions"
	lease         = 3 * time.Second
)

// world is a table with events and its stream, in memory. Processes use it at the same time.
type world struct {
	testing.TB
	mu     sync.Mutex // of the tables
	tables *plantest.Executor
	offer  plan.Offer
	stream *fakeStream
}

func newWorld(t testing.TB, seed uint64) *world {
	t.Helper()
	offer, err := commit.Layout{}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, tables: plantest.New(append(offer.Tables, Table(subscriptions))), offer: offer, stream: newFakeStream(seed)}
	w.tables.Changed = func(table string, image plan.Item, created bool) {
		if table == offer.Feed.Table {
			w.stream.add(image, created)
		}
	}
	return w
}

// process is a process with a store of the world.
type process struct {
	*remote
	*Subscriptions
	annals.Journal
	plan.Contracts
}

func (w *world) process() *process {
	r := &remote{Executor: w.tables, w: w}
	c := w.offer.On(r)
	return &process{r, New(Source{Executor: r, Journal: c.Journal, Feed: w.offer.Feed, Stream: remoteStream{r, w.stream}, Table: subscriptions, Lease: lease}), c.Journal, c}
}

// append stores n events after the number after.
func (p *process) append(id annals.PersistenceID, after annals.SeqNr, n int) {
	p.w.Helper()
	c := annals.Commit{ID: id, After: after, WriteID: annals.NewWriteID()}
	for i := range n {
		c.Events = append(c.Events, plantest.Event(fmt.Sprint(int(after)+i+1)))
	}
	if _, err := p.Journal.Append(p.w.Context(), c); err != nil {
		p.w.Fatal(err)
	}
}

// remote is the executor of one process. Its requests fail when the process has crashed, and wait while it is stopped.
type remote struct {
	plan.Executor
	w *world

	mu      sync.Mutex
	crashed bool
	until   time.Time     // the process is stopped
	listing time.Duration // how long a page of the list of shards takes
	deaf    bool          // requests for records fail
	blind   bool          // requests for the list of shards fail
	fault   func(w plan.Write) (before, after error)
	late    func() time.Duration // how long a write takes before it reaches the tables, also after its caller has given up; nil: no time
	refused error                // when not nil, every request fails with it
	counts  map[string]int       // of requests for events, by kind
}

var errDown = &annals.Error{Kind: annals.ErrUnavailable, Err: errors.New("down")}

func (r *remote) crash() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crashed = true
}

func (r *remote) pause(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = time.Now().Add(d)
}

// slow makes a page of the list of shards take d.
func (r *remote) slow(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listing = d
}

// fail sets which requests to the stream fail: those for records, and those for the list of shards.
func (r *remote) fail(records, list bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deaf, r.blind = records, list
}

// failed returns the errors of requests for records, and for the list of shards.
func (r *remote) failed() (records, list error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deaf {
		records = errDown
	}
	if r.blind {
		list = errDown
	}
	return records, list
}

// do runs a request.
func (r *remote) do(fn func()) error {
	<-time.After(time.Millisecond)
	r.mu.Lock()
	until := r.until
	r.mu.Unlock()
	<-time.After(time.Until(until))
	r.mu.Lock()
	failed := r.refused
	if r.crashed {
		failed = errDown
	}
	r.mu.Unlock()
	if failed != nil {
		return failed
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	fn()
	_ = r.w.tables.Log() // the log of a long world would take much memory
	return nil
}

func (r *remote) Now() (at time.Time) { return time.Now().UTC() }

func (r *remote) Get(ctx context.Context, g plan.Get) (it plan.Item, ok bool, err error) {
	failed := r.do(func() { it, ok, err = r.Executor.Get(ctx, g) })
	return it, ok, errors.Join(failed, err)
}

// count adds a request for the items of a table to the counts.
func (r *remote) count(kind, table string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	if table != subscriptions || kind == "marks" {
		r.counts[kind]++
	}
}

// counted returns the counts since the last call.
func (r *remote) counted() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.counts
	r.counts = nil
	return counts
}

// refuse lets every request fail with err; nil: none.
func (r *remote) refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = err
}

func (r *remote) GetAll(ctx context.Context, table string, keys []plan.Item) (items []plan.Item, err error) {
	r.count("marks", table)
	failed := r.do(func() { items, err = r.Executor.GetAll(ctx, table, keys) })
	if failed != nil {
		err = failed
	}
	return items, err
}

func (r *remote) Write(ctx context.Context, w plan.Write) (out plan.Outcome, err error) {
	var before, after error
	r.mu.Lock()
	if r.fault != nil {
		before, after = r.fault(w)
	}
	r.mu.Unlock()
	if before != nil {
		return out, before
	}
	if r.late != nil {
		arrives := time.After(r.late())
		select {
		case <-arrives:
		case <-ctx.Done():
			go func() {
				<-arrives
				_ = r.do(func() { _, _ = r.Executor.Write(context.WithoutCancel(ctx), w) })
			}()
			return out, &annals.Error{Kind: annals.ErrUnknown}
		}
	}
	if failed := r.do(func() { out, err = r.Executor.Write(ctx, w) }); failed != nil {
		err = failed
	}
	if err == nil {
		err = after
	}
	return out, err
}

func (r *remote) DeleteAll(ctx context.Context, table string, keys []plan.Item) (err error) {
	if failed := r.do(func() { err = r.Executor.DeleteAll(ctx, table, keys) }); failed != nil {
		err = failed
	}
	return err
}

func (r *remote) Query(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	r.count("queries", q.Table)
	return remotely(r, func() iter.Seq2[plan.Item, error] { return r.Executor.Query(ctx, q) })
}

func (r *remote) Series(ctx context.Context, queries iter.Seq[plan.Query], ahead int) iter.Seq2[plan.Page, error] {
	return remotely(r, func() iter.Seq2[plan.Page, error] { return r.Executor.Series(ctx, queries, ahead) })
}

func (r *remote) Merge(ctx context.Context, queries []plan.Query, order string) iter.Seq2[plan.Item, error] {
	return remotely(r, func() iter.Seq2[plan.Item, error] { return r.Executor.Merge(ctx, queries, order) })
}

func (r *remote) ScanAll(ctx context.Context, table string, fields []string, p plan.Part) iter.Seq2[plan.Item, error] {
	r.count("scans", table)
	return remotely(r, func() iter.Seq2[plan.Item, error] { return r.Executor.ScanAll(ctx, table, fields, p) })
}

func remotely[T any](r *remote, read func() iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		type one struct {
			v   T
			err error
		}
		var all []one
		err := r.do(func() {
			for v, err := range read() {
				all = append(all, one{v, err})
			}
		})
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for _, o := range all {
			if !yield(o.v, o.err) {
				return
			}
		}
	}
}

// fakeStream is a stream in memory. It keeps a record for a day.
type fakeStream struct {
	mu     sync.Mutex
	name   string
	shards []*fakeShard
	random *random.Source
	grown  int  // so many shards have been made; their ids are in no order
	near   int  // a new record is put before at most so many records that have not been read
	apart  bool // the items of an entity are in several shards
}

// fakeShard has the records of the items whose partition keys have a hash from ≤ h < to.
type fakeShard struct {
	stream.Shard
	closed   bool      // it gets no more records
	until    time.Time // when it was closed
	from, to uint64
	records  []stream.Record
	times    []time.Time // of the records
	trimmed  int         // so many of them are removed
	read     int         // so many of them have been read: their order is fixed
}

func newFakeStream(seed uint64) *fakeStream {
	s := &fakeStream{name: "stream", random: random.Of(seed)}
	s.grow("", 0, hashes/2)
	s.grow("", hashes/2, hashes)
	return s
}

func (s *fakeStream) grow(parent string, from, to uint64) {
	s.grown++
	s.shards = append(s.shards, &fakeShard{Shard: stream.Shard{ID: fmt.Sprintf("shardId-%04d", s.random.IntN(100)*1000+s.grown), Parent: parent}, from: from, to: to})
}

func (s *fakeStream) add(image plan.Item, created bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range s.shards {
		if h := s.hashOf(image); !sh.closed && sh.from <= h && h < sh.to {
			at := len(sh.records)
			if n := min(s.near, at-sh.read); n > 0 {
				at -= s.random.IntN(n + 1)
			}
			sh.records = slices.Insert(sh.records, at, stream.Record{Created: created, Image: image})
			sh.times = append(sh.times, time.Now())
		}
	}
}

// roll closes each open shard, as the service does after some hours; others go on.
func (s *fakeStream) roll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range slices.Clone(s.shards) {
		if !sh.closed {
			sh.closed, sh.until = true, time.Now()
			s.grow(sh.ID, sh.from, sh.to)
		}
	}
}

// split closes an open shard; two others go on.
func (s *fakeStream) split() {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := slices.DeleteFunc(slices.Clone(s.shards), func(sh *fakeShard) bool { return sh.closed || sh.to-sh.from < 2 })
	sh := open[s.random.IntN(len(open))]
	sh.closed, sh.until = true, time.Now()
	middle := (sh.from + sh.to) / 2
	s.grow(sh.ID, sh.from, middle)
	s.grow(sh.ID, middle, sh.to)
}

// trim removes the oldest records: of each shard but the last ones.
func (s *fakeStream) trim(keep int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range s.shards {
		sh.trimmed = max(sh.trimmed, len(sh.records)-keep)
	}
	s.age()
}

// age removes the records that are older than a day, and the shards that were closed before that. The lock is held.
func (s *fakeStream) age() {
	for _, sh := range s.shards {
		for sh.trimmed < len(sh.records) && old(sh.times[sh.trimmed]) {
			sh.trimmed++
		}
		sh.read = max(sh.read, sh.trimmed)
	}
	s.shards = slices.DeleteFunc(s.shards, func(sh *fakeShard) bool { return sh.closed && old(sh.until) })
}

func old(at time.Time) bool { return time.Since(at) > 24*time.Hour }

const shardsOfAPage = 5

// list lists shards in the order of their ids, a page of them in any order.
func (s *fakeStream) list(after string) (page []stream.Shard, next string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age()
	for _, sh := range s.shards {
		if sh.ID > after {
			page = append(page, sh.Shard)
		}
	}
	slices.SortFunc(page, func(a, b stream.Shard) int { return strings.Compare(a.ID, b.ID) })
	if len(page) > shardsOfAPage {
		page = page[:shardsOfAPage]
		next = page[len(page)-1].ID
	}
	s.random.Shuffle(len(page), func(i, j int) { page[i], page[j] = page[j], page[i] })
	return page, next
}

// remoteStream is the stream as one process reads it.
type remoteStream struct {
	r *remote
	s *fakeStream
}

func (s remoteStream) Name(context.Context) (name string, err error) {
	err = s.r.do(func() { name = s.s.name })
	return name, err
}

func (s remoteStream) Shards(ctx context.Context, name, after string) (page []stream.Shard, next string, err error) {
	s.r.mu.Lock()
	takes := s.r.listing
	s.r.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, "", &annals.Error{Kind: annals.ErrUnavailable, Err: ctx.Err()}
	}
	failed := s.r.do(func() {
		if page, next = s.s.list(after); name != s.s.name {
			err = plan.Misfit("there is no stream %s", name)
		}
	})
	_, blind := s.r.failed()
	return page, next, errors.Join(err, failed, blind)
}

func (s remoteStream) Reader(_, shard, after string) Reader {
	at := 0
	if after != "" {
		at, _ = strconv.Atoi(after)
	}
	return &fakeReader{s: s, shard: shard, at: at, started: after != ""}
}

// fakeReader is a reader. The number of a record is its place in its shard.
type fakeReader struct {
	s       remoteStream
	shard   string
	at      int
	started bool
}

const recordsOfAPage = 5

func (r *fakeReader) Next(ctx context.Context) (records []stream.Record, end bool, err error) {
	for {
		failed := r.s.r.do(func() { records, end, err = r.read() })
		deaf, _ := r.s.r.failed()
		if failed := errors.Join(failed, deaf); failed != nil {
			return nil, false, failed
		}
		if err != nil || end || len(records) > 0 {
			return records, end, err
		}
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (r *fakeReader) read() (records []stream.Record, end bool, err error) {
	s := r.s.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age()
	i := slices.IndexFunc(s.shards, func(sh *fakeShard) bool { return sh.ID == r.shard })
	if i < 0 {
		return nil, false, fmt.Errorf("%w: no shard", stream.ErrTrimmed)
	}
	sh := s.shards[i]
	if r.at < sh.trimmed {
		if r.started {
			return nil, false, fmt.Errorf("%w: %d of %d", stream.ErrTrimmed, r.at, sh.trimmed)
		}
		r.at = sh.trimmed
	}
	for r.at < len(sh.records) && len(records) < recordsOfAPage {
		rec := sh.records[r.at]
		r.at++
		rec.Sequence = strconv.Itoa(r.at)
		records = append(records, rec)
	}
	sh.read = max(sh.read, r.at)
	r.started = r.started || len(records) > 0
	return records, sh.closed && r.at == len(sh.records), nil
}
