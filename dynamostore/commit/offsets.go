package commit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// offsets is annals.OffsetStore. A projection has 16 partitions in the table, one for each slice group. A partition has one item for the group and
// one for each entity. Each write increases the revision of the items of its groups, on condition of the revision that it has read.
type offsets struct{ *table }

const (
	attrEntity = "entity"
	attrNumber = "nr"
	attrNewest = "newest" // by slice: the newest time, and the numbers of the entities that have it
	attrEpochs = "epochs" // by slice of the group
)

// progressID returns the pid of a slice group of a projection. It contains U+0000, which no id of an entity does.
func progressID(projection string, group int) string {
	return fmt.Sprintf("%s\x00#%02d", projection, group)
}

func progressKey(projection string, group int) plan.Item {
	return key(annals.PersistenceID(progressID(projection, group)), 0)
}

// entityKey returns the key of an entity's offset.
func entityKey(projection string, id annals.PersistenceID) plan.Item {
	it := progressKey(projection, group(id))
	it[attrSeq] = &types.AttributeValueMemberN{Value: entityNumber(id)}
	return it
}

// entityNumber returns the range key of an entity's offset: 120 bits of a hash, so that no two ids share one.
func entityNumber(id annals.PersistenceID) string {
	sum := sha256.Sum256([]byte(id))
	n := new(big.Int).SetBytes(sum[:15])
	return n.Add(n, big.NewInt(1)).String()
}

// Load is annals.OffsetStore.
func (o offsets) Load(ctx context.Context, projection string, r annals.SliceRange) (all []annals.Offset, err error) {
	if err := fitsKey(projection); err != nil {
		return nil, err
	}
	g := plan.GetAll{Table: o.name}
	first, end := groupsOf(r)
	for i := first; i < end; i++ {
		g.Keys = append(g.Keys, progressKey(projection, i))
	}
	items, err := o.x.GetAll(ctx, g)
	if err != nil {
		return nil, err
	}
	for _, it := range items {
		p, err := progressOf(groupIn(it), it)
		if err != nil {
			return nil, err
		}
		for slice, m := range p.newest {
			if r.Contains(slice) {
				all = append(all, m.offsets()...)
			}
		}
	}
	return all, nil
}

// Handled is annals.OffsetStore.
func (o offsets) Handled(ctx context.Context, projection string, id annals.PersistenceID) (annals.Offset, bool, error) {
	if err := fitsKey(projection); err != nil {
		return annals.Offset{}, false, err
	}
	it, ok, err := o.x.Get(ctx, plan.Get{Table: o.name, Key: entityKey(projection, id)})
	if !ok || err != nil {
		return annals.Offset{}, false, err
	}
	offset, err := entityOffset(group(id), it)
	return offset, err == nil, err
}

// Save is annals.OffsetStore: one transaction with an item for each entity, and for each group that has one of them or whose epochs increase.
// When another worker writes to such a group in between, Save reads again.
func (o offsets) Save(ctx context.Context, p annals.Progress) error {
	if err := fitsKey(p.Projection); err != nil {
		return err
	}
	for {
		ops, err := o.changes(ctx, p)
		if len(ops) == 0 || err != nil {
			return err
		}
		if _, err := o.x.Write(ctx, plan.Write{Ops: ops}); !errors.Is(err, annals.ErrConflict) {
			return err
		}
	}
}

// changes returns the writes for p.
func (o offsets) changes(ctx context.Context, p annals.Progress) ([]plan.Op, error) {
	known, stored, err := o.known(ctx, p)
	if err != nil {
		return nil, err
	}
	if p.Epoch > 0 {
		for _, g := range known {
			if err := g.fence(p); err != nil {
				return nil, err
			}
		}
	}
	var ops []plan.Op
	for _, offset := range newestOf(p.Offsets) {
		id := offset.ID
		if offset.Compare(stored[id]) <= 0 {
			continue
		}
		known[group(id)].add(offset)
		it := entityKey(p.Projection, id)
		it[attrFormat], it[attrEntity], it[attrTime], it[attrNumber] = plan.N(format), plan.S(string(id)), plan.Micros(offset.Time), plan.N(offset.SeqNr)
		ops = append(ops, plan.Op{Table: o.name, Put: it, Condition: "attribute_not_exists(#at) OR #at < :at OR #at = :at AND #nr < :nr",
			Names:  map[string]string{"#at": attrTime, "#nr": attrNumber},
			Values: plan.Item{":at": it[attrTime], ":nr": it[attrNumber]}})
	}
	for i := range groups {
		if g := known[i]; g != nil && g.changed {
			ops = append(ops, o.put(p.Projection, i, g))
		}
	}
	return ops, nil
}

