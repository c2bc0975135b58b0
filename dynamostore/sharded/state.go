package sharded

import (
	"context"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// states is the durable-state tables at work: plan.States.
type states struct {
	name         string
	prefixes     []string
	tablePrefix  string
	columns      StateColumns
	tagSeparator string
	resolver     resolver
	plus         annals.SeqNr // what a stored revision has more than the writer's
	noSortKey    bool
	tombstones   bool
}

func (s *states) reserved() []string {
	c := s.columns
	names := []string{c.PartitionKey, c.PersistenceID, c.Revision, c.Payload, c.SerializerID, c.SerializerManifest, c.Ordering, c.Tags, c.Deleted}
	if !s.noSortKey {
		names = append(names, c.SortKey)
	}
	return names
}

func (s *states) tables() (all []plan.Table) {
	names := []string{s.name}
	for _, prefix := range s.prefixes {
		names = append(names, s.tablePrefix+prefix)
	}
	for _, name := range names {
		t := plan.Table{Name: name, Hash: plan.Key{Name: s.columns.PartitionKey}}
		if !s.noSortKey {
			t.Range = plan.Key{Name: s.columns.SortKey}
		}
		all = append(all, t)
	}
	return all
}

// place is the table and the key of an id.
func (s *states) place(id annals.PersistenceID) (table string, key plan.Item, err error) {
	p, err := s.resolver.partitionKey.Key(id, 0, s.resolver.sharding)
	if err != nil {
		return "", nil, &annals.Error{Kind: annals.ErrInvalid, Err: err}
	}
	key = plan.Item{s.columns.PartitionKey: plan.S(p)}
	if !s.noSortKey {
		key[s.columns.SortKey] = plan.S(string(id))
	}
	if pieces, divided := split(string(id), s.resolver.sharding); len(s.prefixes) > 0 && divided {
		if !slices.Contains(s.prefixes, pieces[0]) {
			return "", nil, misfit("the settings name no state table for the prefix %q", pieces[0])
		}
		return s.tablePrefix + pieces[0], key, nil
	}
	return s.name, key, nil
}

// Get is plan.States.
func (s *states) Get(ctx context.Context, x plan.Executor, id annals.PersistenceID) (annals.State, bool, error) {
	table, key, err := s.place(id)
	if err != nil {
		return annals.State{}, false, err
	}
	it, ok, err := x.Get(ctx, plan.Get{Table: table, Key: key})
	if !ok || err != nil {
		return annals.State{}, false, err
	}
	if owner, _ := plan.Text(it, s.columns.PersistenceID); owner != string(id) {
		return annals.State{}, false, nil // without a sort key another id can have the row
	}
	st := annals.State{ID: id, Revision: s.revision(it), Time: millis(it, s.columns.Ordering), Tags: tagsOf(it, s.columns.Tags, s.tagSeparator), Deleted: plan.Flag(it, s.columns.Deleted)}
	if !st.Deleted {
		serializer, _ := plan.Number(it, s.columns.SerializerID)
		st.SerializerID = int32(serializer)
		st.Manifest, _ = plan.Text(it, s.columns.SerializerManifest)
		st.Data, _ = plan.Bytes(it, s.columns.Payload)
	}
	return st, !st.Deleted, nil
}

func (s *states) revision(it plan.Item) annals.SeqNr {
	n, ok := plan.Number(it, s.columns.Revision)
	if !ok {
		return 0
	}
	return max(annals.SeqNr(n)-s.plus, 0)
}

// Write is plan.States: a put, or a delete, on condition of the stored revision. The rows have no place for a WriteID, so a
// token lets the service recognise our own retries.
func (s *states) Write(ctx context.Context, x plan.Executor, w plan.StateWrite) (annals.Receipt, error) {
	table, key, err := s.place(w.ID)
	if err != nil {
		return annals.Receipt{}, err
	}
	op := plan.Op{Table: table, Names: map[string]string{"#revision": s.columns.Revision}, Values: plan.Item{":after": plan.N(w.After + s.plus)}}
	op.Condition = "#revision = :after"
	if w.After == 0 {
		op.Condition = "attribute_not_exists(#pkey) OR #revision = :after" // the other client's first revision
		op.Names["#pkey"] = s.columns.PartitionKey
	}
	if s.noSortKey {
		op.Condition = "(" + op.Condition + ") AND (attribute_not_exists(#id) OR #id = :id)"
		op.Names["#id"], op.Values[":id"] = s.columns.PersistenceID, plan.S(string(w.ID))
	}
	if w.Deleted && !s.tombstones {
		return s.remove(ctx, x, w, op, key)
	}
	if op.Put, err = s.item(w, key); err != nil {
		return annals.Receipt{}, err
	}
	_, err = x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Token: true, Refused: func(old []plan.Item, _ bool) error { return s.refusal(w, old[0]) }})
	if err != nil {
		return annals.Receipt{}, err
	}
	return annals.Receipt{SeqNr: w.After + 1, Time: millis(op.Put, s.columns.Ordering)}, nil
}

// remove deletes the row, as the plugin does.
func (s *states) remove(ctx context.Context, x plan.Executor, w plan.StateWrite, op plan.Op, key plan.Item) (annals.Receipt, error) {
	op.Key, op.Delete = key, true
	_, err := x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Token: true, Refused: func(old []plan.Item, _ bool) error { return s.refusal(w, old[0]) }})
	if err != nil {
		return annals.Receipt{}, err
	}
	return annals.Receipt{SeqNr: w.After + 1, Time: w.Time.Truncate(time.Millisecond)}, nil
}

func (s *states) refusal(w plan.StateWrite, old plan.Item) error {
	if err := collision(w.ID, old, s.columns.PersistenceID); err != nil {
		return err
	}
	return &annals.Error{Kind: annals.ErrConflict, After: w.After, Last: s.revision(old)}
}

// item is the row of a state.
func (s *states) item(w plan.StateWrite, key plan.Item) (plan.Item, error) {
	it := key
	it[s.columns.PersistenceID] = plan.S(string(w.ID))
	it[s.columns.Revision] = plan.N(w.After + 1 + s.plus)
	it[s.columns.Ordering] = plan.N(w.Time.UnixMilli())
	if w.Deleted {
		it[s.columns.Deleted] = plan.Bool(true)
	} else {
		it[s.columns.Payload] = plan.B(w.Data)
		it[s.columns.SerializerID] = plan.N(w.SerializerID)
		if w.Manifest != "" {
			it[s.columns.SerializerManifest] = plan.S(w.Manifest)
		}
	}
	return it, putTags(it, s.columns.Tags, w.Tags, s.tagSeparator)
}
