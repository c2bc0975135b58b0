package esa

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

const account = annals.PersistenceID("Account|7")

// bench is an entity in tables in memory.
type bench struct {
	*testing.T
	*plantest.Executor
	*snapshots
	plan.Offer
}

func newBench(t *testing.T, l Layout) *bench {
	t.Helper()
	l.Shards = 8
	offer, err := l.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := plantest.New(offer.Tables)
	b := &bench{T: t, Executor: x, Offer: offer}
	b.use(x)
	return b
}

// use sends the requests of b to x.
func (b *bench) use(x plan.Executor) { b.snapshots = b.On(x).Snapshots.(*snapshots) }

// taken is a snapshot whose data has its number and a text, in a form that each Format takes.
func taken(n annals.SeqNr, text string) annals.Snapshot {
	return annals.Snapshot{ID: account, SeqNr: n, Time: at(n), Payload: annals.Payload{SerializerID: jsonSerializer, Manifest: "Account", Data: fmt.Appendf(nil, `{"text":%q}`, text)}}
}

func at(n annals.SeqNr) time.Time { return time.Date(2026, 3, 1, 9, 0, int(n), 7_000_000, time.UTC) }

func (b *bench) save(numbers ...annals.SeqNr) {
	b.Helper()
	for _, n := range numbers {
		if err := b.Save(b.Context(), taken(n, "x")); err != nil {
			b.Fatal(err)
		}
	}
}

// latest returns the number of the newest snapshot that fits c; 0 is none.
func (b *bench) latest(c annals.SnapshotCriteria) annals.SeqNr {
	b.Helper()
	s, ok, err := b.Latest(b.Context(), account, c)
	if err != nil || ok != (s.SeqNr > 0) {
		b.Fatal(s.SeqNr, ok, err)
	}
	return s.SeqNr
}

func (b *bench) delete(c annals.SnapshotCriteria) {
	b.Helper()
	if err := b.Delete(b.Context(), account, c); err != nil {
		b.Fatal(err)
	}
}

// commit appends event n, with the state after it if text is not "". The requests go where those of b.snapshots go.
func (b *bench) commit(n annals.SeqNr, text string) {
	b.Helper()
	if err := appendTo(b.Context(), b.On(b.x).Journal, b.keep, n, text); err != nil {
		b.Fatal(err)
	}
}

// appendTo appends event n, with the state after it if text is not "". keep replaces Snapshot.Keep.
func appendTo(ctx context.Context, j annals.Journal, keep int, n annals.SeqNr, text string) error {
	c := annals.Commit{ID: account, After: n - 1, Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: jsonSerializer, Manifest: "changed", Data: []byte("{}")}}}, WriteID: plantest.WriteID(byte(n))}
	if text != "" {
		s := taken(n, text)
		s.Time = time.Time{}
		c.Snapshot = &s
	}
	j.(*journal).snapshots.(*snapshots).keep = keep
	_, err := j.Append(ctx, c)
	return err
}

// rowNumbers returns the last parts of the sort keys of the snapshot table, with "~" after those that are marked.
func (b *bench) rowNumbers() string {
	var all []string
	for _, it := range b.Items(b.shape.Name) {
		key := plan.KeyText(it[attrSort])
		n := key[strings.LastIndex(key, "-")+1:]
		if ttl, _ := plan.Number(it, attrTTL); ttl > 0 {
			n += "~"
		}
		all = append(all, n)
	}
	return strings.Join(all, " ")
}

// layouts are tables with main rows of different kinds.
var layouts = map[string]Layout{
	"go":             {},
	"go, plain":      {Format: Plain()},
	"js":             {Peer: JS},
	"js 3, copies":   {Peer: JS3, Snapshot: Snapshot{Keep: 100}},
	"rust 3":         {Peer: Rust3},
	"seed":           {Peer: Seed},
	"seed, plain":    {Peer: Seed, Format: Plain()},
	"rust 3, copies": {Peer: Rust3, Snapshot: Snapshot{Keep: 100}},
	"rust, copies":   {Peer: Rust, Format: Plain(), Snapshot: Snapshot{Keep: 100}},
	"rust 3, JSON":   {Peer: Rust3, Format: JSON(Members{})},
}

