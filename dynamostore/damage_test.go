package dynamostore_test

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// damaged is a store whose items a test changes.
type damaged struct {
	testing.TB
	*dynamostore.Store
	client *dynamodb.Client
	layout dynamostore.Layout
	writer annals.WriteID // of all commits, as a writer of a plugin has one; zero: each has its own
}

func newDamaged(tb testing.TB, layout dynamostore.Layout, o dynamostore.Options) *damaged {
	d := &damaged{TB: tb, client: client(tb), layout: layout}
	o.CreateTables = true
	d.open(o)
	return d
}

func (d *damaged) open(o dynamostore.Options) {
	s, err := dynamostore.Open(d.Context(), d.client, d.layout, o)
	if err != nil {
		d.Fatal(err)
	}
	d.Store = s
	d.Cleanup(func() { _ = s.Close() })
}

// events appends commits of so many events each. The payloads are such as any layout takes.
func (d *damaged) events(id annals.PersistenceID, counts ...int) {
	d.Helper()
	after := annals.SeqNr(0)
	for _, n := range counts {
		c := annals.Commit{ID: id, After: after, Events: slices.Repeat([]annals.NewEvent{text(`{"a":1}`)}, n), WriteID: cmp.Or(d.writer, annals.NewWriteID())}
		after += annals.SeqNr(n)
		if d.Capabilities().Limits.FirstSnapshot && after == annals.SeqNr(n) {
			c.Snapshot = &annals.Snapshot{ID: id, SeqNr: after, Payload: text(`{"a":1}`).Payload}
		}
		if _, err := d.Journal().Append(d.Context(), c); err != nil {
			d.Fatal(err)
		}
	}
}

func (d *damaged) save(id annals.PersistenceID, n annals.SeqNr, data string) {
	d.Helper()
	if err := d.Snapshots().Save(d.Context(), annals.Snapshot{ID: id, SeqNr: n, Payload: text(data).Payload}); err != nil {
		d.Fatal(err)
	}
}

func (d *damaged) state(ids ...annals.PersistenceID) {
	d.Helper()
	for _, id := range ids {
		if _, err := d.States().Put(d.Context(), annals.StateWrite{ID: id, Payload: text(`{"a":1}`).Payload}); err != nil {
			d.Fatal(err)
		}
	}
}

// change puts the items that fit, changed by fn, at their keys; fn returns nil to delete an item. There must be such an item.
func (d *damaged) change(table string, fits func(it plan.Item) bool, fn func(it plan.Item) plan.Item) {
	d.Helper()
	out, err := d.client.Scan(d.Context(), &dynamodb.ScanInput{TableName: &table})
	if err != nil {
		d.Fatal(err)
	}
	described, err := d.client.DescribeTable(d.Context(), &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil {
		d.Fatal(err)
	}
	changed := 0
	for _, it := range out.Items {
		if !fits(it) {
			continue
		}
		changed++
		key := plan.Item{}
		for _, k := range described.Table.KeySchema {
			key[*k.AttributeName] = it[*k.AttributeName]
		}
		if now := fn(maps.Clone(it)); now != nil {
			_, err = d.client.PutItem(d.Context(), &dynamodb.PutItemInput{TableName: &table, Item: now})
		} else {
			_, err = d.client.DeleteItem(d.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: key})
		}
		if err != nil {
			d.Fatal(err)
		}
	}
	if changed == 0 {
		d.Fatal("no item was changed")
	}
}

// at fits an item by the texts of attributes: name, value, name, value, …
func at(pairs ...any) func(it plan.Item) bool {
	return func(it plan.Item) bool {
		for i := 0; i < len(pairs); i += 2 {
			if plan.KeyText(it[pairs[i].(string)]) != fmt.Sprint(pairs[i+1]) {
				return false
			}
		}
		return true
	}
}

func lost(plan.Item) plan.Item { return nil }

func set(name string, v types.AttributeValue) func(it plan.Item) plan.Item {
	return func(it plan.Item) plan.Item {
		if it[name] = v; v == nil {
			delete(it, name)
		}
		return it
	}
}

