package commit_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// furnished returns an entity, and tables that have an item of each kind.
func furnished(t testing.TB) (e *entity, x *plantest.Executor) {
	t.Helper()
	saves := uint64(0)
	offer, err := commit.Plan(commit.Layout{Index: "slices"}, smallBytes, func(save []byte) { saves++; binary.BigEndian.PutUint64(save, saves) })
	if err != nil {
		t.Fatal(err)
	}
	e = newEntity(context.Background(), offer)
	x = plantest.New(offer.Tables)
	tagged := annals.Commit{ID: id, After: 6, WriteID: plantest.WriteID(7), Events: []annals.NewEvent{plantest.Event("7")}}
	tagged.Events[0].Tags, tagged.Events[0].Adapter = []string{"red"}, "adapter"
	tagged.Events[0].Metadata = annals.Payload{SerializerID: 4, Manifest: "meta", Data: []byte{0}}
	put := func(after annals.SeqNr, deleted bool) error {
		_, err := offer.States.Write(e.Ctx, x, plan.StateWrite{StateWrite: annals.StateWrite{ID: id, After: after, WriteID: plantest.WriteID(1),
			Payload: annals.Payload{SerializerID: 4, Data: []byte("s")}, Tags: []string{"red"}, Metadata: annals.Payload{SerializerID: 4, Manifest: "meta", Data: []byte{0}}}, Time: x.Now(), Deleted: deleted})
		return err
	}
	checked := offer.Check(e.Ctx, x, true)
	_, appended := offer.On(x).Journal.Append(e.Ctx, annals.Commit{ID: id, Events: []annals.NewEvent{plantest.Event("1"), plantest.Event("2")}, WriteID: plantest.WriteID(1)})
	e.Acked = 2
	if err := errors.Join(
		checked, appended, e.Write(x, 1, 3), e.save(x, 1, 1, true), e.save(x, 3, 1, true), e.save(x, 4, 1, false), e.save(x, 5, 1, true),
		e.DeleteTo(x, 4), e.Prune(x, 1), put(0, false), put(1, false),
		offer.On(x).Offsets.Save(e.Ctx, annals.Progress{Projection: projection, Slices: annals.SliceRange{From: 384, To: 448}, Epoch: 7, Offsets: []annals.Offset{{ID: id, SeqNr: 3, Time: x.Now()}}}),
	); err != nil {
		t.Fatal(err)
	}
	if _, err := offer.On(x).Journal.Append(e.Ctx, tagged); err != nil {
		t.Fatal(err)
	}
	return e, x
}

const projection = "list"

// hostile are values for attributes for which the layout would not write them.
var hostile = []types.AttributeValue{
	nil, // the attribute is not there
	number("-1"), number("0"), number("1"), number("2"), number("3"), number("4"), number("5"), number("6"), number("7"), number("8"), number("100"),
	number("9000000000000000000"), number("9223372036854775806"), number("9223372036854775807"), number("9223372036854775808"), number("-9223372036854775808"),
	number("4294967327"), number("1.5"), number("3.5"), number("-0.5"), number("0.5"), number("99999999999999999999999999999999999999"), number("0.000001"),
	plan.S(""), plan.S("a"), plan.S("Thread|42"), plan.S("Thread|1"),
	plan.B(nil), plan.B([]byte{1}), plan.B(make([]byte, 8)), plan.B(make([]byte, 16)), plan.B(make([]byte, 24)), plan.B([]byte("\x1f\x8b\x08")),
	plan.Bool(true), plan.Bool(false), &types.AttributeValueMemberNULL{Value: true},
	&types.AttributeValueMemberSS{Value: []string{"a"}}, &types.AttributeValueMemberNS{Value: []string{"1"}}, &types.AttributeValueMemberBS{Value: [][]byte{{1}}},
	&types.AttributeValueMemberL{}, &types.AttributeValueMemberL{Value: []types.AttributeValue{number("1")}},
	&types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: plan.Item{}}}},
	&types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: plan.Item{"s": number("1"), "data": number("1")}}}},
	&types.AttributeValueMemberL{Value: slices.Repeat([]types.AttributeValue{&types.AttributeValueMemberM{Value: plan.Item{"s": number("1"), "at": plan.S("a")}}}, 3)},
	&types.AttributeValueMemberL{Value: slices.Repeat([]types.AttributeValue{number("-1")}, 64)},
	&types.AttributeValueMemberM{}, &types.AttributeValueMemberM{Value: plan.Item{"400": number("1")}}, &types.AttributeValueMemberM{Value: plan.Item{"-1": plan.S("a")}},
	&types.AttributeValueMemberM{Value: plan.Item{"400": &types.AttributeValueMemberM{Value: plan.Item{"at": number("1"), "nr": &types.AttributeValueMemberM{Value: plan.Item{"Thread|42": plan.S("a")}}}}}},
}

// attributes are the attributes of all kinds of items.
var attributes = []string{"seq", "v", "w", "at", "feed", "n", "from", "ev", "del", "s", "type", "data", "tags", "meta", "adapter", "save", "parts", "zip", "rev", "gone", "w1",
	"layout", "index", "types", "filling", "entity", "nr", "newest", "epochs"}

