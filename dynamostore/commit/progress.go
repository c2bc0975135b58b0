package commit

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// progress is the content of the item of a projection's slice group.
type progress struct {
	group    int
	revision int64          // 0 when there is no item yet
	newest   map[int]moment // by slice
	epochs   [groupSlices]int64
	changed  bool
}

// moment is the newest time of a slice, with the entities that have it.
type moment struct {
	at      time.Time
	numbers map[annals.PersistenceID]annals.SeqNr
}

func (m moment) offsets() (all []annals.Offset) {
	for id, n := range m.numbers {
		all = append(all, annals.Offset{Time: m.at, ID: id, SeqNr: n})
	}
	return all
}

func newProgress(group int) *progress {
	return &progress{group: group, newest: map[int]moment{}}
}

// progressOf decodes the item of a group.
func progressOf(group int, it plan.Item) (*progress, error) {
	d := decode(it)
	if err := d.readable("the progress of a projection"); err != nil {
		return nil, err
	}
	p := newProgress(group)
	p.revision = d.Required(attrRevision, 1, math.MaxInt64-1)
	d.Require(attrNewest)
	slices := d.Map(attrNewest)
	for name := range slices {
		slice, err := strconv.Atoi(name)
		one := decode(slices)
		at := decode(one.Map(name))
		at.Require(attrNumber)
		numbers := decode(at.Map(attrNumber))
		newest := moment{at: at.Time(attrTime), numbers: map[annals.PersistenceID]annals.SeqNr{}}
		for id := range numbers.Item {
			newest.numbers[annals.PersistenceID(id)] = annals.SeqNr(numbers.Required(id, math.MinInt64, math.MaxInt64))
		}
		if err != nil || slice/groupSlices != group || slice < 0 || cmp.Or(one.Fault, at.Fault, numbers.Fault) != nil {
			d.Wrong(attrNewest)
		}
		p.newest[slice] = newest
	}
	if list, ok := it[attrEpochs].(*types.AttributeValueMemberL); ok && len(list.Value) == groupSlices {
		for i, v := range list.Value {
			epoch := decode(plan.Item{attrEpochs: v})
			if p.epochs[i], ok = epoch.Number(attrEpochs, 0, math.MaxInt64); !ok {
				d.Wrong(attrEpochs)
			}
		}
	} else if it[attrEpochs] != nil {
		d.Wrong(attrEpochs)
	}
	if d.Fault != nil {
		return nil, corrupt(0, fmt.Errorf("the progress of a projection: %w", d.Fault))
	}
	return p, nil
}

// item returns the item of the next revision of p, without its key.
func (p *progress) item() plan.Item {
	newest := plan.Item{}
	for slice, m := range p.newest {
		ids := plan.Item{}
		for id, n := range m.numbers {
			ids[string(id)] = plan.N(n)
		}
		newest[strconv.Itoa(slice)] = plan.M(plan.Item{attrTime: plan.Micros(m.at), attrNumber: plan.M(ids)})
	}
	it := plan.Item{attrFormat: plan.N(format), attrRevision: plan.N(p.revision + 1), attrNewest: plan.M(newest)}
	if p.epochs != [groupSlices]int64{} {
		list := make([]types.AttributeValue, groupSlices)
		for i, n := range p.epochs {
			list[i] = plan.N(n)
		}
		it[attrEpochs] = plan.L(list...)
	}
	return it
}

// add records an offset that is newer than the last one of its entity.
func (p *progress) add(o annals.Offset) {
	p.changed = true
	slice := o.ID.Slice()
	m, ok := p.newest[slice]
	switch {
	case !ok || o.Time.After(m.at):
		p.newest[slice] = moment{o.Time, map[annals.PersistenceID]annals.SeqNr{o.ID: o.SeqNr}}
	case o.Time.Equal(m.at):
		m.numbers[o.ID] = o.SeqNr
	}
}

// fence returns ErrFenced for an epoch that is older than a stored one, and records it otherwise.
func (p *progress) fence(w annals.Progress) error {
	for i, seen := range p.epochs {
		switch slice := p.group*groupSlices + i; {
		case !w.Slices.Contains(slice):
		case seen > w.Epoch:
			return &annals.Error{Kind: annals.ErrFenced, Err: fmt.Errorf("projection %q, slices %s: epoch %d, but %d was seen", w.Projection, w.Slices, w.Epoch, seen)}
		case seen < w.Epoch:
			p.epochs[i], p.changed = w.Epoch, true
		}
	}
	return nil
}
