package entitytest_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entitytest"
)

var errEmpty, errOther = errors.New("empty"), errors.New("other")

// cart counts words. "" is rejected; "sneak" changes the state in Decide, which is a fault.
var cart = behavior.EventSourced[string, string, map[string]int, int]{
	Type: "Cart",
	Init: func(string) map[string]int { return map[string]int{} },
	Decide: func(s map[string]int, word string) ([]string, error) {
		switch word {
		case "":
			return nil, errEmpty
		case "nothing":
			return nil, nil
		case "sneak":
			s["sneaked"]++
		}
		return []string{word}, nil
	},
	Evolve: func(s map[string]int, word string) map[string]int { s[word]++; return s },
	Reply:  func(s map[string]int, word string, _ []string) int { return s[word] },
	Events: codec.JSON[string]("added"),
	Tags:   func(word string) []string { return []string{word} },
}

func TestScenario(t *testing.T) {
	t.Parallel()
	entitytest.New(t, cart, "1").
		Given("apple", "apple").
		When("apple").Then("apple").Reply(3).
		When("").Rejected(errEmpty).
		When("nothing").Then().Reply(0).
		State(func(s map[string]int) {
			if len(s) != 1 || s["apple"] != 3 {
				t.Errorf("state %v", s)
			}
		})
}

// note is a text. "delete" deletes it, "same" does not change it, "" is rejected.
var note = behavior.DurableState[string, string, int]{
	Type: "Note",
	Init: func(id string) string { return "new " + id },
	Decide: func(_, text string) (behavior.Effect[string], error) {
		switch text {
		case "":
			return behavior.Effect[string]{}, errEmpty
		case "same":
			return behavior.Effect[string]{}, nil
		case "delete":
			return behavior.Delete[string](), nil
		}
		return behavior.Save(text), nil
	},
	Reply:  func(s, _ string) int { return len(s) },
	States: codec.JSON[string]("note"),
}

func TestStateScenario(t *testing.T) {
	t.Parallel()
	entitytest.NewState(t, note, "1").
		When("same").Then().Reply(len("new 1")).
		Given(behavior.Save("hello")).
		When("hello world").Then(behavior.Save("hello world")).Reply(11).
		When("").Rejected(errEmpty).
		When("delete").Then(behavior.Delete[string]()).
		State(func(s string) {
			if s != "new 1" {
				t.Errorf("state %q", s)
			}
		})
}

// change is who changed something last, and when.
type change struct {
	N    annals.SeqNr
	At   time.Time
	User string
}

func changed(_ change, i behavior.Info) change {
	user, _ := i.Metadata.(string)
	return change{i.SeqNr, i.Time, user}
}

var users = codec.Union[any](codec.JSON[string]("user"))

// audited are behaviors whose state is what the store says of events and states.
var audited = behavior.EventSourced[string, string, change, change]{
	Type: "Audited", Events: codec.JSON[string]("said"), Metadata: users,
	Decide:       func(_ change, word string) ([]string, error) { return []string{word, word}, nil },
	EvolveStored: func(s change, _ string, i behavior.Info) change { return changed(s, i) },
	Reply:        func(s change, _ string, _ []string) change { return s },
}

var auditedState = behavior.DurableState[string, change, change]{
	Type: "Audited", Metadata: users,
	Decide: func(s change, word string) (behavior.Effect[change], error) {
		if word == "delete" {
			return behavior.Delete[change](), nil
		}
		return behavior.Save(s), nil
	},
	Stored: changed,
	Reply:  func(s change, _ string) change { return s },
}

// EvolveStored and Stored are given numbers, and the times and metadata that the scenario sets.
func TestInfo(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	entitytest.New(t, audited, "1").
		Given("a").
		StoredAt(noon.In(time.FixedZone("", 3600)).Add(time.Nanosecond)).Metadata("ann").When("b").Reply(change{3, noon, "ann"}).
		Metadata(nil).When("c").Reply(change{5, noon, ""})
	entitytest.NewState(t, auditedState, "1").
		Given(behavior.Save(change{})).
		StoredAt(noon).Metadata("ann").When("b").Reply(change{2, noon, "ann"}).
		When("delete").Then(behavior.Delete[change]()).Reply(change{}).
		When("c").Reply(change{4, noon, "ann"})
}

