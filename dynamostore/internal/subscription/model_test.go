package subscription

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/random"
)

const hashes = 1 << 16

// hashOf is that of the partition key of an image, and of its whole key when the items of an entity are in several shards.
func (s *fakeStream) hashOf(image plan.Item) uint64 {
	h, key := fnv.New64a(), plan.KeyText(image["pid"])
	if s.apart {
		key += plan.KeyText(image["seq"])
	}
	_, _ = h.Write([]byte(key))
	return h.Sum64() % hashes
}

// readModel is what consumers made of their deliveries. It knows the number of each entity, as a table would that has it beside its rows.
type readModel struct {
	testing.TB
	mu     sync.Mutex
	last   map[annals.PersistenceID]annals.SeqNr
	acked  map[annals.PersistenceID]annals.SeqNr // by an acknowledgement that succeeded
	apart  bool                                  // two loops may have events of one entity at the same time, of which one can acknowledge them
	again  int                                   // events that were delivered more than once
	trace  []string
	events int
}

// consume handles deliveries until ctx ends. late acknowledges them some time later, in any order.
func (m *readModel) consume(ctx context.Context, who int, p *process, random *random.Source, late bool) {
	var wait sync.WaitGroup
	defer wait.Wait()
	known := m.acknowledged()
	for d, err := range p.Subscribe(ctx, "s", annals.Filter{}) {
		if err != nil {
			if ctx.Err() == nil {
				m.Errorf("the loop of process %d ends with %v", who, err)
			}
			return
		}
		m.handle(who, d, known)
		pause := time.After(0)
		if random.OneIn(4) {
			pause = time.After(random.Below(2 * lease))
		}
		ack := func() {
			select {
			case <-pause:
			case <-ctx.Done():
			}
			for {
				err := d.Ack(ctx)
				again := errors.Is(err, annals.ErrUnknown) || errors.Is(err, annals.ErrUnavailable)
				switch {
				case err == nil && !late:
					m.acknowledge(d)
				case again && ctx.Err() == nil:
					continue
				case err != nil && !errors.Is(err, annals.ErrFenced) && !again:
					m.Errorf("acknowledge: %v", err)
				}
				return
			}
		}
		if late {
			wait.Go(ack)
		} else {
			ack()
		}
		known = m.acknowledged()
	}
}

func (m *readModel) acknowledged() map[annals.PersistenceID]annals.SeqNr {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.acked)
}

func (m *readModel) acknowledge(d ability.Delivery) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range d.Events {
		if e.SeqNr <= m.acked[e.ID] {
			m.Errorf("number %d of %q is acknowledged twice", e.SeqNr, e.ID)
		}
		m.acked[e.ID] = max(m.acked[e.ID], e.SeqNr)
	}
}

// handle adds what is new. known was acknowledged before the delivery was asked for.
func (m *readModel) handle(who int, d ability.Delivery, known map[annals.PersistenceID]annals.SeqNr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range d.Events {
		m.events++
		m.trace = append(m.trace, fmt.Sprintf("%v process %d: %s number %d, of %d", time.Now().Format(time.TimeOnly), who, e.ID, e.SeqNr, m.last[e.ID]))
		switch last := m.last[e.ID]; {
		case e.SeqNr <= known[e.ID] && !m.apart:
			m.Errorf("process %d: number %d of %q was acknowledged, and is delivered", who, e.SeqNr, e.ID)
		case e.SeqNr <= last:
			m.again++
		case e.SeqNr > last+1:
			m.Errorf("process %d: number %d of %q after %d", who, e.SeqNr, e.ID, last)
			m.last[e.ID] = e.SeqNr
		default:
			m.last[e.ID] = e.SeqNr
		}
	}
}

// Processes consume a stream while events are written, shards are split, records change their order or are removed, and processes crash, are
// stopped and leave. The read model becomes that of a replay: nothing is left out, nothing comes before what it follows, nothing is acknowledged
// twice, and what was acknowledged is not delivered again, unless the items of an entity are in several shards.
func TestModel(t *testing.T) {
	t.Parallel()
	random.Each(t, 3, func(t *testing.T, r *random.Source) {
		synctest.Test(t, func(t *testing.T) { model(t, r) })
	})
}

