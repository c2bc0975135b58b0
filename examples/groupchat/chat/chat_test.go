package chat

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/annals-go/annals/entitytest"
)

// A thread of the administrator ann and the member bob.
var begun = []Event{Created{"go", "ann"}, MemberAdded{"bob", Member}}

func TestCreate(t *testing.T) {
	t.Parallel()
	entitytest.New(t, Behavior, "t-1").
		When(Create{"ann", "go"}).
		Then(Created{"go", "ann"}).
		Reply(View{Name: "go", Members: 1}).
		When(Create{"ann", "go"}).Rejected(ErrThreadExists).
		When(Create{"bob", "other"}).Rejected(ErrThreadExists)
}

func TestNothingBeforeCreate(t *testing.T) {
	t.Parallel()
	for _, c := range everything("ann") {
		entitytest.New(t, Behavior, "t-1").When(c).Rejected(ErrNoThread)
	}
}

func TestNothingAfterDelete(t *testing.T) {
	t.Parallel()
	for _, c := range everything("ann") {
		entitytest.New(t, Behavior, "t-1").Given(begun...).
			When(Delete{"ann"}).Then(Deleted{}).
			When(c).Rejected(ErrThreadDeleted).
			When(Create{"ann", "go"}).Rejected(ErrThreadExists)
	}
}

func TestOnlyMembersAreHeard(t *testing.T) {
	t.Parallel()
	for _, c := range everything("eve") {
		entitytest.New(t, Behavior, "t-1").Given(begun...).When(c).Rejected(ErrNotMember)
	}
}

func TestOnlyAdministratorsGovern(t *testing.T) {
	t.Parallel()
	for _, c := range []Command{Rename{"bob", "x"}, Delete{"bob"}, AddMember{"bob", "eve", Member}, RemoveMember{"bob", "ann"}} {
		entitytest.New(t, Behavior, "t-1").Given(begun...).When(c).Rejected(ErrNotAdmin)
	}
}

// everything is one of each command but Create.
func everything(executor string) []Command {
	return []Command{
		Rename{executor, "x"}, Delete{executor}, AddMember{executor, "joe", Admin}, RemoveMember{executor, "bob"},
		Post{executor, "m-1", "hi"}, Edit{executor, "m-1", "ho"}, DeleteMessage{executor, "m-1"},
		MarkRead{executor, 1}, Show{executor}, List{executor, 0, 10},
	}
}

func TestRename(t *testing.T) {
	t.Parallel()
	entitytest.New(t, Behavior, "t-1").Given(begun...).
		When(Rename{"ann", "golang"}).Then(Renamed{"golang"}).Reply(View{Name: "golang", Members: 2}).
		When(Rename{"ann", "golang"}).Rejected(ErrSameName)
}

func TestMembers(t *testing.T) {
	t.Parallel()
	entitytest.New(t, Behavior, "t-1").Given(begun...).
		When(AddMember{"ann", "bob", Admin}).Rejected(ErrAlreadyMember).
		When(AddMember{"ann", "joe", Admin}).Then(MemberAdded{"joe", Admin}).
		When(Show{"bob"}).Then().
		Reply(View{Name: "go", Members: 3, Roster: []Membership{{"ann", Admin}, {"bob", Member}, {"joe", Admin}}}).
		When(RemoveMember{"joe", "ann"}).Then(MemberRemoved{"ann"}).
		When(Rename{"ann", "x"}).Rejected(ErrNotMember).
		When(RemoveMember{"joe", "ann"}).Rejected(ErrNoMember).
		When(RemoveMember{"joe", "joe"}).Rejected(ErrLastAdmin).
		When(RemoveMember{"joe", "bob"}).Then(MemberRemoved{"bob"}).
		When(Post{"bob", "m-1", "still here?"}).Rejected(ErrNotMember)
}