// damageOf is storetest.Config.Damage for a layout.
func damageOf(layout dynamostore.Layout) func(testing.TB) (annals.Store, []string, map[ability.Code]string) {
	switch l := layout.(type) {
	case commit.Layout:
		return damagedCommit
	case j5ik2o.Layout:
		return damagedJ5ik2o
	case akka.Layout:
		return damagedAkka
	case akka0.Layout:
		return damagedAkka0
	case esa.Layout:
		if l.Peer == esa.Rust5 {
			return damagedRust5
		}
		return damagedESA
	}
	return nil
}

// impossible are kinds of damage that no layout has, and more of one layout.
func impossible(more map[ability.Code]string) map[ability.Code]string {
	more[ability.Checksum], more[ability.File] = "items have no checksums: the service has its own", "the files are the service's"
	return more
}

func damagedCommit(tb testing.TB) (annals.Store, []string, map[ability.Code]string) {
	table := "d" + rand.Text()
	o := dynamostore.Options{StateTypes: map[string]annals.StateType[*dynamostore.Tx]{"Own": {Table: table + "own"}}}
	d := newDamaged(tb, commit.Layout{Table: table, Index: "slices"}, o)
	for _, id := range []annals.PersistenceID{"T|sound", "T|deleted", "T|missing", "T|first", "T|newest", "T|doubled", "T|incomplete", "T|unreadable", "T|snapshot", "T|older", "T|orphan", "T|feed", "T|no feed", "T|key", "Unlisted|1"} {
		d.events(id, 1, 3, 1)
		d.save(id, 2, `{"a":1}`)
		d.save(id, 4, `{"a":1}`)
	}
	large := make([]byte, 500<<10)
	_, _ = rand.Read(large)
	for _, id := range []annals.PersistenceID{"T|part", "T|parts"} {
		d.events(id, 1)
		d.save(id, 1, string(large))
	}
	if err := d.Journal().DeleteTo(tb.Context(), "T|deleted", 5); err != nil {
		tb.Fatal(err)
	}
	d.state("S|sound", "S|unreadable", "S|feed", "Own|sound", "Own|elsewhere")
	d.change(table, at("pid", "T|missing", "seq", 2), lost)
	d.change(table, at("pid", "T|first", "seq", 1), lost)
	d.change(table, at("pid", "T|newest", "seq", 5), lost)
	d.change(table, at("pid", "T|doubled", "seq", 1), func(it plan.Item) plan.Item { return set("seq", plan.N(3))(it) })
	d.change(table, at("pid", "T|doubled", "seq", 3), func(it plan.Item) plan.Item { return it })
	d.change(table, at("pid", "T|incomplete", "seq", 2), func(it plan.Item) plan.Item {
		return set("ev", plan.L(it["ev"].(*types.AttributeValueMemberL).Value[1:]...))(it)
	})
	d.change(table, at("pid", "T|unreadable", "seq", 5), set("w", plan.S("nobody")))
	d.change(table, at("pid", "T|snapshot", "seq", "4.5"), set("save", plan.S("no bytes")))
	d.change(table, at("pid", "T|older", "seq", "2.5"), set("s", plan.S("no number")))
	d.change(table, at("pid", "T|orphan", "seq", "4.5"), set("seq", &types.AttributeValueMemberN{Value: "9.5"}))
	d.change(table, at("pid", "T|feed", "seq", 2), set("feed", plan.S("T#99")))
	d.change(table, func(it plan.Item) bool { return at("pid", "T|no feed")(it) && it["feed"] != nil }, set("feed", nil))
	d.change(table, at("pid", "T|key", "seq", "2.5"), set("seq", &types.AttributeValueMemberN{Value: "2.7"}))
	isPart := func(it plan.Item) bool { return plan.KeyText(it["seq"])[0] == '-' }
	first := true
	d.change(table, func(it plan.Item) bool {
		found := first && at("pid", "T|part")(it) && isPart(it)
		first = first && !found
		return found
	}, lost)
	d.change(table, at("pid", "T|parts", "seq", "1.5"), lost)
	d.change(table, func(it plan.Item) bool { return at("pid", "T|parts")(it) && isPart(it) }, set("at", plan.N(0)))
	d.change(table, at("pid", "S|unreadable", "seq", 0), set("rev", plan.S("one")))
	d.change(table, at("pid", "S|feed", "seq", 0), set("feed", nil))
	d.change(table+"own", at("pid", "Own|elsewhere"), func(it plan.Item) plan.Item {
		if _, err := d.client.PutItem(tb.Context(), &dynamodb.PutItemInput{TableName: &table, Item: it}); err != nil {
			tb.Fatal(err)
		}
		return it
	})
	d.change(table, at("pid", "annals", "seq", -1), set("types", &types.AttributeValueMemberSS{Value: []string{"T", "S", "Own"}}))
	d.open(o) // which has not seen the types
	return d.Store, []string{"missing T|missing 2 4", "hole T|first 1 1", "doubled T|doubled 3 3", "incomplete T|incomplete 2 4", "unreadable T|unreadable 5 5",
		"snapshot T|snapshot 4 4", "snapshot T|older 2 2", "orphan T|orphan 9 9", "index T|feed 2 2", "index T|no feed 1 1", "index T|no feed 2 2", "index T|no feed 5 5", "key T|key 0 0",
		"snapshot T|part 1 1", "orphan T|parts 0 0", "state S|unreadable 0 0", "index S|feed 0 0", "key Own|elsewhere 0 0", "index Unlisted|1 0 0"}, impossible(map[ability.Code]string{ability.Head: "the last number is that of the last item"})
}

