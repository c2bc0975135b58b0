package sharded

import (
	"context"
	"maps"
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

// Tables is plan.States.
func (s *states) Tables() []string {
	names := []string{s.name}
	for _, prefix := range s.prefixes {
		names = append(names, s.tablePrefix+prefix)
	}
	return names
}

func (s *states) tables() (all []plan.Table) {
	for _, name := range s.Tables() {
		t := plan.Table{Name: name, Hash: plan.Key{Name: s.columns.PartitionKey}}
		if !s.noSortKey {
			t.Range = plan.Key{Name: s.columns.SortKey}
		}
		all = append(all, t)
	}
	return all
}

// statesIn is plan.Rooms.StatesIn: a table of the same shape for all prefixes.
func (s *states) statesIn(_, name string) plan.StateRoom {
	own := *s
	own.name, own.prefixes = name, nil
	return plan.StateRoom{Table: own.tables()[0], States: &own}
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
	st, _, err := s.Read(it)
	if st.ID != id {
		return annals.State{}, false, nil // without a sort key another id can have the row
	}
	return st, err == nil && !st.Deleted, err
}

// Read is plan.States.
func (s *states) Read(it plan.Item) (annals.State, bool, error) {
	id, ok := plan.Text(it, s.columns.PersistenceID)
	if !ok {
		return annals.State{}, false, nil
	}
	st := annals.State{ID: annals.PersistenceID(id), Revision: s.revision(it), Time: millis(it, s.columns.Ordering), Tags: tagsOf(it, s.columns.Tags, s.tagSeparator), Deleted: plan.Flag(it, s.columns.Deleted)}
	if !st.Deleted {
		serializer, _ := plan.Number(it, s.columns.SerializerID)
		st.SerializerID = int32(serializer)
		st.Manifest, _ = plan.Text(it, s.columns.SerializerManifest)
		st.Data, _ = plan.Bytes(it, s.columns.Payload)
	}
	return st, true, nil
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
	u := plan.NewUpdate()
	condition := u.Name(s.columns.Revision) + " = " + u.Value(plan.N(w.After+s.plus))
	if w.After == 0 {
		condition = "attribute_not_exists(" + u.Name(s.columns.PartitionKey) + ") OR " + condition // the other client's first revision
	}
	if s.noSortKey {
		id := u.Name(s.columns.PersistenceID)
		condition = "(" + condition + ") AND (attribute_not_exists(" + id + ") OR " + id + " = " + u.Value(plan.S(string(w.ID))) + ")"
	}
	op := plan.Op{Table: table, Condition: condition, Names: u.Names, Values: u.Values}
	if w.Deleted && !s.tombstones {
		return s.remove(ctx, x, w, op, key)
	}
	it, err := s.item(w)
	if err != nil {
		return annals.Receipt{}, err
	}
	if w.Columns == nil {
		maps.Copy(it, key)
		op.Put = it
	} else {
		op.Key = key
		if op.Update, err = s.change(u, it, key, w.Columns); err != nil {
			return annals.Receipt{}, err
		}
	}
	_, err = x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Token: true, Refused: func(old []plan.Item, _ bool) error { return s.refusal(w, old[0]) }})
	if err != nil {
		return annals.Receipt{}, err
	}
	return annals.Receipt{SeqNr: w.After + 1, Time: millis(it, s.columns.Ordering)}, nil
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

// change is the update expression that makes it of a row and leaves alone what neither it nor columns name. The plugin, which
// knows none of the columns, drops them all when it writes.
func (s *states) change(u *plan.Update, it, key plan.Item, columns annals.Columns) (string, error) {
	gone, err := plan.PutColumns(it, columns)
	if err != nil {
		return "", err
	}
	c := s.columns
	for _, name := range []string{c.Payload, c.SerializerID, c.SerializerManifest, c.Tags, c.Deleted} {
		if it[name] == nil {
			gone = append(gone, name)
		}
	}
	whole := maps.Clone(key)
	maps.Copy(whole, it)
	if err := plan.Fits(whole); err != nil {
		return "", err
	}
	u.SetAll(it)
	u.Remove(gone...)
	return u.Expression(), nil
}

// item is the row of a state, but for its key.
func (s *states) item(w plan.StateWrite) (plan.Item, error) {
	it := plan.Item{}
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