// change puts hostile values into items: three bytes choose an item, an attribute and a value.
func change(x *plantest.Executor, changes []byte) string {
	text := ""
	for c := range slices.Chunk(changes, 3) {
		if len(c) < 3 {
			break
		}
		items := x.Items("annals")
		old := items[int(c[0])%len(items)]
		it, name := maps.Clone(old), attributes[int(c[1])%len(attributes)]
		value := hostile[int(c[2])%len(hostile)]
		if _, isNumber := value.(*types.AttributeValueMemberN); name == "seq" && !isNumber {
			continue // the table says what a key is
		}
		text += fmt.Sprintf("%v: %s = %v\n", old["seq"], name, value)
		if it[name] = value; value == nil {
			delete(it, name)
		}
		if name == "seq" {
			_ = x.DeleteAll(context.Background(), "annals", []plan.Item{old})
		}
		_, _ = x.Write(context.Background(), plan.Write{Ops: []plan.Op{{Table: "annals", Put: it}}})
	}
	return text
}

// Whatever items are in a table, each call returns what can be read or an error of a fitting kind.
func FuzzHostileItems(f *testing.F) {
	for item := range byte(24) {
		for _, c := range []struct {
			attribute string
			value     byte
		}{{"save", 29}, {"save", 0}, {"parts", 1}, {"parts", 12}, {"n", 1}, {"n", 12}, {"n", 14}, {"from", 2}, {"from", 14}, {"ev", 0}, {"s", 17}, {"seq", 18}, {"newest", 0}, {"rev", 1}} {
			f.Add([]byte{item, byte(slices.Index(attributes, c.attribute)), c.value})
		}
	}
	e, fresh := furnished(f)
	all := calls()
	f.Fuzz(func(t *testing.T, changes []byte) {
		if len(changes) > 12 {
			return
		}
		changed := fresh.Clone()
		text := change(changed, changes)
		for name, call := range all {
			x := changed.Clone()
			if err := call(e, x); err != nil && !legal(err) {
				t.Errorf("%s: %v, after\n%s%s", name, err, text, x.Log())
			}
		}
	})
}

func legal(err error) bool {
	var e *annals.Error
	if !errors.As(err, &e) {
		return false
	}
	for _, kind := range []error{annals.ErrCorrupt, annals.ErrUnsupported, annals.ErrTruncated, annals.ErrConflict, annals.ErrUnknown, annals.ErrInvalid, annals.ErrFenced} {
		if errors.Is(e.Kind, kind) {
			return !strings.Contains(err.Error(), secret)
		}
	}
	return false
}

// secret is in the data of the furnished snapshots and events.
const secret = "chat.posted"

