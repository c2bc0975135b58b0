package subscription

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	random "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/stream"
	"github.com/annals-go/annals/internal/backoff"
)

// loop is one call of Subscribe. A goroutine holds its shards, another one for each shard reads what follows there, and the caller's takes
// deliveries.
type loop struct {
	*Subscriptions
	name   string
	filter annals.Filter
	id     string
	stop   context.CancelFunc
	left   chan struct{} // closed when the shards are free
	ready  chan struct{} // has a value when a delivery may be ready, or the loop has failed
	look   chan struct{} // has a value when the table is to be looked at now

	// These are of the goroutine that holds the shards.
	watch   watch
	round   int64 // that is held; 0 is none
	waits   bool  // for shards that others hand over
	list    bool  // a shard has ended, so others may follow
	listing struct {
		write string // of the head, when the shards of the stream were last known to be listed
		at    time.Time
	}
	readers sync.WaitGroup

	mu      sync.Mutex // of the fields below, and of those of held
	held    []*held
	turn    int       // the shard that is looked at first
	renewed time.Time // the view is as new as this
	trimmed int64     // the round in which records were removed before they were read; 0 is none
	ended   bool
	err     error // that ends the loop
}

func newLoop(s *Subscriptions, name string, f annals.Filter) *loop {
	return &loop{Subscriptions: s, name: name, filter: f, id: rand.Text()[:16], left: make(chan struct{}), ready: make(chan struct{}, 1), look: make(chan struct{}, 1)}
}

// signal puts a value into c, unless it has one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// fail ends the loop with err.
func (l *loop) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed(err)
}

// failed is fail with the lock held.
func (l *loop) failed(err error) {
	if e, ok := errors.AsType[*annals.Error](err); ok {
		err = e
	}
	l.err = cmp.Or(l.err, err)
	signal(l.ready)
}

// next waits for a delivery.
func (l *loop) next(ctx context.Context) (annals.Delivery, error) {
	for {
		if ctx.Err() != nil {
			return annals.Delivery{}, &annals.Error{Kind: annals.ErrUnavailable, Err: ctx.Err()}
		}
		h, d, err := l.take()
		switch {
		case err != nil:
			return annals.Delivery{}, err
		case d != nil:
			return annals.Delivery{Events: d.events, Ack: func(ctx context.Context) error { return l.ack(ctx, h, d) }}, nil
		}
		select {
		case <-l.ready:
		case <-ctx.Done():
		case <-l.closing:
			return annals.Delivery{}, errClosed
		}
	}
}

// take takes a delivery that is ready; nil when there is none.
func (l *loop) take() (*held, *delivery, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, nil, l.err
	}
	if time.Since(l.renewed) >= l.Lease {
		return nil, nil, nil // others may hold the shards: look first
	}
	for range l.held {
		l.turn = (l.turn + 1) % len(l.held)
		if h := l.held[l.turn]; h.next != nil && !h.parked && len(h.open) < maxOpen {
			d := h.next
			h.next, h.open = nil, append(h.open, d)
			signal(h.taken)
			return h, d, nil
		}
	}
	return nil, nil, nil
}

// run holds shards until ctx ends or the store is closed. Then it frees them.
func (l *loop) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		l.free(context.WithoutCancel(ctx))
	}()
	for failures := 0; ; {
		err := l.lookAt(ctx)
		wait := l.pace()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
		case transient(err):
			wait = backoff.Delay(failures)
			failures++
		default:
			l.fail(err)
			return
		}
		next := time.NewTimer(wait)
		select {
		case <-next.C:
		case <-l.look:
		case <-l.closing:
			return
		case <-ctx.Done():
			return
		}
		next.Stop()
	}
}

// pace is the time between two looks. It is random by a tenth, so that loops do not look at the same time.
func (l *loop) pace() time.Duration {
	wait := l.Lease / 3
	if l.waits {
		wait = l.Lease / 10
	}
	return wait*9/10 + random.N(wait/5+1)
}

// lookTime is the least time after which a look gives up. It may be longer than the lease: a sign of life that takes long is better than
// none.
const lookTime = 20 * time.Second

