package akka0_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/internal/akkawire"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// plugin reads and writes a table as the plugin does (docs/formats/akka-v0.md), with the plugin's faults.
type plugin struct {
	bench
	name   string
	shards annals.SeqNr
}

func (b bench) plugin() plugin {
	return plugin{b, cmp.Or(b.layout.JournalName, "journal"), annals.SeqNr(cmp.Or(b.layout.SequenceShards, 1000))}
}

func (p plugin) key(kind string, id annals.PersistenceID, n annals.SeqNr) string {
	return fmt.Sprintf("%s-%s-%s-%d", p.name, kind, id, n)
}

// counters returns the counters of all shards.
func (p plugin) counters(kind string, id annals.PersistenceID) (all []annals.SeqNr) {
	for shard := range p.shards {
		if n, ok := plan.Number(p.item(p.key(kind, id, shard)), "sequenceNr"); ok {
			all = append(all, annals.SeqNr(n))
		}
	}
	return all
}

func (p plugin) highest(id annals.PersistenceID) annals.SeqNr {
	return slices.Max(append(p.counters("SH", id), 0))
}

// replay reads windows of 1000 numbers. It goes on after a window only when each number in it has an item.
func (p plugin) replay(id annals.PersistenceID, w window) (delivered []stored) {
	for from := w.from; from <= w.to; from += 1000 {
		found := 0
		for n := from; n < from+1000; n++ {
			it := p.item(p.key("P", id, n))
			data, ok := plan.Bytes(it, "payload")
			if !ok {
				continue
			}
			found++
			last := annals.SeqNr(0)
			if len(delivered) > 0 {
				last = delivered[len(delivered)-1].SeqNr
			}
			if annals.SeqNr(len(delivered)) >= w.max || last >= w.to {
				return p.visible(delivered, w)
			}
			r, err := akkawire.ParseRecord(data)
			p.must(err)
			e := stored{SeqNr: r.SeqNr, SerializerID: r.Payload.SerializerID, Manifest: r.Payload.Manifest, Data: r.Payload.Data}
			if set, ok := it["confirmations"].(*types.AttributeValueMemberSS); ok {
				e.Confirms = slices.Sorted(slices.Values(set.Value))
			}
			text, _ := plan.Text(it, "deleted")
			e.Deleted = text == "true"
			delivered = append(delivered, e)
		}
		if found < 1000 {
			break
		}
	}
	return p.visible(delivered, w)
}

func (p plugin) visible(all []stored, w window) []stored {
	return slices.DeleteFunc(all, func(e stored) bool { return e.Deleted && !w.all })
}

// write stores an event.
func (p plugin) write(id annals.PersistenceID, n annals.SeqNr) {
	record := akkawire.Record{Payload: plantest.Event(fmt.Sprint(n)).Payload, SeqNr: n, ID: id}
	p.put(plan.Item{"key": plan.S(p.key("P", id, n)), "payload": plan.B(akkawire.Akka23.Append(nil, record)), "deleted": plan.S("false")})
	p.put(plan.Item{"key": plan.S(p.key("SH", id, n%p.shards)), "sequenceNr": plan.N(n)})
}

func same(a, b stored) bool {
	return sameEvent(a, b) && a.Deleted == b.Deleted && slices.Equal(a.Confirms, b.Confirms)
}

// The model of the plugin reads what the plugin read: from the plugin's own items, and from the items that this package writes for the same calls.
func TestPluginReads(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios(t) {
		own := newBench(t, s.layout())
		for _, step := range s.inputs.Steps {
			own.do(step)
		}
		tables := map[string]bench{"its own table": s.bench(t)}
		if s.inputs.Steps != nil {
			tables["our table"] = own
		}
		for whose, b := range tables {
			t.Run(name+", "+whose, func(t *testing.T) {
				t.Parallel()
				p := b.plugin()
				p.T = t
				for id, want := range s.expected.PersistenceIDs {
					if got := p.highest(id); got != want.Highest {
						t.Errorf("%q: the last number is %d, want %d", id, got, want.Highest)
					}
					mixed := id == "confirmed-two" && whose == "our table" // the plugin mixes confirmations
					all := window{1, math.MaxInt64, math.MaxInt64, false}
					if got := p.replay(id, all); !slices.EqualFunc(got, want.Events, same) && !mixed {
						t.Errorf("%q: read %v, want %v", id, got, want.Events)
					}
					for _, w := range want.Windows {
						var numbers []annals.SeqNr
						for _, e := range w.Events {
							numbers = append(numbers, e.SeqNr)
						}
						got := p.replay(id, window{w.From, w.To, w.Max, w.ReplayDeleted})
						if !slices.EqualFunc(got, slices.Concat(numbers, w.SeqNrs), func(e stored, n annals.SeqNr) bool { return e.SeqNr == n }) {
							t.Errorf("%q %+v: read %v", id, w, got)
						}
					}
				}
			})
		}
	}
}

// The plugin and this package write to one id in turn. Each finds what the other has written, marked and removed.
func TestPluginInTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t, akka0.Layout{SequenceShards: 7})
	p := b.plugin()
	const id = "a-1"
	all := window{1, math.MaxInt64, math.MaxInt64, false}
	last := annals.SeqNr(0)
	for range 4 {
		b.must(b.append(id, last+1, last+12))
		if last += 12; p.highest(id) != last {
			t.Errorf("the plugin reads %d as the last number, want %d", p.highest(id), last)
		}
		p.write(id, last+1)
		if last++; b.last(id) != last {
			t.Errorf("the last number is %d, want %d", b.last(id), last)
		}
	}
	b.deleteTo(id, 10, false)
	b.deleteTo(id, 4, true)
	b.must(akka0.Delete(t.Context(), plantest.Store(b), id, true, 20))
	if got, want := b.read(id, all), p.replay(id, all); !slices.EqualFunc(got, want, same) || len(got) != 41 {
		t.Errorf("read %v, the plugin reads %v", got, want)
	}
	all.all = true
	if got, want := b.read(id, all), p.replay(id, all); !slices.EqualFunc(got, want, same) || len(got) != 47 {
		t.Errorf("read %v with those marked as deleted, the plugin reads %v", got, want)
	}
	lowest, err := akka0.Lowest(t.Context(), plantest.Store(b), id)
	if b.must(err); lowest != slices.Min(p.counters("SL", id)) || lowest != 1 {
		t.Errorf("the lowest counter is %d, the plugin reads %v", lowest, p.counters("SL", id))
	}
}