func model(t *testing.T, random *random.Source) {
	w := newWorld(t, random.Uint64())
	w.stream.near, w.stream.apart = random.IntN(4), random.OneIn(2)
	m := &readModel{TB: t, apart: w.stream.apart, last: map[annals.PersistenceID]annals.SeqNr{}, acked: map[annals.PersistenceID]annals.SeqNr{}}
	writer := w.process()
	written := map[annals.PersistenceID]annals.SeqNr{}
	write := func(n int) {
		for range n {
			id := annals.NewPersistenceID("A", fmt.Sprint(random.IntN(30)))
			k := 1 + random.IntN(4)
			writer.append(id, written[id], k)
			written[id] += annals.SeqNr(k)
		}
	}
	type running struct {
		*process
		stop context.CancelFunc
	}
	var all []running
	var wait sync.WaitGroup
	begin := func() *process {
		p, who := w.process(), random.IntN(1000)
		if random.OneIn(3) {
			p.slow(random.Below(lease / 2))
		}
		own, late := random.Child(), random.OneIn(3)
		if random.OneIn(2) { // answers are lost
			p.fault = func(plan.Write) (before, after error) {
				switch own.IntN(20) {
				case 0:
					return errDown, nil
				case 1:
					return nil, &annals.Error{Kind: annals.ErrUnknown}
				}
				return nil, nil
			}
		}
		if random.OneIn(2) { // writes overtake others
			p.late = func() time.Duration {
				if own.OneIn(10) {
					return own.Below(4 * lease)
				}
				return 0
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		all = append(all, running{p, cancel})
		wait.Go(func() { m.consume(ctx, who, p, own, late) })
		return p
	}
	end := func(i int) {
		all[i].stop()
		all = slices.Delete(all, i, i+1)
	}
	// outage is a time of up to two days in which no process reads. It begins with shards that end while those after them cannot be listed. After
	// some of it a process begins, lists shards, and ends before it has read.
	outage := func() {
		for _, p := range all {
			p.fail(false, true)
		}
		w.stream.roll()
		<-time.After(5*lease + random.Below(10*lease))
		for _, p := range all {
			p.pause(48 * time.Hour)
		}
		rest := func() {
			for range 3 {
				write(1 + random.IntN(5))
				<-time.After(random.Below(8 * time.Hour))
				if random.OneIn(2) {
					w.stream.roll()
				}
			}
		}
		rest()
		if !random.OneIn(4) {
			begin().fail(true, false)
			<-time.After(10 * lease)
			end(len(all) - 1)
			rest()
		}
		for _, p := range all {
			p.pause(random.Below(time.Hour))
			p.fail(false, false)
		}
	}
	write(20)
	begin()
	for range 120 {
		switch random.IntN(20) {
		case 0, 1:
			w.stream.split()
		case 2:
			if len(all) < 4 {
				begin()
			}
		case 3:
			if len(all) > 0 {
				i := random.IntN(len(all))
				all[i].crash()
				end(i)
			}
		case 4:
			if len(all) > 0 {
				end(random.IntN(len(all)))
			}
		case 5:
			if len(all) > 0 {
				all[random.IntN(len(all))].pause(random.Below(4 * lease))
			}
		case 6:
			if random.OneIn(8) {
				outage()
			}
		default:
			write(1 + random.IntN(5))
		}
		<-time.After(random.Below(2 * time.Second))
	}
	begin()
	behind := func() (n int) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for id, last := range written {
			n += int(last - m.last[id])
		}
		return n
	}
	for range 600 {
		if behind() == 0 {
			break
		}
		<-time.After(time.Second)
	}
	for len(all) > 0 {
		end(0)
	}
	wait.Wait()
	<-time.After(4 * lease) // the last writes arrive
	if n := behind(); n > 0 {
		t.Errorf("%d events are not delivered", n)
	}
	for id, last := range m.last {
		if last != written[id] {
			t.Errorf("%q has %d events, and number %d was delivered", id, written[id], last)
		}
	}
	if t.Failed() {
		for _, line := range m.trace[:min(len(m.trace), 400)] {
			t.Log(line)
		}
	}
	t.Logf("%d events, delivered %d times, %d of them again", len(written), m.events, m.again)
}