// Saves and deletes, with and without copies, on an entity that has a head or none.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	for name, l := range layouts {
		for _, events := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, events %v", name, events), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, l)
				if events {
					b.commit(1, "first")
					b.commit(2, "")
				}
				b.save(11, 13, 15, 12)
				copies := l.Snapshot.Keep > 0
				pick := func(with, without annals.SeqNr) annals.SeqNr {
					if copies {
						return with
					}
					return without
				}
				check := func(c annals.SnapshotCriteria, want annals.SeqNr) {
					t.Helper()
					if n := b.latest(c); n != want {
						t.Errorf("%+v: %d, want %d", c, n, want)
					}
				}
				check(annals.SnapshotCriteria{}, 15)
				check(annals.SnapshotCriteria{MaxSeqNr: 14}, pick(13, 0))
				check(annals.SnapshotCriteria{MaxTime: at(14)}, pick(13, 0))
				check(annals.SnapshotCriteria{MinSeqNr: 12, MaxSeqNr: 12}, pick(12, 0))
				check(annals.SnapshotCriteria{MinSeqNr: 14, MaxSeqNr: 14}, 0)
				check(annals.SnapshotCriteria{MinSeqNr: 16, MaxSeqNr: 15}, 0)
				b.delete(annals.SnapshotCriteria{MaxSeqNr: 14})
				check(annals.SnapshotCriteria{}, 15)
				check(annals.SnapshotCriteria{MaxSeqNr: 14}, 0)
				b.save(14)
				b.delete(annals.SnapshotCriteria{MaxSeqNr: 15, MaxTime: at(14)})
				check(annals.SnapshotCriteria{}, 15)
				b.save(14)
				b.delete(annals.SnapshotCriteria{MinSeqNr: 15, MaxSeqNr: 15})
				check(annals.SnapshotCriteria{}, pick(14, 0))
				b.save(13) // never back
				check(annals.SnapshotCriteria{}, pick(14, 13))
				b.save(15)
				check(annals.SnapshotCriteria{}, 15)
				b.delete(annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
				check(annals.SnapshotCriteria{}, 0)
				b.delete(annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
				b.save(16)
				check(annals.SnapshotCriteria{}, 16)
			})
		}
	}
}

// What is saved comes back: the data, the manifest, the serializer id where the Format takes another, and the time.
func TestSavedSnapshot(t *testing.T) {
	t.Parallel()
	for name, l := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, l)
			want := taken(3, "<&>")
			want.Manifest = "Account#2"
			if b.format.plain {
				want.SerializerID, want.Data = 666, []byte{0, 255}
			}
			for range 2 { // of a new main row, and of one that has a state
				if err := b.Save(t.Context(), want); err != nil {
					t.Fatal(err)
				}
				got, ok, err := b.Latest(t.Context(), account, annals.SnapshotCriteria{})
				if err != nil || !ok || got.ID != account || got.SeqNr != 3 || got.Manifest != want.Manifest || got.SerializerID != want.SerializerID || !got.Time.Equal(at(3)) {
					t.Errorf("got %+v, %v, %v", got, ok, err)
				}
				if b.format.plain == (string(got.Data) != string(want.Data)) || !strings.Contains(string(got.Data), string(want.Data[1:])) {
					t.Errorf("got %q, want %q", got.Data, want.Data)
				}
				if b.keep == 0 {
					continue
				}
				if copied, ok, err := b.copyAt(t.Context(), account, annals.SnapshotCriteria{}, mustKey(t, b.snapshots, 3)); !ok || err != nil || !copied.Time.Equal(at(3)) || copied.Manifest != want.Manifest {
					t.Errorf("the copy is %+v, %v, %v", copied, ok, err)
				}
			}
		})
	}
}