func damagedJ5ik2o(tb testing.TB) (annals.Store, []string, map[ability.Code]string) {
	table := "d" + rand.Text()
	d := newDamaged(tb, j5ik2o.Layout{ShardCount: 4, Journal: j5ik2o.Journal{Table: table + "j"}, Snapshot: j5ik2o.Snapshot{Table: table + "s"}, State: j5ik2o.State{Table: table + "d", Tombstones: true}}, dynamostore.Options{})
	for _, id := range []annals.PersistenceID{"T-sound", "T-deleted", "T-missing", "T-first", "T-newest", "T-unreadable", "T-message", "T-snapshot", "T-orphan", "T-key"} {
		d.events(id, 1, 3, 1)
		d.save(id, 2, `{"a":1}`)
		d.save(id, 4, `{"a":1}`)
	}
	if err := d.Journal().DeleteTo(tb.Context(), "T-deleted", 5); err != nil {
		tb.Fatal(err)
	}
	d.state("S-sound", "S-unreadable", "S-key")
	row := func(id string, n int) func(plan.Item) bool { return at("persistence-id", id, "sequence-nr", n) }
	d.change(table+"j", row("T-missing", 3), lost)
	d.change(table+"j", row("T-first", 1), lost)
	d.change(table+"j", row("T-newest", 5), lost)
	d.change(table+"j", row("T-unreadable", 3), set("message", plan.B([]byte("no message"))))
	d.change(table+"j", row("T-message", 5), set("ordering", plan.S("no number")))
	d.change(table+"s", row("T-snapshot", 2), set("snapshot", plan.B([]byte("no snapshot"))))
	d.change(table+"j", func(it plan.Item) bool { return at("persistence-id", "T-orphan")(it) }, lost)
	d.change(table+"j", row("T-key", 3), func(it plan.Item) plan.Item { return set("pkey", plan.S("elsewhere"))(it) })
	d.change(table+"d", at("persistence-id", "S-unreadable"), set("payload", nil))
	d.change(table+"d", at("persistence-id", "S-key"), set("pkey", plan.S("elsewhere")))
	return d.Store, []string{"missing T-missing 3 3", "hole T-first 1 1", "unreadable T-unreadable 3 3", "unreadable T-message 5 5", "snapshot T-snapshot 2 2", "orphan T-orphan 2 2", "orphan T-orphan 4 4",
			"key T-key 3 3", "state S-unreadable 0 0", "key S-key 2 2"}, impossible(map[ability.Code]string{ability.Doubled: "the key has the number", ability.Incomplete: "each event has an item, and nothing else tells what was written together",
			ability.Head: "the last number is that of the last item", ability.Index: "the attributes of the index are those that the events are read from"})
}

