package chat

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Thread is the state of a thread. Snapshots contain it.
type Thread struct {
	Name     string             `json:"name"` // "" before Created
	Deleted  bool               `json:"deleted,omitempty"`
	Members  map[string]Role    `json:"members"`
	Messages map[string]Message `json:"messages"` // by id
	Order    []string           `json:"order"`    // ids in the order of posting
	Read     map[string]int     `json:"read"`     // by member, the position up to which it has read
}

// Message is one message. A deleted one stays without its text, so that its id is never used again.
type Message struct {
	Sender  string `json:"sender"`
	Text    string `json:"text,omitempty"`
	Edited  bool   `json:"edited,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
}

func newThread(string) Thread {
	return Thread{Members: map[string]Role{}, Messages: map[string]Message{}, Read: map[string]int{}}
}

func evolve(t Thread, e Event) Thread {
	switch e := e.(type) {
	case Created:
		t.Name = e.Name
		t.Members[e.Creator] = Admin
	case Renamed:
		t.Name = e.Name
	case Deleted:
		t.Deleted = true
	case MemberAdded:
		t.Members[e.Account] = e.Role
		t.Read[e.Account] = len(t.Order) // older messages do not count as unread
	case MemberRemoved:
		delete(t.Members, e.Account)
		delete(t.Read, e.Account)
	case Posted:
		t.Messages[e.ID] = Message{Sender: e.Sender, Text: e.Text}
		t.Order = append(t.Order, e.ID)
	case Edited:
		t.Messages[e.ID] = Message{Sender: t.Messages[e.ID].Sender, Text: e.Text, Edited: true}
	case MessageDeleted:
		t.Messages[e.ID] = Message{Sender: t.Messages[e.ID].Sender, Deleted: true}
	case MarkedRead:
		t.Read[e.Account] = e.Position
	default:
		panic(fmt.Sprintf("chat: no case for %T", e))
	}
	return t
}

func (t Thread) admins() (n int) {
	for _, role := range t.Members {
		if role == Admin {
			n++
		}
	}
	return n
}

// View is the reply of a thread. It shares no memory with the Thread.
type View struct {
	Name     string
	Members  int
	Messages int // ever posted, deleted ones included

	Roster []Membership // answers Show, by account
	Page   []Listed     // answers List, in the order of posting, without deleted ones
	More   int          // answers List: the After of the next page, 0 after the last page
}

// Membership is one member.
type Membership struct {
	Account string `json:"account"`
	Role    Role   `json:"role"`
}

// Listed is a message in a page.
type Listed struct {
	Position int    `json:"position"` // 1 is the first message of the thread
	ID       string `json:"id"`
	Sender   string `json:"sender"`
	Text     string `json:"text"`
	Edited   bool   `json:"edited,omitempty"`
}

// MaxPage is the most messages of one List.
const MaxPage = 1000

func reply(t Thread, c Command, _ []Event) View {
	v := View{Name: t.Name, Members: len(t.Members), Messages: len(t.Order)}
	switch c := c.(type) {
	case Show:
		for _, account := range slices.SortedFunc(maps.Keys(t.Members), strings.Compare) {
			v.Roster = append(v.Roster, Membership{account, t.Members[account]})
		}
	case List:
		begin := min(c.After, len(t.Order))
		end := min(begin+min(c.Limit, MaxPage), len(t.Order))
		for i := begin; i < end; i++ {
			if m := t.Messages[t.Order[i]]; !m.Deleted {
				v.Page = append(v.Page, Listed{i + 1, t.Order[i], m.Sender, m.Text, m.Edited})
			}
		}
		if end < len(t.Order) {
			v.More = end
		}
	}
	return v
}