// calls returns one call for each function of a layout.
func calls() map[string]func(e *entity, x plan.Executor) error {
	none := func(annals.Snapshot) error { return nil }
	replay := func(from, to annals.SeqNr) func(e *entity, x plan.Executor) error {
		return func(e *entity, x plan.Executor) error {
			next := annals.SeqNr(0)
			for ev, err := range e.Offer.On(x).Journal.Replay(e.Ctx, id, from, to) {
				if err != nil {
					return err
				}
				if ev.SeqNr < from || ev.SeqNr > to || next != 0 && ev.SeqNr != next {
					return fmt.Errorf("event %d, want %d", ev.SeqNr, next)
				}
				next = ev.SeqNr + 1
			}
			return nil
		}
	}
	all := annals.SliceRange{From: 384, To: 448}
	offset := annals.Offset{ID: id, SeqNr: 9, Time: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	return map[string]func(e *entity, x plan.Executor) error{
		"replay 1": replay(1, annals.MaxSeqNr), "replay 3": replay(3, 6), "replay 6": replay(6, annals.MaxSeqNr),
		"recover": func(e *entity, x plan.Executor) error {
			last, err := e.Offer.On(x).Recover(e.Ctx, id, none, func(annals.Event) error { return nil })
			if last < 0 {
				err = fmt.Errorf("last %d", last)
			}
			return err
		},
		"last": func(e *entity, x plan.Executor) error {
			last, err := e.Offer.On(x).Journal.LastSeqNr(e.Ctx, id)
			if last < 0 {
				err = fmt.Errorf("last %d", last)
			}
			return err
		},
		"delete":           func(e *entity, x plan.Executor) error { return e.DeleteTo(x, 6) },
		"delete all":       func(e *entity, x plan.Executor) error { return e.DeleteTo(x, annals.MaxSeqNr) },
		"append again":     func(e *entity, x plan.Executor) error { return e.Append(x, 3, 3, 'a') },
		"skip":             func(e *entity, x plan.Executor) error { return e.Offer.On(x).SkipTo(e.Ctx, id, 0, 100) },
		"skip state":       func(e *entity, x plan.Executor) error { return e.Offer.SkipStateTo(e.Ctx, x, id, 2) },
		"save":             func(e *entity, x plan.Executor) error { return e.save(x, 5, 2, true) },
		"delete snapshots": func(e *entity, x plan.Executor) error { return e.Prune(x, annals.MaxSeqNr) },
		"latest": func(e *entity, x plan.Executor) error {
			_, _, err := e.Offer.On(x).Snapshots.Latest(e.Ctx, id, annals.SnapshotCriteria{})
			return err
		},
		"older": func(e *entity, x plan.Executor) error {
			_, _, err := e.Offer.On(x).Snapshots.Latest(e.Ctx, id, annals.SnapshotCriteria{MaxSeqNr: 3})
			return err
		},
		"state": func(e *entity, x plan.Executor) error { _, _, err := e.Offer.States.Get(e.Ctx, x, id); return err },
		"put": func(e *entity, x plan.Executor) error {
			for after := range annals.SeqNr(4) {
				_, err := e.Offer.States.Write(e.Ctx, x, plan.StateWrite{StateWrite: annals.StateWrite{ID: id, After: after, WriteID: plantest.WriteID(1),
					Payload: annals.Payload{SerializerID: 4}}, Time: x.Now(), Given: true})
				if err != nil && !legal(err) {
					return err
				}
			}
			return nil
		},
		"forget": func(e *entity, x plan.Executor) error {
			_, err := e.Offer.On(x).Forget(e.Ctx, ability.Forgetting{ID: id, DryRun: true})
			return err
		},
		"check": func(e *entity, x plan.Executor) error { return e.Offer.Check(e.Ctx, x, false) },
		"progress": func(e *entity, x plan.Executor) error {
			_, err := e.Offer.On(x).Offsets.Load(e.Ctx, projection, all)
			return err
		},
		"handled": func(e *entity, x plan.Executor) error {
			_, err := e.Offer.On(x).Offsets.Handled(e.Ctx, projection, id)
			return err
		},
		"save progress": func(e *entity, x plan.Executor) error {
			return e.Offer.On(x).Offsets.Save(e.Ctx, annals.Progress{Projection: projection, Slices: all, Epoch: 8, Offsets: []annals.Offset{offset}})
		},
		"reset": func(e *entity, x plan.Executor) error {
			return e.Offer.On(x).Offsets.Reset(e.Ctx, projection, all, annals.Offset{Time: time.Unix(1, 0)})
		},
		"events": func(e *entity, x plan.Executor) error {
			for _, err := range e.Offer.On(x).Queries.Events(e.Ctx, annals.Filter{}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"states": func(e *entity, x plan.Executor) error {
			for _, err := range e.Offer.On(x).Queries.States(e.Ctx, annals.Filter{}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"newest": func(e *entity, x plan.Executor) error {
			_, err := e.Offer.On(x).Queries.Newest(e.Ctx, annals.Filter{})
			return err
		},
		"ids": func(e *entity, x plan.Executor) error {
			for _, err := range e.Offer.On(x).Queries.IDs(e.Ctx, "", "") {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// A few kilobytes can decompress to gigabytes.
func TestDecompressedSize(t *testing.T) { // not parallel: it counts memory
	const most = 64 << 20
	e, x := furnished(t)
	var zeros bytes.Buffer
	w, err := gzip.NewWriterLevel(&zeros, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, most/16)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	packed := bytes.Repeat(zeros.Bytes(), 6*16) // several gzip streams in a row are read as one
	for _, it := range x.Items("annals") {
		if n, ok := it["seq"].(*types.AttributeValueMemberN); !ok || n.Value != "5.5" {
			continue
		}
		it = maps.Clone(it)
		delete(it, "parts")
		it["data"], it["zip"] = plan.B(packed), plan.Bool(true)
		if _, err := x.Write(e.Ctx, plan.Write{Ops: []plan.Op{{Table: "annals", Put: it}}}); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err = e.Offer.On(x).Snapshots.Latest(e.Ctx, id, annals.SnapshotCriteria{})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, annals.ErrCorrupt) || took > 8*most {
		t.Errorf("a snapshot of %d bytes that decompresses to %d: %v, with %d bytes of memory", len(packed), 6*most, err, took)
	}
	s := annals.Snapshot{ID: id, SeqNr: 6, Payload: annals.Payload{SerializerID: 4, Data: make([]byte, most+1)}}
	if err := e.Offer.On(x).Snapshots.Save(e.Ctx, s); !errors.Is(err, annals.ErrTooLarge) {
		t.Errorf("a snapshot of %d bytes: %v", len(s.Data), err)
	}
	s.Data = s.Data[1:]
	if err := e.Offer.On(x).Snapshots.Save(e.Ctx, s); err != nil {
		t.Error(err)
	}
	if got, _, err := e.Offer.On(x).Snapshots.Latest(e.Ctx, id, annals.SnapshotCriteria{}); err != nil || !bytes.Equal(got.Data, s.Data) {
		t.Errorf("a snapshot of %d bytes comes back as %d, %v", len(s.Data), len(got.Data), err)
	}
}