func mustKey(t *testing.T, s *snapshots, n annals.SeqNr) plan.Item {
	t.Helper()
	key, err := s.key(account, n)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// A library that writes another state to a row of Rust 3 does not know of the attribute for the manifest.
func TestStateOfAnotherWriter(t *testing.T) {
	t.Parallel()
	b := newBench(t, Layout{Peer: Rust3})
	b.commit(1, "first")
	if it := b.Items(b.shape.Name)[0]; it[attrState] != nil {
		t.Errorf("a state that Rust 3 writes too: %v", it)
	}
	s := taken(1, "second")
	s.Manifest, s.SerializerID = "Account#2", 33
	if err := b.Save(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	peer := taken(2, "third")
	b.put(func(it plan.Item) {
		it[attrVersion], it[attrSeq], it[attrPayload] = plan.N(2), plan.N(2), plan.B(peer.Data)
	})
	got, ok, err := b.Latest(t.Context(), account, annals.SnapshotCriteria{})
	if err != nil || !ok || got.SeqNr != 2 || got.Manifest != "Account" || got.SerializerID != jsonSerializer {
		t.Errorf("got %+v, %v, %v", got, ok, err)
	}
}

// put changes the only row of the snapshot table without the layout.
func (b *bench) put(change func(it plan.Item)) {
	b.Helper()
	it := maps.Clone(b.Items(b.shape.Name)[0])
	change(it)
	if _, err := b.Write(b.Context(), plan.Write{Ops: []plan.Op{{Table: b.shape.Name, Put: it}}}); err != nil {
		b.Fatal(err)
	}
}

// The head keeps a state that was deleted, because a library cannot load an entity without it.
func TestDeletedStateOfAHead(t *testing.T) {
	t.Parallel()
	b := newBench(t, Layout{})
	b.save(4)
	b.delete(annals.SnapshotCriteria{MaxSeqNr: 4})
	if rows := b.Items(b.shape.Name); len(rows) != 1 || rows[0][attrPayload] == nil {
		t.Errorf("the rows are %v", rows)
	}
}

// Data that its Format refuses is ErrInvalid, a state that cannot be read ErrCorrupt.
func TestUnfitStates(t *testing.T) {
	t.Parallel()
	b := newBench(t, Layout{})
	s := taken(3, "x")
	s.Data = []byte(`{"seq_nr":50}`) // D12
	if err := b.Save(t.Context(), s); !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), "snapshot 3") {
		t.Errorf("another number: %v", err)
	}
	b.commit(1, "x")
	for what, payload := range map[string]plan.Item{
		"another entity": {attrPayload: plan.B([]byte(`{"id":{"type":"Account","value":"8"},"seq_nr":1,"x":"secret"}`))},
		"no JSON":        {attrPayload: plan.B([]byte(`secret`))},
		"a number":       {attrPayload: plan.N(1)},
		"no number":      {attrPayload: plan.B([]byte(`{"x":"secret"}`))},
		"a wrong state":  {attrPayload: plan.B([]byte(`{"seq_nr":1}`)), attrState: plan.M(plan.Item{attrSeq: plan.S("secret")})},
	} {
		b.put(func(it plan.Item) { maps.Copy(it, payload) })
		_, ok, err := b.Latest(t.Context(), account, annals.SnapshotCriteria{})
		if ok || !errors.Is(err, annals.ErrCorrupt) || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "Account-7-0") {
			t.Errorf("%s: %v, %v", what, ok, err)
		}
	}
}

func TestSnapshotSettings(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]Layout{
		"negative":      {Snapshot: Snapshot{Keep: -1}},
		"Expire is of":  {Snapshot: Snapshot{Expire: time.Hour}},
		"SeqNr nothing": {Format: JSON(Members{SeqNr: "-"})},
	} {
		l.Shards = 1
		if _, err := l.Plan(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", l.Snapshot, err, want)
		}
	}
}

// D10: a row of another shard count is not taken for none, and no second head is made.
func TestSnapshotsOfAnotherShardCount(t *testing.T) {
	t.Parallel()
	b := newBench(t, Layout{})
	it := mustKey(t, b.snapshots, 1)
	it[attrPartition], it[attrAID], it[attrSeq] = plan.S("Account-99"), plan.S("Account-7"), plan.N(1)
	if _, err := b.Write(t.Context(), plan.Write{Ops: []plan.Op{{Table: "journal", Put: it}}}); err != nil {
		t.Fatal(err)
	}
	if err := b.Save(t.Context(), taken(1, "x")); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("save: %v", err)
	}
	if _, _, err := b.Latest(t.Context(), account, annals.SnapshotCriteria{}); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("latest: %v", err)
	}
	if err := b.Delete(t.Context(), account, annals.SnapshotCriteria{MaxSeqNr: 1}); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("delete: %v", err)
	}
}

// failing fails some requests.
type failing struct {
	*plantest.Executor
	query, delete, write bool
}

var errFailing = &annals.Error{Kind: annals.ErrUnavailable}

func (x *failing) Query(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	if x.query {
		return func(yield func(plan.Item, error) bool) { yield(nil, errFailing) }
	}
	return x.Executor.Query(ctx, q)
}

func (x *failing) DeleteAll(ctx context.Context, table string, keys []plan.Item) error {
	if x.delete {
		return errFailing
	}
	return x.Executor.DeleteAll(ctx, table, keys)
}

func (x *failing) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	if x.write && len(w.Ops) == 1 {
		return plan.Outcome{}, errFailing
	}
	return x.Executor.Write(ctx, w)
}

func (x *failing) Then(ctx context.Context, do func(ctx context.Context, x plan.Executor) error) error {
	return do(ctx, x)
}

// The payloads of the gateway of 2023 are strings, its heads have no ttl and no last_updated_at, and it has no copies.
func TestRowsOfSeed(t *testing.T) {
	t.Parallel()
	b := newBench(t, Layout{Peer: Seed})
	b.commit(1, "first")
	rows := 0
	for _, table := range b.Tables {
		for _, it := range b.Items(table.Name) {
			rows++
			if _, text := plan.Text(it, attrPayload); !text || it[attrTTL] != nil || it[attrUpdated] != nil {
				t.Errorf("row %v", it)
			}
		}
	}
	if rows != 2 {
		t.Errorf("%d rows", rows)
	}
	if _, err := (Layout{Peer: Seed, Shards: 3, Snapshot: Snapshot{Keep: 1}}).Plan(); err == nil {
		t.Error("Keep is accepted")
	}
}
