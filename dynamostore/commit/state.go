package commit

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// writesKept are the attributes of the last four writes of a state, newest first: WriteID and time, 24 bytes each.
var writesKept = []string{attrWrite, "w1", "w2", "w3"}

// Get is plan.States.
func (t *table) Get(ctx context.Context, x plan.Executor, id annals.PersistenceID) (annals.State, bool, error) {
	it, ok, err := x.Get(ctx, plan.Get{Table: t.name, Key: key(id, 0)})
	if !ok || err != nil {
		return annals.State{}, false, err
	}
	st, err := stateOf(id, it)
	return st, err == nil && !st.Deleted, err
}

func stateOf(id annals.PersistenceID, it plan.Item) (annals.State, error) {
	if v, _ := plan.Number(it, attrFormat); v > format {
		return annals.State{}, &annals.Error{Kind: annals.ErrUnsupported, Err: fmt.Errorf("the state has format %d, this version reads %d", v, format)}
	}
	st := annals.State{ID: id, Revision: revision(it), Time: plan.Time(it, attrTime), Tags: tags(it), Deleted: plan.Flag(it, attrDeleted)}
	if !st.Deleted {
		st.Payload = payload(it)
	}
	return st, nil
}

func revision(it plan.Item) annals.SeqNr {
	n, _ := plan.Number(it, attrRevision)
	return annals.SeqNr(n)
}

// Write is plan.States: one update on condition of the revision.
func (t *table) Write(ctx context.Context, x plan.Executor, w plan.StateWrite) (annals.Receipt, error) {
	if err := t.announce(ctx, x, w.ID); err != nil {
		return annals.Receipt{}, err
	}
	op, err := t.stateOp(&w)
	if err != nil {
		return annals.Receipt{}, err
	}
	write := plan.Write{Ops: []plan.Op{op}, Refused: func(old []plan.Item, open bool) error { return refusal(w, old[0], open) }}
	if w.Event != nil {
		// The event's number must be the journal's next, so the journal is asked first. The put would only notice a number
		// that is taken.
		last, err := t.LastSeqNr(ctx, x, w.ID)
		if err != nil {
			return annals.Receipt{}, err
		}
		if last != w.After {
			return t.eventMisfit(ctx, x, w, last)
		}
		c := annals.Commit{ID: w.ID, After: w.After, Events: []annals.NewEvent{*w.Event}, WriteID: w.WriteID}
		write.Ops = append(write.Ops, t.commitOp(c, &w.Time))
	}
	out, err := x.Write(ctx, write)
	if err != nil {
		return annals.Receipt{}, err
	}
	if out.Repeated {
		return repeated(w, out.Old[0]), nil
	}
	return annals.Receipt{SeqNr: w.After + 1, Time: w.Time}, nil
}

// eventMisfit answers a write whose event does not fit the journal: it comes again, comes late, or skipped events before.
func (t *table) eventMisfit(ctx context.Context, x plan.Executor, w plan.StateWrite, last annals.SeqNr) (annals.Receipt, error) {
	it, _, err := x.Get(ctx, plan.Get{Table: t.name, Key: key(w.ID, 0)})
	if err != nil {
		return annals.Receipt{}, err
	}
	if came(w, it) {
		return repeated(w, it), nil
	}
	if revision(it) != w.After {
		return annals.Receipt{}, refusal(w, it, false)
	}
	return annals.Receipt{}, fault("the write carries event %d, but the journal's last number is %d: every write of the entity must carry one", w.After+1, last)
}

