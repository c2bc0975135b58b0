package j5ik2o

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// states are the durable-state tables. They are plan.States.
type states struct {
	name         string
	prefixes     []string
	tablePrefix  string
	columns      StateColumns
	tagSeparator string
	resolver     resolver
	plus         annals.SeqNr // stored revision minus the writer's
	noSortKey    bool
	tombstones   bool
	other        map[string]bool // see settings
	times        *plan.Times
}

func (s *states) reserved() []string {
	c := s.columns
	names := []string{c.PartitionKey, c.PersistenceID, c.Revision, c.Payload, c.SerializerID, c.SerializerManifest, c.Ordering, c.Tags, c.Deleted, metadata, skipped}
	if !s.noSortKey {
		names = append(names, c.SortKey)
	}
	return names
}

func (s *states) Tables() []string {
	names := []string{s.name}
	for _, prefix := range s.prefixes {
		names = append(names, s.tablePrefix+prefix)
	}
	return names
}

// shape describes a table.
func (s *states) shape(name string) plan.Table {
	t := plan.Table{Name: name, Hash: plan.Key{Name: s.columns.PartitionKey}}
	if !s.noSortKey {
		t.Range = plan.Key{Name: s.columns.SortKey}
	}
	return t
}

// statesIn is plan.Offer.StatesIn: a table of the same shape, for ids of all prefixes.
func (s *states) statesIn(_, name string) plan.StateTable {
	own := *s
	own.name, own.prefixes = name, nil
	return plan.StateTable{Table: own.shape(name), Check: plan.Compare(own.settings(name).sample()), States: &own, SkipTo: own.skip()}
}

// place returns the table and the key of an id.
func (s *states) place(id annals.PersistenceID) (table string, key plan.Item, err error) {
	p, err := s.resolver.partitionKey.Key(id, 0, s.resolver.sharding)
	if err != nil {
		return "", nil, &annals.Error{Kind: annals.ErrInvalid, Err: err}
	}
	key = plan.Item{s.columns.PartitionKey: plan.S(p)}
	if !s.noSortKey {
		key[s.columns.SortKey] = plan.S(string(id))
	}
	if err := keyFault(p, key[s.columns.SortKey]); err != nil {
		return "", nil, err
	}
	if pieces, divided := split(string(id), s.resolver.sharding); len(s.prefixes) > 0 && divided {
		if !slices.Contains(s.prefixes, pieces[0]) {
			return "", nil, plan.Misfit("the settings name no state table for the prefix %q", pieces[0])
		}
		return s.tablePrefix + pieces[0], key, nil
	}
	return s.name, key, nil
}

func (s *states) Get(ctx context.Context, x plan.Executor, id annals.PersistenceID) (annals.State, bool, error) {
	table, key, err := s.place(id)
	if err != nil {
		return annals.State{}, false, err
	}
	it, ok, err := x.Get(ctx, plan.Get{Table: table, Key: key})
	if !ok || err != nil {
		return annals.State{}, false, err
	}
	if owner, ok := plan.Text(it, s.columns.PersistenceID); ok && owner != string(id) {
		return annals.State{}, false, nil // without a sort key the row can be of another id
	}
	st, ok, err := s.Read(it)
	if !ok && err == nil {
		err = s.corrupt(it, fmt.Errorf("attribute %q does not exist", s.columns.PersistenceID))
	}
	if err == nil {
		s.times.Learn(id, st.Time)
	}
	return st, err == nil && !st.Deleted, err
}

func (s *states) Read(it plan.Item) (annals.State, bool, error) {
	c := s.columns
	id, ok := plan.Text(it, c.PersistenceID)
	if !ok {
		return annals.State{}, false, nil
	}
	d := decode(it)
	d.Require(c.Revision, c.Ordering)
	d.Number(c.Revision, 0, math.MaxInt64)
	st := annals.State{ID: annals.PersistenceID(id), Revision: s.revision(it), Time: d.millis(c.Ordering), Tags: tagsOf(d.Text(c.Tags), s.tagSeparator),
		Deleted: d.Flag(c.Deleted), Metadata: d.metadata()}
	manifest := d.Text(c.SerializerManifest)
	if !st.Deleted {
		d.Require(c.Payload)
		st.Payload = annals.Payload{SerializerID: int32(d.Required(c.SerializerID, math.MinInt32, math.MaxInt32)), Manifest: manifest, Data: d.Bytes(c.Payload)}
	}
	if d.Fault != nil {
		return annals.State{}, false, s.corrupt(it, d.Fault)
	}
	return st, true, nil
}

// corrupt returns the error of a row that is not valid.
func (s *states) corrupt(it plan.Item, err error) error {
	return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("state in row %s: %w", plan.QuoteKey(s.shape(s.name).KeyOf(it)), err)}
}

// revision returns the writer's revision of a row; 0 for a row without one.
func (s *states) revision(it plan.Item) annals.SeqNr {
	n, ok := plan.Number(it, s.columns.Revision)
	if !ok {
		return 0
	}
	return max(annals.SeqNr(n)-s.plus, 0)
}

