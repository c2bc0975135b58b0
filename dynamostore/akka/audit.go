package akka

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/quote"
)

// audit is plan.Audit: it looks for a high mark that the plugin needs. The marks are read again after the last number, because a write stores an
// event and its mark together.
func (j *journal) audit(ctx context.Context, id annals.PersistenceID) ([]*ability.Damage, error) {
	m, err := j.marks(ctx, id)
	if err != nil {
		return nil, lostBefore(err)
	}
	last, err := j.last(ctx, id, m)
	if err != nil {
		return nil, lostBefore(err)
	}
	if m, err = j.marks(ctx, id); err != nil || groupOf(last) <= groupOf(max(m.high, m.low)) {
		return nil, lostBefore(err)
	}
	return []*ability.Damage{{Code: ability.Head, ID: id, From: last - last%perGroup, To: last,
		Err: errors.New("the group of the last number has no high mark, so the plugin does not find its events; akka.Repair writes the mark")}}, nil
}

// lostBefore is nil for damage that the reads of an entity find, too.
func lostBefore(err error) error {
	if errors.Is(err, annals.ErrCorrupt) {
		return nil
	}
	return err
}

// owned is plan.Row for the snapshot table.
func (s *snapshots) owned(it plan.Item) (annals.PersistenceID, *ability.Damage) {
	key := plan.KeyText(it[attrPar])
	id, ok := strings.CutPrefix(key, s.name+akkakeys.Events)
	switch {
	case ok && id != "":
		return annals.PersistenceID(id), nil
	case !ok && s.named.Knows(key):
		return "", nil // of another journal
	}
	return "", plan.Misplaced("", 0, fmt.Errorf("table %q: the key %s is of no known journal", s.table, quote.Text(key)))
}
