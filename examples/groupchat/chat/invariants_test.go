package chat

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// Whatever is asked in whatever order, what holds for a thread keeps holding.
func TestInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		thread := newThread("t")
		for _, c := range rapid.SliceOfN(rapid.Custom(anyCommand), 1, 60).Draw(t, "commands") {
			before := marshal(t, thread)
			events, err := decide(thread, c)
			if after := marshal(t, thread); after != before {
				t.Fatalf("%#v changed the state while deciding\nfrom %s\nto   %s", c, before, after)
			}
			if err != nil && len(events) > 0 {
				t.Fatalf("%#v was refused with %v and made %v happen", c, err, events)
			}
			for _, e := range events {
				thread = evolve(thread, e)
			}
			holds(t, thread)

			again, err := decide(thread, c) // as after an answer that was lost
			if _, repeatable := c.(Post); repeatable && len(events) > 0 && (err != nil || len(again) > 0) {
				t.Fatalf("repeated, %#v answers %v, %v", c, again, err)
			}
		}
	})
}

func anyCommand(t *rapid.T) Command {
	account := rapid.SampledFrom([]string{"ann", "bob", "joe"})
	id := rapid.SampledFrom([]string{"m-1", "m-2", "m-3"})
	text := rapid.SampledFrom([]string{"", "hi", "ho"})
	by := account.Draw(t, "executor")
	switch rapid.IntRange(0, 10).Draw(t, "command") {
	case 0, 1:
		return Create{by, text.Draw(t, "name")}
	case 2:
		return Rename{by, text.Draw(t, "name")}
	case 3, 4:
		return AddMember{by, account.Draw(t, "account"), rapid.SampledFrom([]Role{Member, Admin, "owner"}).Draw(t, "role")}
	case 5:
		return RemoveMember{by, account.Draw(t, "account")}
	case 6, 7:
		return Post{by, id.Draw(t, "id"), text.Draw(t, "text")}
	case 8:
		if rapid.Bool().Draw(t, "delete") {
			return DeleteMessage{by, id.Draw(t, "id")}
		}
		return Edit{by, id.Draw(t, "id"), text.Draw(t, "text")}
	case 9:
		return MarkRead{by, rapid.IntRange(0, 5).Draw(t, "position")}
	}
	if rapid.IntRange(0, 9).Draw(t, "last") == 0 {
		return Delete{by}
	}
	return List{by, 0, MaxPage}
}

// holds checks what is true of every thread.
func holds(t *rapid.T, s Thread) {
	if s.Name == "" {
		if len(s.Members)+len(s.Messages)+len(s.Order)+len(s.Read) > 0 || s.Deleted {
			t.Fatalf("something happened before the thread was created: %+v", s)
		}
		return
	}
	if s.admins() == 0 {
		t.Fatalf("no member governs %+v", s)
	}
	posted := map[string]bool{}
	for _, id := range s.Order {
		if _, ok := s.Messages[id]; !ok || posted[id] {
			t.Fatalf("message %s is missing or doubled in %+v", id, s)
		}
		posted[id] = true
	}
	if len(posted) != len(s.Messages) {
		t.Fatalf("%d messages were posted, there are %d", len(posted), len(s.Messages))
	}
	for account, position := range s.Read {
		if _, ok := s.Members[account]; !ok || position > len(s.Order) {
			t.Fatalf("%s has read up to %d in %+v", account, position, s)
		}
	}
	for id, m := range s.Messages {
		if m.Deleted != (m.Text == "") || m.Sender == "" {
			t.Fatalf("message %s is %+v", id, m)
		}
	}
	var back Thread
	if err := json.Unmarshal([]byte(marshal(t, s)), &back); err != nil || !reflect.DeepEqual(back, s) {
		t.Fatalf("%+v comes back from a snapshot as %+v, %v", s, back, err)
	}
}

func marshal(t *rapid.T, s Thread) string {
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
