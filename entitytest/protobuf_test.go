package entitytest_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec/protocodec"
	"github.com/annals-go/annals/entitytest"
)

type text = *wrapperspb.StringValue

// A message keeps its size after it was encoded, so equal messages can differ as Go values.
func TestProtobuf(t *testing.T) {
	t.Parallel()
	sized := func(s string) text {
		m := wrapperspb.String(s)
		if _, err := proto.Marshal(m); err != nil {
			t.Fatal(err)
		}
		_ = m.ProtoReflect()
		return m
	}
	events := behavior.EventSourced[string, text, string, string]{
		Type:   "Text",
		Decide: func(_, c string) ([]text, error) { return []text{sized(c)}, nil },
		Evolve: func(_ string, e text) string { return e.GetValue() },
		Events: protocodec.Of[text]("text"),
	}
	entitytest.New(t, events, "1").When("a").Then(wrapperspb.String("a"))
	states := behavior.DurableState[string, text, string]{
		Type:   "Text",
		Decide: func(_ text, c string) (behavior.Effect[text], error) { return behavior.Save(sized(c)), nil },
		States: protocodec.Of[text]("text"),
	}
	entitytest.NewState(t, states, "1").When("a").Then(behavior.Save(wrapperspb.String("a")))
	for want, scenario := range map[string]func(t testing.TB){
		"got [value:\"a\"]": func(t testing.TB) { entitytest.New(t, events, "1").When("a").Then(wrapperspb.String("b")) },
		"got [Save(": func(t testing.TB) {
			entitytest.NewState(t, states, "1").When("a").Then(behavior.Save(wrapperspb.String("b")))
		},
	} {
		f := &failing{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			scenario(f)
		}()
		<-done
		if !strings.Contains(f.text, want) {
			t.Errorf("failed with %q, want %q", f.text, want)
		}
	}
}

// Restore is called in a scenario as after a load.
func TestRestore(t *testing.T) {
	t.Parallel()
	type named struct {
		id  string
		Sum int
	}
	b := behavior.DurableState[int, named, string]{
		Type: "Named", Init: func(id string) named { return named{id: id} },
		Restore: func(id string, s named) named { s.id = id; return s },
		Decide:  func(s named, n int) (behavior.Effect[named], error) { s.Sum += n; return behavior.Save(s), nil },
		Reply:   func(s named, _ int) string { return s.id },
	}
	entitytest.NewState(t, b, "a").Given(behavior.Save(named{Sum: 1})).When(1).Then(behavior.Save(named{"a", 2})).Reply("a")
}
