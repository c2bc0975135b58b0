package rust5_test

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// peer is what event-store-adapter-rs 5.2.0 does with an aggregate: its reads, and its writes with their conditions. Its writes are compared with
// the library's own in TestPeerWritesTheGoldenItems.
type peer struct {
	x      plan.Executor
	tables [3]string // journal, snapshot, head
}

// Errors of the library.
var (
	errLock = errors.New("optimistic lock")
	errGap  = errors.New("contract violation")
)

func newPeer(x plan.Executor, offer plan.Offer) peer {
	return peer{x, [3]string{offer.Tables[0].Name, offer.Tables[1].Name, offer.Tables[2].Name}}
}

// persist stores event n, which is the number after the head's, or the first.
func (p peer) persist(ctx context.Context, aid string, n annals.SeqNr, payload string, snapshot bool) error {
	event := plan.Item{"seq_nr": plan.N(n), "occurred_at": plan.N(int64(n) * 1e9), "manifest": plan.S("m"), "payload": plan.B([]byte(payload))}
	row := maps.Clone(event)
	row["aid"] = plan.S(aid)
	names := map[string]string{"#aid": "aid", "#seq_nr": "seq_nr", "#events": "events"}
	w := plan.Write{Ops: []plan.Op{{Table: p.tables[0], Put: row, Condition: "attribute_not_exists(#aid)", Names: names}}}
	if n == 1 {
		w.Ops = append(w.Ops, plan.Op{Table: p.tables[2], Put: plan.Item{"aid": plan.S(aid), "type_name": plan.S("Thing"), "seq_nr": plan.N(n), "events": plan.L(plan.M(event))},
			Condition: "attribute_not_exists(#aid)", Names: names})
	} else {
		w.Ops = append(w.Ops, plan.Op{Table: p.tables[2], Key: plan.Item{"aid": plan.S(aid)}, Update: "SET #seq_nr = :n, #events = :e", Condition: "#seq_nr = :before", Names: names,
			Values: plan.Item{":n": plan.N(n), ":e": plan.L(plan.M(event)), ":before": plan.N(n - 1)}})
	}
	if snapshot {
		w.Ops = append(w.Ops, plan.Op{Table: p.tables[1], Put: plan.Item{"aid": plan.S(aid), "skey": plan.N(0), "seq_nr": plan.N(n), "manifest": plan.S("s"), "payload": plan.B([]byte("s")),
			"last_updated_at": plan.N(int64(n) * 1e3)}})
	}
	w.Refused = func(old []plan.Item, _ bool) error {
		if head, _ := plan.Number(old[1], "seq_nr"); n > 1 && int64(n) > head+1 {
			return errGap
		}
		return errLock
	}
	_, err := p.x.Write(ctx, w)
	return err
}

// load reads the head and the current snapshot in one BatchGetItem, and the events after the snapshot.
func (p peer) load(ctx context.Context, aid string) (head, snapshot annals.SeqNr, events []annals.SeqNr, err error) {
	items, err := p.x.GetMany(ctx, []plan.Get{{Table: p.tables[2], Key: plan.Item{"aid": plan.S(aid)}}, {Table: p.tables[1], Key: plan.Item{"aid": plan.S(aid), "skey": plan.N(0)}}})
	if err != nil {
		return 0, 0, nil, err
	}
	h, _ := plan.Number(items[0], "seq_nr")
	s, _ := plan.Number(items[1], "seq_nr")
	for it, err := range p.x.Query(ctx, plan.Query{Table: p.tables[0], Hash: aid, From: plan.N(s + 1)}) {
		if err != nil {
			return 0, 0, nil, err
		}
		if err := validItem(it); err != nil {
			return 0, 0, nil, err
		}
		n, _ := plan.Number(it, "seq_nr")
		events = append(events, annals.SeqNr(n))
	}
	return annals.SeqNr(h), annals.SeqNr(s), events, nil
}

// validItem returns the library's error for a row that it cannot decode.
func validItem(it plan.Item) error {
	_, text := it["manifest"].(*types.AttributeValueMemberS)
	_, binary := it["payload"].(*types.AttributeValueMemberB)
	_, number := plan.Number(it, "occurred_at")
	if !text || !binary || !number {
		return fmt.Errorf("storage error: %v", it)
	}
	return nil
}
