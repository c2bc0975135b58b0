package esa_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// library is a model of the reads and writes of a library, with one shard.
type library struct {
	x       plan.Executor
	guarded bool // the put of an event has a condition: Go and JavaScript. Without it: Rust and Java
	late    bool // the index of the journal is late: it shows the events as they were before the head was read
}

const mixedID = annals.PersistenceID("Thread|42")

var errLock = errors.New("optimistic lock error")

// head reads the version and the number of the state.
func (p library) head(ctx context.Context) (version, state annals.SeqNr, err error) {
	for it, err := range p.x.Query(ctx, plan.Query{Table: "snapshot", Index: "snapshot-aid-index", Hash: "Thread-42", From: plan.N(0), To: plan.N(0)}) {
		if err != nil {
			return 0, 0, err
		}
		v, _ := plan.Number(it, "version")
		payload, _ := plan.Bytes(it, "payload")
		var of struct {
			SeqNr annals.SeqNr `json:"seq_nr"`
		}
		err := json.Unmarshal(payload, &of)
		return annals.SeqNr(v), of.SeqNr, err
	}
	return 0, 0, nil
}

// last reads the number of the last event after the state, in one page.
func (p library) last(ctx context.Context, state annals.SeqNr) (annals.SeqNr, error) {
	last := state
	for it, err := range p.x.Query(ctx, plan.Query{Table: "journal", Index: "journal-aid-index", Hash: "Thread-42", From: plan.N(int64(state) + 1)}) {
		if err != nil {
			return 0, err
		}
		n, _ := plan.Number(it, "seq_nr")
		last = annals.SeqNr(n)
	}
	return last, nil
}

// load reads the version, and the number of the last event.
func (p library) load(ctx context.Context) (version, last annals.SeqNr, err error) {
	if p.late {
		if last, err = p.last(ctx, 1); err != nil { // the creation has stored the state of event 1
			return 0, 0, err
		}
		version, _, err = p.head(ctx)
		return version, last, err
	}
	version, state, err := p.head(ctx)
	if err != nil {
		return 0, 0, err
	}
	last, err = p.last(ctx, state)
	return version, last, err
}

// persist stores event n, if the version is still the given one.
func (p library) persist(ctx context.Context, n, version annals.SeqNr, by string) error {
	put := plan.Op{Table: "journal", Put: plan.Item{"pkey": plan.S("Thread-0"), "skey": plan.S(fmt.Sprintf("Thread-42-%d", n)), "aid": plan.S("Thread-42"),
		"seq_nr": plan.N(int64(n)), "payload": plan.B(payload(n, by)), "occurred_at": plan.N(1772355601037)}}
	if p.guarded {
		put.Condition, put.Names = "attribute_not_exists(#p)", map[string]string{"#p": "pkey"}
	}
	_, err := p.x.Write(ctx, plan.Write{Ops: []plan.Op{
		{Table: "snapshot", Key: plan.Item{"pkey": plan.S("Thread-0"), "skey": plan.S("Thread-42-0")}, Update: "SET #v = :after",
			Condition: "#v = :before", Names: map[string]string{"#v": "version"}, Values: plan.Item{":before": plan.N(int64(version)), ":after": plan.N(int64(version) + 1)}}, put},
		Refused: func([]plan.Item, bool) error { return errLock }, Token: plan.NewToken()})
	return err
}

// create stores the head and event 1.
func (p library) create(ctx context.Context) error {
	row := func(n int) plan.Item {
		return plan.Item{"pkey": plan.S("Thread-0"), "skey": plan.S(fmt.Sprintf("Thread-42-%d", n)), "aid": plan.S("Thread-42"), "seq_nr": plan.N(int64(n)), "payload": plan.B(payload(1, "library"))}
	}
	head, event := row(0), row(1)
	head["version"], head["ttl"], event["occurred_at"] = plan.N(1), plan.N(0), plan.N(1772355601037)
	absent, names := "attribute_not_exists(#p)", map[string]string{"#p": "pkey"}
	_, err := p.x.Write(ctx, plan.Write{Ops: []plan.Op{{Table: "snapshot", Put: head, Condition: absent, Names: names}, {Table: "journal", Put: event, Condition: absent, Names: names}},
		Refused: func([]plan.Item, bool) error { return errLock }, Token: plan.NewToken()})
	return err
}