// lookAt shows a sign of life, reads the view, and then takes and frees shards as the view says.
func (l *loop) lookAt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(l.Lease, lookTime))
	defer cancel()
	began := time.Now()
	if l.round != 0 {
		beat := member{lease: l.Lease, round: l.round, write: newWrite()}
		if err := l.write(ctx, plan.Write{Ops: []plan.Op{{Table: l.Table, Put: beat.item(l.name, l.id)}}}); err != nil {
			return err
		}
	}
	v, err := load(ctx, l.Executor, l.Table, l.name)
	switch {
	case err != nil:
		return err
	case v.head == nil:
		signal(l.look)
		return l.begin(ctx, v)
	case v.head.filter != filterText(l.filter):
		return &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("the subscription %s has another filter", annals.Quote(l.name))}
	case l.round == 0: // the sign of life has to come before the first shard
		l.round = v.head.round
		signal(l.look)
		return nil
	}
	l.follow(v, began)
	if l.round != v.head.round {
		l.round = v.head.round
		signal(l.look)
	}
	if listed, err := l.listIfDue(ctx, v); listed || err != nil {
		signal(l.look)
		return err
	}
	if err := l.sweep(ctx, v); err != nil {
		return err
	}
	return l.hold(ctx, v)
}

func filterText(f annals.Filter) string {
	return fmt.Sprintf("type %q tag %q slices %v", f.Type, f.Tag, f.Slices)
}

// follow drops the shards that v says are not this loop's any more.
func (l *loop) follow(v view, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = began
	signal(l.ready)
	for _, h := range slices.Clone(l.held) {
		if i := slices.IndexFunc(v.shards, func(s shard) bool { return s.round == h.round && s.id == h.id }); i < 0 || v.shards[i].owner != l.id {
			l.lose(h)
		}
	}
}

// drop ends h. The lock is held.
func (l *loop) drop(h *held) {
	h.stop()
	l.held = slices.DeleteFunc(l.held, func(o *held) bool { return o == h })
}

// lose is drop for a shard that another loop has, or may have. Those after it follow.
func (l *loop) lose(h *held) {
	h.lost = true
	l.drop(h)
	for _, o := range slices.Clone(l.held) {
		if slices.Contains(o.after, h) {
			l.lose(o)
		}
	}
}

// begin stores a new round: the parts of the catch-up, and the shards that the stream has now.
func (l *loop) begin(ctx context.Context, v view) error {
	at := time.Now()
	name, shards, err := l.Stream.Shards(ctx)
	if err != nil {
		return err
	}
	next := head{filter: filterText(l.filter), stream: name, round: 1, listed: at}
	if v.head != nil {
		next.round = v.head.round + 1
	}
	var all []shard
	for n := range parts {
		all = append(all, shard{round: next.round, id: partID(n), since: at})
	}
	return l.register(ctx, v.head, next, append(all, parentsFirst(joined(nil, shards, next.round, at))...))
}

// joined are the shards of the stream that known does not have. Those whose parent is not known follow the catch-up.
func joined(known []shard, listed []stream.Shard, round int64, at time.Time) (all []shard) {
	ids := map[string]bool{}
	for _, s := range known {
		ids[s.id] = true
	}
	for _, s := range listed {
		if !ids[s.ID] {
			all = append(all, shard{round: round, id: s.ID, parent: s.Parent, since: at})
		}
	}
	for _, s := range all {
		ids[s.id] = true
	}
	for i := range all {
		if !ids[all[i].parent] {
			all[i].parent = catchUp
		}
	}
	return all
}

// registered is how many shards are stored in one transaction.
const registered = 90

// register stores next after stands, nil for no head, and shards, parents first. next.listed is stored with the last of them, but for a new
// round, whose shards were listed when it began.
func (l *loop) register(ctx context.Context, stands *head, next head, shards []shard) error {
	listed := next.listed
	if stands != nil && stands.round == next.round {
		next.listed = stands.listed
	}
	for {
		some := shards[:min(len(shards), registered)]
		if shards = shards[len(some):]; len(shards) == 0 {
			next.listed = listed
		}
		next.write = newWrite()
		ours := next.write
		op := plan.Op{Table: l.Table, Put: next.item(l.name), Condition: "attribute_not_exists(#write)", Names: map[string]string{"#write": attrWrite},
			Ours: func(old plan.Item) bool { return wrote(old, ours) }}
		if stands != nil {
			op.Condition, op.Values = "#write = :write", plan.Item{":write": plan.S(stands.write)}
		}
		w := plan.Write{Ops: []plan.Op{op}}
		for _, s := range some {
			s.write = newWrite()
			w.Ops = append(w.Ops, plan.Op{Table: l.Table, Put: s.item(l.name)})
		}
		if err := l.write(ctx, w); err != nil || len(shards) == 0 {
			return err
		}
		stored := next
		stands = &stored
	}
}

// wrote reports whether the write with this id stored it.
func wrote(it plan.Item, id string) bool {
	text, _ := plan.Text(it, attrWrite)
	return text == id
}