func TestPostIsRepeatable(t *testing.T) {
	t.Parallel()
	entitytest.New(t, Behavior, "t-1").Given(begun...).
		When(Post{"bob", "m-1", "hi"}).Then(Posted{"m-1", "bob", "hi"}).Reply(View{Name: "go", Members: 2, Messages: 1}).
		When(Post{"bob", "m-1", "hi"}).Then().Reply(View{Name: "go", Members: 2, Messages: 1}).
		When(Post{"bob", "m-1", "another"}).Rejected(ErrMessageExists).
		When(Post{"ann", "m-1", "hi"}).Rejected(ErrMessageExists).
		When(Edit{"bob", "m-1", "hello"}).Then(Edited{"m-1", "hello"}).
		When(Post{"bob", "m-1", "hi"}).Then(). // a late repetition
		When(DeleteMessage{"bob", "m-1"}).Then(MessageDeleted{"m-1"}).
		When(Post{"bob", "m-1", "hi"}).Rejected(ErrMessageExists) // it does not come back
}

func TestEditAndDeleteMessage(t *testing.T) {
	t.Parallel()
	entitytest.New(t, Behavior, "t-1").Given(begun...).Given(Posted{"m-1", "bob", "hi"}).
		When(Edit{"bob", "m-2", "x"}).Rejected(ErrNoMessage).
		When(DeleteMessage{"bob", "m-2"}).Rejected(ErrNoMessage).
		When(Edit{"ann", "m-1", "x"}).Rejected(ErrNotSender).
		When(DeleteMessage{"ann", "m-1"}).Rejected(ErrNotSender).
		When(Edit{"bob", "m-1", "hello"}).Then(Edited{"m-1", "hello"}).
		When(Edit{"bob", "m-1", "hello"}).Then().
		When(DeleteMessage{"bob", "m-1"}).Then(MessageDeleted{"m-1"}).
		When(DeleteMessage{"bob", "m-1"}).Then().
		When(Edit{"bob", "m-1", "again"}).Rejected(ErrNoMessage).
		When(DeleteMessage{"ann", "m-1"}).Rejected(ErrNotSender)
}

// The position up to which a member has read never goes back. What was posted before it joined is read.
func TestMarkRead(t *testing.T) {
	t.Parallel()
	read := func(want map[string]int) func(Thread) {
		return func(s Thread) {
			if !maps.Equal(s.Read, want) {
				t.Errorf("read is %v, want %v", s.Read, want)
			}
		}
	}
	entitytest.New(t, Behavior, "t-1").Given(begun...).Given(Posted{"m-1", "ann", "one"}, Posted{"m-2", "ann", "two"}).
		When(MarkRead{"bob", 3}).Rejected(ErrNoMessage).
		When(MarkRead{"bob", 2}).Then(MarkedRead{"bob", 2}).
		When(MarkRead{"bob", 2}).Then().
		When(MarkRead{"bob", 1}).Then().
		When(AddMember{"ann", "joe", Member}).Then(MemberAdded{"joe", Member}).
		When(MarkRead{"joe", 2}).Then().
		State(read(map[string]int{"bob": 2, "joe": 2})).
		When(RemoveMember{"ann", "bob"}).Then(MemberRemoved{"bob"}).
		State(read(map[string]int{"joe": 2}))
}

func TestList(t *testing.T) {
	t.Parallel()
	view := func(more int, page ...Listed) View {
		return View{Name: "go", Members: 2, Messages: 4, Page: page, More: more}
	}
	one, three, four := Listed{1, "m-1", "ann", "one", false}, Listed{3, "m-3", "bob", "drei", true}, Listed{4, "m-4", "ann", "four", false}
	thread := entitytest.New(t, Behavior, "t-1").Given(begun...).
		Given(Posted{"m-1", "ann", "one"}, Posted{"m-2", "bob", "two"}, Posted{"m-3", "bob", "three"}, Posted{"m-4", "ann", "four"}).
		Given(MessageDeleted{"m-2"}, Edited{"m-3", "drei"})
	for list, want := range map[List]View{
		{"bob", 0, MaxPage}:       view(0, one, three, four),
		{"bob", 0, 1}:             view(1, one),
		{"bob", 1, 1}:             view(2), // the deleted one: an empty page, and more after it
		{"bob", 2, 2}:             view(0, three, four),
		{"bob", 4, 2}:             view(0),
		{"bob", 1 << 62, 1 << 62}: view(0),
	} {
		thread.When(list).Then().Reply(want)
	}
}

