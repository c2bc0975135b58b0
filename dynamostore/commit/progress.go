package commit

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// progress is what the item of a projection's slice group says.
type progress struct {
	group    int
	revision int64          // 0 = there is none yet
	newest   map[int]moment // by slice
	epochs   [groupSlices]int64
	changed  bool
}

// moment is the newest time of a slice, with all that share it.
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

func progressOf(it plan.Item) (*progress, error) {
	id, _ := plan.Text(it, attrID)
	group, err := strconv.Atoi(id[len(id)-2:])
	if v, _ := plan.Number(it, attrFormat); v > format || err != nil {
		return nil, &annals.Error{Kind: annals.ErrUnsupported, Err: fmt.Errorf("the progress %q has format %d, this version reads %d", id, v, format)}
	}
	p := newProgress(group)
	p.revision, _ = plan.Number(it, attrRevision)
	slices, _ := mapOf(it, attrNewest)
	for name := range slices {
		slice, err := strconv.Atoi(name)
		m, ok := mapOf(slices, name)
		ids, held := mapOf(m, attrNumber)
		if err != nil || !ok || !held {
			return nil, corrupt(0, errors.New("the progress of a projection cannot be read"))
		}
		newest := moment{at: plan.Time(m, attrTime), numbers: map[annals.PersistenceID]annals.SeqNr{}}
		for id := range ids {
			n, _ := plan.Number(ids, id)
			newest.numbers[annals.PersistenceID(id)] = annals.SeqNr(n)
		}
		p.newest[slice] = newest
	}
	if list, ok := it[attrEpochs].(*types.AttributeValueMemberL); ok {
		for i := range min(len(list.Value), groupSlices) {
			p.epochs[i], _ = plan.Number(plan.Item{attrEpochs: list.Value[i]}, attrEpochs)
		}
	}
	return p, nil
}

// item is p one revision on, without its key.
func (p *progress) item() plan.Item {
	newest := plan.Item{}
	for slice, m := range p.newest {
		ids := plan.Item{}
		for id, n := range m.numbers {
			ids[string(id)] = plan.N(n)
		}
		newest[strconv.Itoa(slice)] = &types.AttributeValueMemberM{Value: plan.Item{attrTime: plan.Micros(m.at), attrNumber: &types.AttributeValueMemberM{Value: ids}}}
	}
	it := plan.Item{attrFormat: plan.N(format), attrRevision: plan.N(p.revision + 1), attrNewest: &types.AttributeValueMemberM{Value: newest}}
	if p.epochs != [groupSlices]int64{} {
		list := make([]types.AttributeValue, groupSlices)
		for i, n := range p.epochs {
			list[i] = plan.N(n)
		}
		it[attrEpochs] = &types.AttributeValueMemberL{Value: list}
	}
	return it
}

// add takes in an offset that is newer than the one before of its entity.
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

// fence refuses an epoch that is older than one seen, and remembers it otherwise.
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