// stateOp is the update that makes an item out of w, whose time it sets to the one stored. Attributes that w does not name
// stay.
func (t *table) stateOp(w *plan.StateWrite) (plan.Op, error) {
	fresh := plan.Item{attrFormat: plan.N(format), attrRevision: plan.N(w.After + 1), attrTime: plan.Micros(w.Time), attrWrite: plan.B(stamp(w))}
	if t.index != "" {
		fresh[attrFeed] = stateFeed(w.ID)
	}
	putTags(fresh, w.Tags)
	if w.Deleted {
		fresh[attrDeleted] = plan.Bool(true)
	} else {
		putPayload(fresh, w.Payload)
	}
	gone := []string{}
	for _, name := range []string{attrSerializer, attrManifest, attrData, attrTags, attrDeleted} {
		if fresh[name] == nil {
			gone = append(gone, name)
		}
	}
	for name, value := range w.Columns {
		v, err := plan.Column(value)
		switch {
		case err != nil:
			return plan.Op{}, fault("the column %q: %w", name, err)
		case v == nil:
			gone = append(gone, name)
		default:
			fresh[name] = v
		}
	}
	whole := key(w.ID, 0)
	for _, name := range writesKept {
		whole[name] = plan.B(make([]byte, 24))
	}
	maps.Copy(whole, fresh)
	if err := plan.Fits(whole); err != nil {
		return plan.Op{}, err
	}
	u := update{names: map[string]string{}, values: plan.Item{":none": plan.B(nil)}}
	condition := "attribute_not_exists(" + u.name(attrRevision) + ")"
	if w.After > 0 {
		u.values[":after"] = plan.N(w.After)
		condition = u.name(attrRevision) + " = :after"
	}
	for i := len(writesKept) - 1; i > 0; i-- {
		u.sets = append(u.sets, u.name(writesKept[i])+" = if_not_exists("+u.name(writesKept[i-1])+", :none)")
	}
	for _, name := range sortedKeys(fresh) {
		u.sets = append(u.sets, u.name(name)+" = "+u.value(fresh[name]))
	}
	slices.Sort(gone)
	for _, name := range gone {
		u.removes = append(u.removes, u.name(name))
	}
	return plan.Op{Table: t.name, Key: key(w.ID, 0), Update: u.text(), Condition: condition, Names: u.names, Values: u.values,
		Ours: func(old plan.Item) bool { return came(*w, old) }, Stamp: t.stampState(w, fresh)}, nil
}

// stamp is what a state remembers of a write.
func stamp(w *plan.StateWrite) []byte {
	return binary.BigEndian.AppendUint64(slices.Clone(w.WriteID[:]), uint64(w.Time.UnixMicro()))
}

// kept is what old remembers of the write after w.After; nil when that is too long ago, or to come.
func kept(w plan.StateWrite, old plan.Item) []byte {
	ago := revision(old) - (w.After + 1)
	if old == nil || ago < 0 || ago >= annals.SeqNr(len(writesKept)) {
		return nil
	}
	b, _ := plan.Bytes(old, writesKept[ago])
	return b
}

// came reports whether w is among the writes that old remembers.
func came(w plan.StateWrite, old plan.Item) bool {
	b := kept(w, old)
	return len(b) == 24 && bytes.Equal(b[:16], w.WriteID[:])
}

func repeated(w plan.StateWrite, old plan.Item) annals.Receipt {
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(kept(w, old)[16:]))).UTC()
	return annals.Receipt{SeqNr: w.After + 1, Time: at, Repeated: true}
}

// refusal says why w was refused by old. A write that an earlier call may have made, and that is older than what old
// remembers, may have landed.
func refusal(w plan.StateWrite, old plan.Item, open bool) error {
	e := &annals.Error{Kind: annals.ErrConflict, After: w.After, Last: revision(old)}
	if (w.Given || open) && e.Last > w.After && kept(w, old) == nil {
		e.Kind = annals.ErrUnknown
	}
	return e
}

// update is an update expression in the making.
type update struct {
	sets, removes []string
	names         map[string]string
	values        plan.Item
}

func (u *update) name(attribute string) string {
	placeholder := "#" + strings.Map(letters, attribute)
	for n := 0; u.names[placeholder] != "" && u.names[placeholder] != attribute; n++ {
		placeholder += strconv.Itoa(n)
	}
	u.names[placeholder] = attribute
	return placeholder
}

func (u *update) value(v types.AttributeValue) string {
	placeholder := fmt.Sprintf(":v%d", len(u.values))
	u.values[placeholder] = v
	return placeholder
}

func (u *update) text() string {
	text := "SET " + strings.Join(u.sets, ", ")
	if len(u.removes) > 0 {
		text += " REMOVE " + strings.Join(u.removes, ", ")
	}
	return text
}

func letters(r rune) rune {
	if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
		return r
	}
	return '_'
}

func sortedKeys(it plan.Item) []string {
	names := make([]string, 0, len(it))
	for name := range it {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
