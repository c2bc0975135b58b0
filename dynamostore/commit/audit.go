package commit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/timeline"
)

// unfinished is how old a part of a snapshot without its header must be. The parts are written before the header.
const unfinished = 15 * time.Minute

// audit is plan.Audit: it looks at the places of all items of an entity, at parts of snapshots that no header names, and at the types in the index.
func (t *table) audit(ctx context.Context, id annals.PersistenceID) (found []*ability.Damage, err error) {
	parts, named, indexed := 0, map[string]bool{}, false
	var unnamed []string // the saves of the parts
	for it, err := range t.x.Query(ctx, plan.Query{Table: t.name, Hash: string(id), Fields: append([]string{attrID, attrFeed, attrSave}, keyFields...)}) {
		if err != nil {
			return nil, err
		}
		owner, damage := t.owned(t.name, it)
		if owner == "" {
			continue
		}
		if damage != nil {
			found = append(found, damage)
		}
		indexed = indexed || it[attrFeed] != nil
		if save, ok := plan.Bytes(it, attrSave); ok && len(save) == saveBytes {
			named[fmt.Sprint(saveNumber(save))] = true
		}
		seq := plan.KeyText(it[attrSeq])
		if digits := len(seq) - len("0000"); strings.HasPrefix(seq, "-") && digits > 1 && t.x.Now().Sub(plan.Time(it, attrTime)) > unfinished {
			unnamed = append(unnamed, seq[1:digits])
		}
	}
	for _, save := range unnamed {
		if !named[save] {
			parts++
		}
	}
	if parts > 0 {
		found = append(found, &ability.Damage{Code: ability.Orphan, ID: id, Err: fmt.Errorf("%d parts of snapshots are of no snapshot: a save did not end. They take space only", parts)})
	}
	if t.index == "" || !indexed {
		return found, nil
	}
	listed, err := t.types.Listed(ctx, t.x, id.Type())
	if err == nil && !listed {
		found = append(found, &ability.Damage{Code: ability.Index, ID: id, Err: errors.New("the settings do not list the type, so queries of all types leave it out")})
	}
	return found, err
}

// owned is plan.Row. Positions of projections have U+0000 in the key.
func (t *table) owned(name string, it plan.Item) (annals.PersistenceID, *ability.Damage) {
	id, seq := owner(it), plan.KeyText(it[attrSeq])
	if id == "" || strings.Contains(string(id), "\x00") || plan.SameKey(settingsKey(), plan.Item{attrID: it[attrID], attrSeq: it[attrSeq]}) {
		return "", nil
	}
	n, half, err := place(it)
	n = max(n, 0)
	feed := ""
	switch {
	case strings.HasPrefix(seq, "-") && name == t.name: // a part of a snapshot
		return id, nil
	case err != nil:
	case seq == "0" && name != t.statesOf(id.Type()):
		err = fmt.Errorf("table %q has a state whose type has another table", name)
	case seq == "0":
		feed = timeline.StateKey(id)
	case name != t.name:
		err = fmt.Errorf("table %q has an item that is no state", name)
	case !half:
		feed = timeline.EventsKey(id)
	}
	if err != nil {
		return id, plan.Misplaced(id, n, err)
	}
	if have, _ := plan.Text(it, attrFeed); t.index != "" && have != feed {
		return id, &ability.Damage{Code: ability.Index, ID: id, From: n, To: n, Err: fmt.Errorf("the attribute %q does not put the item where queries look for it", attrFeed)}
	}
	return id, nil
}