// listIfDue lists the shards of the stream and stores those that are new, unless another loop did within the lease. It is false when nothing
// has changed but the time.
func (l *loop) listIfDue(ctx context.Context, v view) (changed bool, err error) {
	now := time.Now()
	if l.listing.write != v.head.write {
		l.listing.write, l.listing.at = v.head.write, now
	}
	l.mu.Lock()
	trimmed := l.trimmed == v.head.round
	l.mu.Unlock()
	if !trimmed && !l.list && now.Sub(l.listing.at) < l.Lease {
		return false, nil
	}
	name, shards, err := l.Stream.Shards(ctx)
	switch {
	case err != nil:
		return false, err
	case trimmed || v.lost(name, shards, now):
		return true, l.begin(ctx, v)
	}
	fresh := parentsFirst(joined(v.shards, shards, v.head.round, now))
	next := *v.head
	next.listed = now
	if err := l.register(ctx, v.head, next, fresh); err != nil {
		return false, err
	}
	l.list, l.listing.write = false, ""
	return len(fresh) > 0, l.forget(ctx, v, shards)
}

// lost reports whether records were removed from the stream, or may have been, before they were read.
func (v view) lost(name string, listed []stream.Shard, now time.Time) bool {
	if v.head.stream != name || now.Sub(v.head.listed) > memory {
		return true
	}
	return slices.ContainsFunc(v.shards, func(s shard) bool {
		_, part := s.part()
		return !part && !s.ended && !slices.ContainsFunc(listed, func(o stream.Shard) bool { return o.ID == s.id })
	})
}

// forget deletes the shards that have ended and that the stream no longer has.
func (l *loop) forget(ctx context.Context, v view, listed []stream.Shard) error {
	var keys []plan.Item
	for _, s := range v.shards {
		if _, part := s.part(); !part && s.ended && !slices.ContainsFunc(listed, func(o stream.Shard) bool { return o.ID == s.id }) {
			keys = append(keys, s.key(l.name))
		}
	}
	return l.remove(ctx, keys)
}

func (l *loop) remove(ctx context.Context, keys []plan.Item) error {
	if len(keys) == 0 {
		return nil
	}
	return driver.Fetch(ctx, func(ctx context.Context) error { return l.Executor.DeleteAll(ctx, l.Table, keys) })
}

// sweep deletes the shards of earlier rounds. Then their owners cannot acknowledge anything.
func (l *loop) sweep(ctx context.Context, v view) error { return l.remove(ctx, v.void) }

// hold takes and frees shards so that this loop gets its share.
func (l *loop) hold(ctx context.Context, v view) error {
	dead := l.watch.look(v.loops, time.Now())
	dead = slices.DeleteFunc(dead, func(id string) bool { return id == l.id })
	for _, id := range dead {
		if err := l.bury(ctx, id, v.loops[id]); err != nil {
			return err
		}
	}
	if !v.settled(dead) {
		l.waits = true
		return nil
	}
	alive := []string{l.id}
	for id := range v.loops {
		if id != l.id && !slices.Contains(dead, id) {
			alive = append(alive, id)
		}
	}
	open := v.open()
	owners := share(open, alive)
	l.waits = false
	for _, s := range open {
		h, mine := l.holder(s), owners[s.id] == l.id
		switch {
		case h != nil:
			l.park(h, !mine)
		case s.owner == l.id: // an answer was lost
			l.start(ctx, v.head.stream, s)
		case mine && slices.Contains(alive, s.owner):
			l.waits = true // until it is handed over
		case mine:
			if err := l.claim(ctx, v.head.stream, s); err != nil {
				return err
			}
		}
	}
	for _, s := range v.shards {
		if after := l.before(v, s); after != nil && (s.owner == "" || s.owner == l.id || !slices.Contains(alive, s.owner)) {
			if err := l.claim(ctx, v.head.stream, s, after...); err != nil {
				return err
			}
		}
	}
	return l.settle(ctx)
}

// before returns the shards that s waits for, if this loop holds all of them and only their last acknowledgements are missing. Then it may
// hold s, too: a caller may want more deliveries before it acknowledges the first.
func (l *loop) before(v view, s shard) (all []*held) {
	if s.ended || l.holder(s) != nil {
		return nil
	}
	for _, p := range v.shards {
		if _, part := p.part(); p.ended || p.id != s.parent && (!part || s.parent != catchUp) {
			continue
		}
		h := l.holder(p)
		if h == nil || !l.handedOut(h) {
			return nil
		}
		all = append(all, h)
	}
	return all
}

func (l *loop) handedOut(h *held) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return h.finished && h.next == nil
}

func (l *loop) holder(s shard) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		if h.id == s.id {
			return h
		}
	}
	return nil
}

