package process_test

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/process"
)

// Steps are read as they were stored, and nothing else is.
func TestReadStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := begin(t)
		boxes, err := aggregate.New(w.store, boxes, aggregate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		w.do(t, "Here|h", wish{For: "a", Do: "set", Name: "t", After: time.Minute})
		settle(t, r)
		time.Sleep(time.Minute + time.Second)
		settle(t, r)
		var got []process.StoredStep
		for e, err := range w.store.Journal().Replay(t.Context(), "Listing|a", 1, annals.MaxSeqNr) {
			if err != nil {
				t.Fatal(err)
			}
			if s, ok := process.ReadStep(e); ok {
				got = append(got, s)
			}
		}
		notes, _, err := w.notes(t.Context(), "a")
		if err != nil || len(notes) != 4 {
			t.Fatalf("notes %+v, %v", notes, err)
		}
		text := func(s string) annals.Payload {
			p, err := codec.JSON[string]("text").Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		want := []process.StoredStep{
			{Entity: "Here|h", SeqNr: 1, Commands: []process.StoredCommand{{"Listing|a/1/1", "boxes", "x", text("ask")}, {"Listing|a/1/2", "boxes", "x'", text("tell")}}},
			{Entity: "Here|h", SeqNr: 2, Timers: []process.Timer{{Name: "t", Due: notes[1].Due}}},
			{Answer: "Listing|a/1/1"},
			{Timer: "t", Commands: []process.StoredCommand{{"Listing|a/7/1", "boxes", "timers of a", text("t")}}},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("read %+v, want %+v", got, want)
		}
		if _, ok := process.ReadStep(annals.Event{Payload: annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "annals.process.step", Data: []byte("{")}}); ok {
			t.Error("a step that cannot be decoded was read")
		}
		command := got[0].Commands[0]
		executed := func(ctx context.Context) [2]annals.SeqNr {
			first, last, err := command.Executed(ctx, w.store, "Box|once")
			if err != nil {
				t.Error(err)
			}
			return [2]annals.SeqNr{first, last}
		}
		if n := executed(t.Context()); n != [2]annals.SeqNr{} {
			t.Errorf("a command that was not executed has the events %v", n)
		}
		for _, key := range []string{"another", command.ID, command.ID} {
			if _, err := boxes.AskOnce(t.Context(), key, "once", letter{key, "text"}); err != nil {
				t.Fatal(err)
			}
		}
		if n := executed(t.Context()); n != [2]annals.SeqNr{2, 2} {
			t.Errorf("the command has the events %v, want 2", n)
		}
	})
}