// known reads the stored groups and entities of p.
func (o offsets) known(ctx context.Context, p annals.Progress) (map[int]*progress, map[annals.PersistenceID]annals.Offset, error) {
	known, stored := map[int]*progress{}, map[annals.PersistenceID]annals.Offset{}
	if p.Epoch > 0 {
		first, end := groupsOf(p.Slices)
		for i := first; i < end; i++ {
			known[i] = newProgress(i)
		}
	}
	g := plan.GetAll{Table: o.name}
	for _, offset := range newestOf(p.Offsets) {
		i := group(offset.ID)
		known[i] = newProgress(i)
		g.Keys = append(g.Keys, entityKey(p.Projection, offset.ID))
	}
	for i := range groups {
		if known[i] != nil {
			g.Keys = append(g.Keys, progressKey(p.Projection, i))
		}
	}
	items, err := o.x.GetAll(ctx, g)
	if err != nil {
		return nil, nil, err
	}
	for _, it := range items {
		if number(it) != "0" {
			offset, err := entityOffset(groupIn(it), it)
			if err != nil {
				return nil, nil, err
			}
			stored[offset.ID] = offset
			continue
		}
		found, err := progressOf(groupIn(it), it)
		if err != nil {
			return nil, nil, err
		}
		known[found.group] = found
	}
	return known, stored, nil
}

// newestOf returns the newest offset of each entity, in order. Times are in microseconds, as they are stored.
func newestOf(all []annals.Offset) []annals.Offset {
	newest := map[annals.PersistenceID]annals.Offset{}
	for _, o := range all {
		o.Time = o.Time.Truncate(time.Microsecond)
		if o.Compare(newest[o.ID]) > 0 {
			newest[o.ID] = o
		}
	}
	return slices.SortedFunc(maps.Values(newest), annals.Offset.Compare)
}

// put stores g, unless it has been written since it was read.
func (o offsets) put(projection string, group int, g *progress) plan.Op {
	it := g.item()
	it[attrID], it[attrSeq] = progressKey(projection, group)[attrID], plan.N(0)
	op := plan.Op{Table: o.name, Put: it, Condition: absent, Names: idName}
	if g.revision > 0 {
		op.Condition, op.Names, op.Values = "#rev = :rev", map[string]string{"#rev": attrRevision}, plan.Item{":rev": plan.N(g.revision)}
	}
	return op
}

// Reset is annals.OffsetStore. Each group is reset on condition that it is not written meanwhile. An interrupted Reset has reset some groups.
func (o offsets) Reset(ctx context.Context, projection string, r annals.SliceRange, to annals.Offset) error {
	if err := fitsKey(projection); err != nil {
		return err
	}
	first, end := groupsOf(r)
	for i := first; i < end; {
		switch err := o.resetGroup(ctx, projection, i, r, to); {
		case err == nil:
			i++
		case !errors.Is(err, annals.ErrConflict):
			return err
		}
	}
	return nil
}

// resetItems is the most items of entities in one transaction with the item of their group.
const resetItems = 99

func (o offsets) resetGroup(ctx context.Context, projection string, group int, r annals.SliceRange, to annals.Offset) error {
	g := newProgress(group)
	var doomed []plan.Item
	for it, err := range o.x.Query(ctx, plan.Query{Table: o.name, Hash: progressID(projection, group)}) {
		if err != nil {
			return err
		}
		if number(it) == "0" { // the item of the group, which is the first
			if g, err = progressOf(group, it); err != nil {
				return err
			}
			clear(g.newest)
			continue
		}
		offset, err := entityOffset(group, it)
		if err != nil {
			return err
		}
		if r.Contains(offset.ID.Slice()) && offset.Compare(to) >= 0 {
			doomed = append(doomed, plan.Item{attrID: it[attrID], attrSeq: it[attrSeq]})
		} else {
			g.add(offset)
		}
	}
	for some := range slices.Chunk(doomed, resetItems) {
		ops := []plan.Op{o.put(projection, group, g)}
		for _, k := range some {
			ops = append(ops, plan.Op{Table: o.name, Key: k, Delete: true})
		}
		if _, err := o.x.Write(ctx, plan.Write{Ops: ops}); err != nil {
			return err
		}
		g.revision++
	}
	return nil
}

// entityOffset returns the offset in the item of an entity.
func entityOffset(of int, it plan.Item) (annals.Offset, error) {
	d := decode(it)
	if err := d.readable("the offset of an entity"); err != nil {
		return annals.Offset{}, err
	}
	offset := annals.Offset{ID: annals.PersistenceID(d.Text(attrEntity)), SeqNr: annals.SeqNr(d.Required(attrNumber, math.MinInt64, math.MaxInt64)), Time: d.Time(attrTime)}
	if group(offset.ID) != of || number(it) != entityNumber(offset.ID) {
		d.Wrong(attrEntity)
	}
	if d.Fault != nil {
		return annals.Offset{}, corrupt(0, fmt.Errorf("the offset of an entity: %w", d.Fault))
	}
	return offset, nil
}

// groupIn returns the slice group in the pid of an item, which progressID has made.
func groupIn(it plan.Item) int {
	id, _ := plan.Text(it, attrID)
	group, _ := strconv.Atoi(id[max(len(id)-2, 0):])
	return group
}

// groupsOf returns the groups first ≤ g < end that have slices of r.
func groupsOf(r annals.SliceRange) (first, end int) {
	from, to := r.Bounds()
	return from / groupSlices, (to-1)/groupSlices + 1
}

// fitsKey returns ErrInvalid for a projection whose name is too long for a key.
func fitsKey(projection string) error {
	if n := len(progressID(projection, 0)); n > maxIDBytes {
		return fault("the projection's name has %d bytes too many", n-maxIDBytes)
	}
	return nil
}