func (l *loop) park(h *held, parked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.parked && !parked {
		signal(l.ready)
	}
	h.parked = parked
}

// bury deletes the item of a loop that shows no sign of life. It is stored again when the loop goes on.
func (l *loop) bury(ctx context.Context, id string, m member) error {
	op := plan.Op{Table: l.Table, Key: key(l.name, itemLoop+id), Delete: true, Condition: "#write = :write",
		Names: map[string]string{"#write": attrWrite}, Values: plan.Item{":write": plan.S(m.write)}}
	return l.write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func([]plan.Item, bool) error { return nil }})
}

// claim makes s, of the stream name, this loop's.
func (l *loop) claim(ctx context.Context, name string, s shard, after ...*held) error {
	seen := s.write
	s.owner, s.write = l.id, newWrite()
	err := l.write(ctx, plan.Write{Ops: []plan.Op{l.change(s, seen, "")}})
	if errors.Is(err, annals.ErrConflict) { // another loop was faster
		return nil
	}
	if err == nil {
		l.start(ctx, name, s, after...)
	}
	return err
}

// change stores s in place of the item of the shard that the write seen has stored.
func (l *loop) change(s shard, seen string, position string) plan.Op {
	u := plan.NewUpdate()
	set := func(attribute, text string) { u.SetTo(attribute, u.Value(plan.S(text))) }
	set(attrWrite, s.write)
	if position != "" {
		set(attrPosition, position)
	}
	if s.ended {
		u.SetTo(attrEnded, u.Value(plan.Bool(true)))
	}
	if s.owner != "" {
		set(attrOwner, s.owner)
	} else {
		u.Remove(attrOwner)
	}
	condition := u.Name(attrWrite) + " = " + u.Value(plan.S(seen))
	ours := s.write
	return plan.Op{Table: l.Table, Key: s.key(l.name), Update: u.Expression(), Condition: condition, Names: u.Names, Values: u.Values,
		Ours: func(old plan.Item) bool { return wrote(old, ours) }}
}

// settle stores how far the shards have been read that have no open deliveries, and gives up those that have ended or are parked.
func (l *loop) settle(ctx context.Context) error {
	l.mu.Lock()
	all := slices.Clone(l.held)
	l.mu.Unlock()
	for _, h := range all {
		gone, err := l.settleOne(ctx, h)
		if err != nil && !errors.Is(err, annals.ErrFenced) {
			return err
		}
		if gone || err != nil {
			signal(l.look)
		}
	}
	return nil
}

func (l *loop) settleOne(ctx context.Context, h *held) (gone bool, err error) {
	if err := l.flush(ctx, h); err != nil {
		return false, err
	}
	if err := h.lock(ctx); err != nil {
		return false, err
	}
	defer h.unlock()
	l.mu.Lock()
	idle := len(h.open) == 0 && !h.lost
	s, position := h.shard, h.stored
	if idle && h.next == nil {
		position = h.read
		s.ended = h.finished && h.clear()
	}
	release := idle && h.parked && !s.ended
	nothing := !idle || position == h.stored && !s.ended && !release
	l.mu.Unlock()
	if nothing {
		return false, nil
	}
	if s.ended || release {
		s.owner = ""
	}
	if err := l.store(ctx, h, s, position, nil); err != nil || s.owner != "" {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(h)
	l.list = l.list || s.ended
	return true, nil
}

// free gives up everything when the loop ends.
func (l *loop) free(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(l.Lease, time.Second))
	defer cancel()
	l.mu.Lock()
	all := slices.Clone(l.held)
	l.mu.Unlock()
	for _, h := range all {
		_ = l.flush(ctx, h) // what was not stored is delivered again
	}
	l.mu.Lock()
	l.ended = true
	for _, h := range all {
		h.stop()
	}
	l.mu.Unlock()
	l.readers.Wait()
	for _, h := range all {
		l.release(ctx, h)
	}
	if l.round != 0 { // an error makes others wait for the lease
		_, _ = l.Executor.Write(ctx, plan.Write{Ops: []plan.Op{{Table: l.Table, Key: key(l.name, itemLoop+l.id), Delete: true}}})
	}
}

// release frees h when the loop ends. An error makes others wait for the lease.
func (l *loop) release(ctx context.Context, h *held) {
	if h.lock(ctx) != nil {
		return
	}
	defer h.unlock()
	s := h.shard
	s.owner = ""
	l.mu.Lock()
	lost := h.lost
	l.drop(h)
	l.mu.Unlock()
	if !lost {
		_ = l.store(ctx, h, s, "", nil)
	}
}