func TestBadCommands(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 101)
	for want, commands := range map[*Rejection][]Command{
		ErrBadID: {
			Create{"", "go"}, Create{long, "go"}, Show{"a\nb"}, Show{"a\x00b"}, Show{"\xff"}, AddMember{"ann", " ", Member},
			RemoveMember{"ann", ""}, Post{"ann", "", "hi"}, Post{"ann", long, "hi"}, Edit{"ann", "", "hi"}, DeleteMessage{"ann", ""},
		},
		ErrBadName: {Create{"ann", ""}, Create{"ann", "  "}, Create{"ann", long}, Rename{"ann", ""}, Rename{"ann", "\xff"}},
		ErrBadText: {Post{"ann", "m-1", ""}, Post{"ann", "m-1", strings.Repeat("x", 4001)}, Edit{"ann", "m-1", ""}},
		ErrBadRole: {AddMember{"ann", "joe", ""}, AddMember{"ann", "joe", "owner"}},
		ErrBadPage: {List{"ann", -1, 1}, List{"ann", 0, 0}},

		ErrBadPosition: {MarkRead{"ann", 0}, MarkRead{"ann", -1}},
	} {
		for _, c := range commands {
			entitytest.New(t, Behavior, "t-1").Given(begun...).When(c).Rejected(want)
		}
	}
	for _, id := range []string{"a", "日本", "😀", "a b", strings.Repeat("x", 100)} {
		if !ValidID(id) {
			t.Errorf("%q is refused", id)
		}
	}
}

// What a snapshot brings back is what the events would have.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	entitytest.New(t, Behavior, "t-1").Given(begun...).
		Given(Posted{"m-1", "ann", "one"}, Posted{"m-2", "bob", "two"}, Edited{"m-1", "eins"}, MessageDeleted{"m-2"}).
		State(func(s Thread) {
			p, err := Behavior.States.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			back, err := Behavior.States.Decode(p)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back, s) {
				t.Errorf("%+v came back as %+v", s, back)
			}
		})
}

// The stored form of every event. These bytes are in databases: what is here stays readable.
func TestStoredEvents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		event          Event
		manifest, data string
	}{
		{Created{"go", "ann"}, "thread.created", `{"name":"go","creator":"ann"}`},
		{Renamed{"golang"}, "thread.renamed", `{"name":"golang"}`},
		{Deleted{}, "thread.deleted", `{}`},
		{MemberAdded{"bob", Admin}, "thread.member-added", `{"account":"bob","role":"admin"}`},
		{MemberRemoved{"bob"}, "thread.member-removed", `{"account":"bob"}`},
		{Posted{"m-1", "bob", "hi"}, "thread.message-posted", `{"id":"m-1","sender":"bob","text":"hi"}`},
		{Edited{"m-1", "ho"}, "thread.message-edited", `{"id":"m-1","text":"ho"}`},
		{MessageDeleted{"m-1"}, "thread.message-deleted", `{"id":"m-1"}`},
		{MarkedRead{"bob", 7}, "thread.marked-read", `{"account":"bob","position":7}`},
	} {
		p, err := Events.Encode(c.event)
		if err != nil {
			t.Fatal(err)
		}
		if p.Manifest != c.manifest || string(p.Data) != c.data {
			t.Errorf("%#v is stored as %s %s, want %s %s", c.event, p.Manifest, p.Data, c.manifest, c.data)
		}
		back, err := Events.Decode(p)
		if err != nil || !reflect.DeepEqual(back, c.event) {
			t.Errorf("%#v came back as %#v, %v", c.event, back, err)
		}
	}
}