// write loads the aggregate and stores one event, until that succeeds.
func (p library) write(ctx context.Context) (annals.SeqNr, error) {
	for range 4 {
		version, last, err := p.load(ctx)
		if err != nil {
			return 0, err
		}
		if err := p.persist(ctx, last+1, version, "library"); !errors.Is(err, errLock) {
			return last + 1, err
		}
	}
	return 0, errLock
}

func payload(n annals.SeqNr, by string) []byte {
	return fmt.Appendf(nil, `{"type":"Posted","seq_nr":%d,"by":%q}`, n, by)
}

// mixed runs a writer of the layout for each of counts, which are numbers of events, beside a library, in every order of their requests. end gets
// the acknowledged numbers of both.
func mixed(t *testing.T, peer esa.Peer, p library, counts []int, end func(b *bench, ours, theirs []annals.SeqNr) error) {
	t.Helper()
	plantest.EveryOrder(t, plantest.Orders{}, func(*plantest.Run) plantest.Scenario {
		offer, err := esa.Layout{Peer: peer, Shards: 1}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		x := plantest.New(offer.Tables)
		if _, err := offer.On(x).Journal.Append(t.Context(), creation()); err != nil {
			t.Fatal(err)
		}
		var ours, theirs []annals.SeqNr
		s := plantest.Scenario{Tables: x, End: func(plan.Executor) error { return end(&bench{t, x, offer.On(x), offer}, ours, theirs) }}
		for _, count := range counts {
			s.Processes = append(s.Processes, func(x plan.Executor) error {
				n, err := write(t.Context(), offer.On(x), count)
				ours = append(ours, n...)
				return err
			})
		}
		s.Processes = append(s.Processes, func(x plan.Executor) error {
			p.x = x
			n, err := p.write(t.Context())
			theirs = append(theirs, n)
			return err
		})
		return s
	})
}

// write recovers the entity and appends events to it, in one commit, until that succeeds.
func write(ctx context.Context, s plan.Contracts, count int) (stored []annals.SeqNr, err error) {
	for try := range 4 {
		var last annals.SeqNr
		last, err = s.Recover(ctx, mixedID, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
		if err != nil {
			return nil, err
		}
		c := annals.Commit{ID: mixedID, After: last, WriteID: annals.WriteID{byte(count), byte(try)}}
		for i := range count {
			n := last + 1 + annals.SeqNr(i)
			c.Events = append(c.Events, annals.NewEvent{Payload: annals.Payload{SerializerID: 31, Manifest: "Posted", Data: payload(n, "annals")}})
			stored = append(stored, n)
		}
		if _, err = s.Journal.Append(ctx, c); err == nil {
			return stored, nil
		}
		if stored = nil; !errors.Is(err, annals.ErrConflict) {
			return nil, err
		}
	}
	return nil, err
}

// check returns an error if an acknowledged event is not stored as it was written.
func check(b *bench, ours, theirs []annals.SeqNr) error {
	by := map[annals.SeqNr]string{1: "annals"}
	for who, numbers := range map[string][]annals.SeqNr{"annals": ours, "library": theirs} {
		for _, n := range numbers {
			if by[n] != "" {
				return fmt.Errorf("event %d was acknowledged twice", n)
			}
			by[n] = who
		}
	}
	next := annals.SeqNr(1)
	for e, err := range b.Journal.Replay(b.Context(), mixedID, 1, annals.MaxSeqNr) {
		if err != nil {
			return err
		}
		if e.SeqNr != next || !bytes.Contains(e.Data, fmt.Appendf(nil, `"by":%q`, by[next])) {
			return fmt.Errorf("event %d is %d, %s; it was acknowledged to %s", next, e.SeqNr, e.Data, by[next])
		}
		next++
	}
	if int(next) != len(by)+1 {
		return fmt.Errorf("%d events are read, and %d were acknowledged", next-1, len(by))
	}
	last, err := b.Journal.LastSeqNr(b.Context(), mixedID)
	if err == nil && last != next-1 {
		err = fmt.Errorf("the last number is %d, want %d", last, next-1)
	}
	return err
}

// Beside the libraries for Go and JavaScript nothing is lost, also when their index is late.
func TestBesideGuarded(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"index at once": false, "index late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mixed(t, esa.Go, library{guarded: true, late: late}, []int{2, 1}, check)
		})
	}
}