// encoded is v as a store has it.
func encoded[T any](t *testing.T, c codec.Codec[T], v T) annals.Payload {
	t.Helper()
	p, err := c.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A stored history is decoded, begins with its snapshot, has its own numbers, times and metadata, and leads to its state.
func TestStored(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	said, changes := encoded(t, codec.JSON[string]("said"), "x"), codec.JSON[change]("Audited")
	entitytest.New(t, audited, "1").Stored(entitytest.History{
		Snapshot: &annals.Snapshot{SeqNr: 4, Payload: encoded(t, changes, change{N: 4, User: "eve"})},
		Events:   []annals.Event{{SeqNr: 5, Time: noon, Payload: said}, {SeqNr: 7, Time: noon, Payload: said, Metadata: encoded(t, users, "ann")}},
		State:    encoded(t, changes, change{7, noon, "ann"}),
	}).When("b").Reply(change{9, noon, "ann"})
	entitytest.New(t, cart, "1").
		Stored(entitytest.History{Events: []annals.Event{{SeqNr: 1, Payload: encoded(t, cart.Events, "apple")}}, State: encoded(t, codec.JSON[map[string]int]("Cart"), map[string]int{"apple": 1})}).
		When("apple").Reply(2)
	entitytest.NewState(t, auditedState, "1").Stored(entitytest.History{
		Events: []annals.Event{{SeqNr: 3, Time: noon, Payload: encoded(t, changes, change{}), Metadata: encoded(t, users, "ann")}},
		State:  encoded(t, changes, change{3, noon, "ann"}),
	}).When("b").Reply(change{4, noon, "ann"})
}

// failing is a testing.TB that records a failure instead of reporting it.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Helper() {}

func (f *failing) Fatal(args ...any) { f.end(fmt.Sprint(args...)) }

func (f *failing) Fatalf(format string, args ...any) { f.end(fmt.Sprintf(format, args...)) }

func (f *failing) end(text string) {
	f.text = text
	runtime.Goexit()
}

// Each demand fails when it is not met.
func TestUnmetDemandsFail(t *testing.T) {
	t.Parallel()
	unreadable := cart
	unreadable.Events = codec.Of(31, "added", func(string) ([]byte, error) { return nil, nil }, func([]byte) (string, error) { return "", errOther })
	faulty := cart
	faulty.Type = ""
	apple := []annals.Event{{SeqNr: 1, Payload: encoded(t, cart.Events, "apple"), Metadata: annals.Payload{SerializerID: 9}}}
	states := codec.JSON[map[string]int]("Cart")
	for want, scenario := range map[string]func(t testing.TB){
		"state: got map[apple:1], want map[apple:2]": func(tb testing.TB) {
			entitytest.New(tb, cart, "1").Stored(entitytest.History{Events: apple, State: encoded(t, states, map[string]int{"apple": 2})})
		},
		"event 1 of manifest \"added\" cannot be decoded": func(t testing.TB) {
			entitytest.New(t, unreadable, "1").Stored(entitytest.History{Events: apple})
		},
		"event 1: the metadata cannot be decoded": func(t testing.TB) {
			entitytest.New(t, audited, "1").Stored(entitytest.History{Events: apple})
		},
		"a state of manifest \"other\" cannot be decoded": func(t testing.TB) {
			entitytest.New(t, cart, "1").Stored(entitytest.History{Snapshot: &annals.Snapshot{SeqNr: 1, Payload: annals.Payload{SerializerID: 31, Manifest: "other"}}})
		},
		"Metadata is nil":                        func(t testing.TB) { entitytest.New(t, cart, "1").Metadata("ann") },
		"is not in the union":                    func(t testing.TB) { entitytest.New(t, audited, "1").Metadata(1) },
		"Type":                                   func(t testing.TB) { entitytest.New(t, faulty, "1") },
		"rejected: empty":                        func(t testing.TB) { entitytest.New(t, cart, "1").When("").Then() },
		"decided: got [a], want []":              func(t testing.TB) { entitytest.New(t, cart, "1").When("a").Then() },
		"decided: got [a]":                       func(t testing.TB) { entitytest.New(t, cart, "1").When("a").Then("a", "b") },
		"reply: got 1, want 2":                   func(t testing.TB) { entitytest.New(t, cart, "1").When("a").Reply(2) },
		"rejected: empty ":                       func(t testing.TB) { entitytest.New(t, cart, "1").When("").Reply(0) },
		"got empty, want other":                  func(t testing.TB) { entitytest.New(t, cart, "1").When("").Rejected(errOther) },
		"got <nil>, want empty":                  func(t testing.TB) { entitytest.New(t, cart, "1").When("a").Rejected(errEmpty) },
		"changed the state":                      func(t testing.TB) { entitytest.New(t, cart, "1").When("sneak") },
		"decode":                                 func(t testing.TB) { entitytest.New(t, unreadable, "1").Given("a") },
		"got [], want [Save(same)]":              func(t testing.TB) { entitytest.NewState(t, note, "1").When("same").Then(behavior.Save("same")) },
		"decided: got [Save(a)], want [Save(b)]": func(t testing.TB) { entitytest.NewState(t, note, "1").When("a").Then(behavior.Save("b")) },
		"want [Delete()]":                        func(t testing.TB) { entitytest.NewState(t, note, "1").When("a").Then(behavior.Delete[string]()) },
		"got [Delete()], want []":                func(t testing.TB) { entitytest.NewState(t, note, "1").When("delete").Then() },
		"got [Save(a)], want []":                 func(t testing.TB) { entitytest.NewState(t, note, "1").When("a").Then() },
		"rejected: there was no When":            func(t testing.TB) { entitytest.New(t, cart, "1").Given("a").Then() },
		"rejected: there was no When ":           func(t testing.TB) { entitytest.NewState(t, note, "1").Then() },
		"rejected: there was no When  ":          func(t testing.TB) { entitytest.New(t, cart, "1").Reply(0) },
		"got there was no When, want empty":      func(t testing.TB) { entitytest.New(t, cart, "1").Rejected(errEmpty) },
		"rejected: empty  ":                      func(t testing.TB) { entitytest.NewState(t, note, "1").When("").Then() },
		"reply: got 1, want 2 ":                  func(t testing.TB) { entitytest.NewState(t, note, "1").When("a").Reply(2) },
	} {
		f := &failing{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			scenario(f)
		}()
		<-done
		if !strings.Contains(f.text, strings.TrimSpace(want)) {
			t.Errorf("failed with %q, want %q", f.text, want)
		}
	}
}