// Write is plan.States: a put or an update, on condition of the stored revision. Rows have no place for a WriteID, so the request has
// a token by which the service recognises repetitions.
func (s *states) Write(ctx context.Context, x plan.Executor, w plan.StateWrite) (annals.Receipt, error) {
	table, key, err := s.place(w.ID)
	if err != nil {
		return annals.Receipt{}, err
	}
	u := plan.NewUpdate()
	w.Time = s.times.NotBefore(w.ID, w.Time)
	condition := u.Name(s.columns.Revision) + " = " + u.Value(plan.N(w.After+s.plus))
	if w.After == 0 {
		condition = "attribute_not_exists(" + u.Name(s.columns.PartitionKey) + ") OR " + condition // or the first revision of the plugin's other client
	}
	if s.noSortKey {
		id := u.Name(s.columns.PersistenceID)
		condition = "(" + condition + ") AND (attribute_not_exists(" + id + ") OR " + id + " = " + u.Value(plan.S(string(w.ID))) + ")"
	}
	op := plan.Op{Table: table, Condition: condition, Names: u.Names, Values: u.Values}
	if w.Columns == nil {
		op.Put, err = s.item(w, key)
	} else {
		op.Key = key
		op.Update, err = s.change(u, w, key)
	}
	if err != nil {
		return annals.Receipt{}, err
	}
	if _, err = x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Token: plan.NewToken(), Refused: func(old []plan.Item, _ bool) error { return s.refusal(w, old[0]) }}); err != nil {
		return annals.Receipt{}, err
	}
	return annals.Receipt{SeqNr: w.After + 1, Time: time.UnixMilli(w.Time.UnixMilli()).UTC()}, nil
}

func (s *states) refusal(w plan.StateWrite, old plan.Item) error {
	if err := plan.Collision(w.ID, old, s.columns.PersistenceID); err != nil {
		return err
	}
	return &annals.Error{Kind: annals.ErrConflict, After: w.After, Last: s.revision(old)}
}

// change returns the update expression that stores w in a row and keeps other attributes. The plugin does not know additional columns: it
// removes them when it writes the row.
func (s *states) change(u *plan.Update, w plan.StateWrite, key plan.Item) (string, error) {
	it, err := s.item(w, key)
	if err != nil {
		return "", err
	}
	removed, err := plan.PutColumns(it, w.Columns)
	if err != nil {
		return "", err
	}
	if err := plan.Fits(it); err != nil {
		return "", err
	}
	c := s.columns
	maps.DeleteFunc(it, func(name string, _ attribute) bool { return key[name] != nil })
	u.Replace(it, append(removed, c.Payload, c.SerializerID, c.SerializerManifest, c.Tags, c.Deleted, metadata, skipped)...)
	return u.Expression(), nil
}

// item returns the row of a state.
func (s *states) item(w plan.StateWrite, key plan.Item) (plan.Item, error) {
	it := maps.Clone(key)
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
	putMetadata(it, w.Metadata)
	return it, putTags(it, s.columns.Tags, w.Tags, s.tagSeparator)
}

// Guard is plan.States. Revision 0 is also what the plugin's other client stores first, and, without a sort key, the row of another id.
func (s *states) Guard(id annals.PersistenceID, n annals.SeqNr) (plan.Guard, error) {
	table, key, err := s.place(id)
	if err != nil {
		return plan.Guard{}, err
	}
	u := plan.NewUpdate()
	owner, revision, own, stored := u.Name(s.columns.PersistenceID), u.Name(s.columns.Revision), u.Value(plan.S(string(id))), u.Value(plan.N(n+s.plus))
	condition := owner + " = " + own + " AND " + revision + " = " + stored
	if n == 0 {
		condition = "attribute_not_exists(" + owner + ") OR " + owner + " <> " + own + " OR " + revision + " <= " + stored
	}
	last := func(old plan.Item) annals.SeqNr {
		if plan.Collision(id, old, s.columns.PersistenceID) != nil {
			return 0
		}
		return s.revision(old)
	}
	return plan.Guard{Op: plan.Op{Table: table, Key: key, Condition: condition, Names: u.Names, Values: u.Values}, Last: last}, nil
}

// skipped is an attribute of this package on tombstones that SkipTo has made.
const skipped = "annals-skipped"

// skip is plan.StateTable.SkipTo: only a tombstone can keep a revision without a state.
func (s *states) skip() plan.Skip {
	if !s.tombstones {
		return nil
	}
	return s.SkipTo
}

// SkipTo stores the tombstone of revision n, unless the id has a row already.
func (s *states) SkipTo(ctx context.Context, x plan.Executor, id annals.PersistenceID, n annals.SeqNr) error {
	w := plan.StateWrite{StateWrite: annals.StateWrite{ID: id, After: n - 1}, Deleted: true, Time: s.times.NotBefore(id, x.Now())}
	table, key, err := s.place(id)
	if err != nil {
		return err
	}
	it, err := s.item(w, key)
	if err != nil {
		return err
	}
	it[skipped] = plan.Bool(true)
	op := plan.Create(table, it, s.columns.PartitionKey)
	op.Ours = func(old plan.Item) bool {
		owner, _ := plan.Text(old, s.columns.PersistenceID)
		return owner == string(id) && plan.Flag(old, skipped) && s.revision(old) == n
	}
	_, err = x.Write(ctx, plan.Write{
		Ops: []plan.Op{op},
		Refused: func(old []plan.Item, _ bool) error {
			return s.refusal(plan.StateWrite{StateWrite: annals.StateWrite{ID: id}}, old[0])
		},
	})
	return err
}