func damagedAkka(tb testing.TB) (annals.Store, []string, map[ability.Code]string) {
	table := "d" + rand.Text()
	d := newDamaged(tb, akka.Layout{Journal: akka.Journal{Table: table + "j"}, Snapshot: akka.Snapshot{Table: table + "s"}}, dynamostore.Options{})
	for _, id := range []annals.PersistenceID{"T|sound", "T|deleted", "T|missing", "T|batch", "T|newest", "T|unreadable", "T|snapshot", "T|orphan", "T|shard"} {
		d.events(id, 1, 3, 1)
		d.save(id, 2, `{"a":1}`)
	}
	d.events("T|mark", 98, 5)
	d.writer = annals.NewWriteID()
	d.events("T|incomplete", 1, 3, 1)
	d.events("T|doubled", 1, 3, 1)
	if err := d.Journal().DeleteTo(tb.Context(), "T|deleted", 5); err != nil {
		tb.Fatal(err)
	}
	row := func(id string, n int) func(plan.Item) bool { return at("par", "journal-P-"+id+"-0", "num", n) }
	d.change(table+"j", row("T|missing", 1), lost)
	d.change(table+"j", row("T|batch", 3), lost)
	d.change(table+"j", row("T|incomplete", 3), lost)
	d.change(table+"j", row("T|doubled", 5), func(it plan.Item) plan.Item { return set("cnt", plan.N(1))(set("idx", plan.N(1))(it)) })
	d.change(table+"j", row("T|newest", 5), lost)
	d.change(table+"j", row("T|unreadable", 5), set("ev_ser_id", plan.S("no number")))
	d.change(table+"j", at("par", "journal-SH-T|mark-1"), lost)
	d.change(table+"s", at("par", "journal-P-T|snapshot"), set("ser_id", plan.S("no number")))
	d.change(table+"j", func(it plan.Item) bool { return at("par", "journal-P-T|orphan-0")(it) }, lost)
	d.change(table+"j", row("T|shard", 1), func(it plan.Item) plan.Item {
		return plan.Item{"par": plan.S("journal-SL-T|shard-77"), "num": plan.N(0), "seq": plan.N(1)}
	})
	d.change(table+"j", row("T|shard", 2), func(it plan.Item) plan.Item { return set("par", plan.S("other-T|shard-0"))(it) })
	return d.Store, []string{"missing T|missing 1 1", "hole T|batch 2 4", "incomplete T|incomplete 2 4", "doubled T|doubled 4 5", "unreadable T|unreadable 5 5", "head T|mark 100 103", "snapshot T|snapshot 0 0", "orphan T|orphan 2 2", "key T|shard 0 0", "key  0 0"}, impossible(map[ability.Code]string{ability.State: "there are no states", ability.Index: "there is no index"})
}

func damagedAkka0(tb testing.TB) (annals.Store, []string, map[ability.Code]string) {
	table := "d" + rand.Text()
	d := newDamaged(tb, akka0.Layout{Table: table, SequenceShards: 20}, dynamostore.Options{})
	for _, id := range []annals.PersistenceID{"T|sound", "T|deleted", "T|hole", "T|deleting", "T|newest", "T|unreadable", "T|counter", "T|high"} {
		d.events(id, 1, 3, 1)
	}
	if err := d.Journal().DeleteTo(tb.Context(), "T|deleted", 5); err != nil {
		tb.Fatal(err)
	}
	if err := akka0.Delete(tb.Context(), d.Store, "T|deleting", true, 1, 2, 3); err != nil {
		tb.Fatal(err)
	}
	d.change(table, at("key", "journal-P-T|deleting-4"), lost) // as by a permanent delete that has not ended
	d.change(table, at("key", "journal-P-T|hole-3"), lost)
	d.change(table, at("key", "journal-P-T|newest-5"), lost)
	d.change(table, at("key", "journal-P-T|unreadable-3"), set("payload", plan.B([]byte("no message"))))
	d.change(table, at("key", "journal-SH-T|counter-5"), lost)
	d.change(table, at("key", "journal-SH-T|high-5"), set("sequenceNr", plan.S("no number")))
	d.change(table, at("key", "journal-SH-T|sound-1"), func(it plan.Item) plan.Item { return set("key", plan.S("other-T|sound-1"))(it) })
	return d.Store, []string{"hole T|hole 3 3", "hole T|deleting 4 4", "hole T|newest 5 5", "unreadable T|unreadable 3 3", "head T|counter 5 5", "head T|high 0 0", "key  0 0"}, impossible(map[ability.Code]string{ability.Missing: "the plugin may have left any number unused", ability.Doubled: "the key has the number", ability.Incomplete: "each event has an item, and nothing else tells what was written together",
		ability.Snapshot: "there are no snapshots", ability.Orphan: "there are no snapshots", ability.State: "there are no states", ability.Index: "there is no index"})
}