// Of two creations one succeeds, and its event and state are stored.
func TestCreationBesideGuarded(t *testing.T) {
	t.Parallel()
	plantest.EveryOrder(t, plantest.Orders{}, func(*plantest.Run) plantest.Scenario {
		offer, err := esa.Layout{Shards: 1}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		x := plantest.New(offer.Tables)
		var created []string
		report := func(by string, err, refused error) error {
			if err == nil {
				created = append(created, by)
			} else if !errors.Is(err, refused) {
				return err
			}
			return nil
		}
		return plantest.Scenario{Tables: x, Processes: []func(plan.Executor) error{
			func(x plan.Executor) error {
				_, err := offer.On(x).Journal.Append(t.Context(), creation())
				return report("annals", err, annals.ErrConflict)
			},
			func(x plan.Executor) error {
				return report("library", library{x: x}.create(t.Context()), errLock)
			},
		}, End: func(plan.Executor) error {
			b := &bench{t, x, offer.On(x), offer}
			if len(created) != 1 {
				return fmt.Errorf("created by %q", created)
			}
			state, _, err := b.Snapshots.Latest(t.Context(), mixedID, annals.SnapshotCriteria{})
			if by := fmt.Appendf(nil, `"by":%q`, created[0]); err != nil || !bytes.Contains(state.Data, by) || !bytes.Contains(b.replay(mixedID)[0].Data, by) {
				return fmt.Errorf("created by %s, state %s, %v", created[0], state.Data, err)
			}
			return nil
		}}
	})
}

// creation returns the commit of the first event.
func creation() annals.Commit {
	first := annals.Payload{SerializerID: 31, Manifest: "Posted", Data: payload(1, "annals")}
	return annals.Commit{ID: mixedID, WriteID: annals.WriteID{1}, Events: []annals.NewEvent{{Payload: first}},
		Snapshot: &annals.Snapshot{ID: mixedID, SeqNr: 1, Payload: annals.Payload{SerializerID: 31, Manifest: "Thread", Data: []byte(`{"seq_nr":1,"by":"annals"}`)}}}
}

// Beside the libraries for Rust and Java an event is lost when their index is late: their put replaces it. The loss is found, because the head has
// counted more events than there are. With an index that shows everything at once nothing is lost.
func TestBesideUnguarded(t *testing.T) {
	t.Parallel()
	mixed(t, esa.Rust, library{}, []int{2, 1}, check)
	replaced := 0
	mixed(t, esa.Rust, library{late: true}, []int{2}, func(b *bench, ours, theirs []annals.SeqNr) error {
		lost := check(b, ours, theirs)
		if lost == nil {
			return nil
		}
		replaced++
		if err := replayError(b, mixedID); !errors.Is(err, annals.ErrCorrupt) {
			return fmt.Errorf("a loss that is not found: %w, %v", lost, err)
		}
		return nil
	})
	if replaced == 0 {
		t.Error("no event of the layout was replaced")
	}
}