func damagedESA(tb testing.TB) (annals.Store, []string, map[ability.Code]string) {
	table := "d" + rand.Text()
	d := newDamaged(tb, esa.Layout{Shards: 8, Journal: esa.Journal{Table: table + "j"}, Snapshot: esa.Snapshot{Table: table + "s", Keep: 5}}, dynamostore.Options{})
	for _, id := range []annals.PersistenceID{"T|sound", "T|deleted", "T|missing", "T|newest", "T|unreadable", "T|head", "T|version", "T|state", "T|orphan", "T|key"} {
		d.events(id, 1, 3, 1)
		d.save(id, 5, `{"a":1}`)
	}
	if err := d.Journal().DeleteTo(tb.Context(), "T|deleted", 5); err != nil {
		tb.Fatal(err)
	}
	d.change(table+"j", at("aid", "T-missing", "seq_nr", 3), lost)
	d.change(table+"j", at("aid", "T-newest", "seq_nr", 5), lost)
	d.change(table+"j", at("aid", "T-unreadable", "seq_nr", 3), set("payload", nil))
	d.change(table+"s", at("aid", "T-head", "skey", "T-head-0"), lost)
	d.change(table+"s", at("aid", "T-version", "skey", "T-version-0"), set("version", plan.S("no number")))
	d.change(table+"s", at("aid", "T-state", "skey", "T-state-0"), set("payload", nil))
	d.save("T|orphan", 50, `{"a":1}`)
	d.change(table+"j", at("aid", "T-key", "seq_nr", 2), func(it plan.Item) plan.Item { return set("pkey", plan.S("elsewhere"))(it) })
	return d.Store, []string{"missing T|missing 3 3", "missing T|newest 5 5", "unreadable T|unreadable 3 3", "head T|head 0 0", "head T|version 0 0", "snapshot T|state 0 0", "orphan T|orphan 50 50", "key T|key 2 2"}, impossible(map[ability.Code]string{ability.Hole: "the head counts the events", ability.Doubled: "the key has the number", ability.Incomplete: "each event has an item, and nothing else tells what was written together",
		ability.State: "there are no states", ability.Index: "the attributes of the index are those that the events are read from"})
}

func damagedRust5(tb testing.TB) (annals.Store, []string, map[ability.Code]string) {
	table := "d" + rand.Text()
	d := newDamaged(tb, esa.Layout{Peer: esa.Rust5, Journal: esa.Journal{Table: table + "j"}, Snapshot: esa.Snapshot{Table: table + "s"}, Head: table + "h"}, dynamostore.Options{})
	for _, id := range []annals.PersistenceID{"T|sound", "T|missing", "T|newest", "T|unreadable", "T|head", "T|version", "T|state", "T|orphan"} {
		d.events(id, 1, 3, 1)
		d.save(id, 5, `{"a":1}`)
	}
	d.change(table+"j", at("aid", "T-missing", "seq_nr", 3), lost)
	d.change(table+"j", at("aid", "T-newest", "seq_nr", 5), lost)
	d.change(table+"j", at("aid", "T-unreadable", "seq_nr", 3), set("payload", nil))
	d.change(table+"h", at("aid", "T-head"), lost)
	d.change(table+"h", at("aid", "T-version"), set("events", nil))
	d.change(table+"s", at("aid", "T-state"), set("payload", nil))
	d.change(table+"s", at("aid", "T-orphan"), set("seq_nr", plan.N(50)))
	return d.Store, []string{"missing T|missing 3 3", "missing T|newest 5 5", "unreadable T|unreadable 3 3", "head T|head 0 0", "head T|version 0 0", "snapshot T|state 0 0", "orphan T|orphan 50 50"}, impossible(map[ability.Code]string{ability.Hole: "the head has the last number", ability.Doubled: "the key has the number", ability.Incomplete: "each event has an item, and nothing else tells what was written together",
		ability.State: "there are no states", ability.Key: "the key has the id", ability.Index: "the attributes of the index are those that the events are read from"})
}
