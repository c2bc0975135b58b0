package readmodel

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
	"github.com/annals-go/annals/sqltx"
)

func TestMain(m *testing.M) { postgres.Main(m) }

// databases runs a test on an empty database of each kind.
func databases(t *testing.T, test func(t *testing.T, in annals.Store)) {
	t.Helper()
	for name, url := range map[string]string{
		"sqlite":   "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "chat.db")),
		"postgres": postgres.Schema(t) + "&create=true&write_timeout=1m",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, openStore(t, url))
		})
	}
}

func openStore(t *testing.T, url string) annals.Store {
	t.Helper()
	s, err := annals.Openers{"sqlite": sqlitestore.Options{}.OpenURL, "postgres": pgstore.Options{}.OpenURL}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func open(t *testing.T, in annals.Store) *Model {
	t.Helper()
	m, err := Open(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// begun is when the events of these tests happen, a second after each other.
var begun = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// happen handles events of a thread in one transaction.
func happen(t *testing.T, m *Model, thread string, events ...chat.Event) error {
	t.Helper()
	return m.inTx(t.Context(), func(ctx context.Context, tx sqltx.Tx) error {
		for i, v := range events {
			e := annals.Event{ID: chat.Behavior.ID(thread), SeqNr: annals.SeqNr(i + 1), Time: begun.Add(time.Duration(i) * time.Second)}
			if err := handle(ctx, tx, 1, projection.Envelope[chat.Event]{Event: e, Value: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

var talk = []chat.Event{
	chat.Created{Name: "go", Creator: "ann"}, chat.MemberAdded{Account: "bob", Role: chat.Member},
	chat.Posted{ID: "m-1", Sender: "ann", Text: "one"}, chat.Posted{ID: "m-2", Sender: "ann", Text: "two"}, chat.Posted{ID: "m-3", Sender: "bob", Text: "three"},
	chat.MemberAdded{Account: "joe", Role: chat.Admin}, chat.Posted{ID: "m-4", Sender: "ann", Text: "four"},
	chat.MarkedRead{Account: "bob", Position: 1}, chat.Edited{ID: "m-3", Text: "drei"}, chat.MessageDeleted{ID: "m-2"}, chat.Renamed{Name: "golang"},
}

func TestReads(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, in annals.Store) {
		m := open(t, in)
		for _, thread := range []string{"t-1", "t-2"} {
			if err := happen(t, m, thread, talk...); err != nil {
				t.Fatal(err)
			}
		}
		if err := happen(t, m, "t-3", chat.Created{Name: "joe's", Creator: "joe"}); err != nil {
			t.Fatal(err)
		}
		one := func(id, role string, readTo, unread int) Thread {
			return Thread{ID: id, Name: "golang", Members: 3, Messages: 3, Role: chat.Role(role), ReadTo: readTo, Unread: unread}
		}
		joes := Thread{ID: "t-3", Name: "joe's", Members: 1, Role: chat.Admin}
		for _, c := range []struct {
			account, after string
			limit          int
			want           []Thread
			more           bool
		}{
			{"ann", "", 10, []Thread{one("t-1", "admin", 0, 1), one("t-2", "admin", 0, 1)}, false},
			{"bob", "", 2, []Thread{one("t-1", "member", 1, 1), one("t-2", "member", 1, 1)}, false},
			{"joe", "", 2, []Thread{one("t-1", "admin", 3, 1), one("t-2", "admin", 3, 1)}, true},
			{"joe", "t-2", 2, []Thread{joes}, false},
			{"joe", "t-1a", 1, []Thread{one("t-2", "admin", 3, 1)}, true},
			{"joe", "t-3", 2, nil, false},
			{"eve", "", 2, nil, false},
		} {
			page, more, err := m.Threads(t.Context(), c.account, c.after, c.limit)
			if err != nil || !slices.Equal(page, c.want) || more != c.more {
				t.Errorf("threads of %s after %q: %+v, %v, %v, want %+v, %v", c.account, c.after, page, more, err, c.want, c.more)
			}
		}
		if got, ok, err := m.Thread(t.Context(), "joe", "t-3"); err != nil || !ok || got != joes {
			t.Errorf("thread of joe: %+v, %v, %v", got, ok, err)
		}
		if got, ok, err := m.Thread(t.Context(), "bob", "t-3"); err != nil || ok {
			t.Errorf("bob is no member: %+v, %v, %v", got, ok, err)
		}
		for account, want := range map[string]Unread{"ann": {2, 2}, "bob": {2, 2}, "joe": {2, 2}, "eve": {}} {
			if got, err := m.Unread(t.Context(), account); err != nil || got != want {
				t.Errorf("unread of %s: %+v, %v, want %+v", account, got, err, want)
			}
		}
		members := []Member{{chat.Membership{Account: "ann", Role: chat.Admin}, 0, 1}, {chat.Membership{Account: "bob", Role: chat.Member}, 1, 1},
			{chat.Membership{Account: "joe", Role: chat.Admin}, 3, 1}}
		if page, more, err := m.Members(t.Context(), "t-1", "", 3); err != nil || more || !slices.Equal(page, members) {
			t.Errorf("members %+v, %v, %v", page, more, err)
		}
		if page, more, err := m.Members(t.Context(), "t-1", "ann", 1); err != nil || !more || !slices.Equal(page, members[1:2]) {
			t.Errorf("members after ann %+v, %v, %v", page, more, err)
		}
		messages := []Message{
			{chat.Listed{Position: 1, ID: "m-1", Sender: "ann", Text: "one"}, begun.Add(2 * time.Second)},
			{chat.Listed{Position: 3, ID: "m-3", Sender: "bob", Text: "drei", Edited: true}, begun.Add(4 * time.Second)},
			{chat.Listed{Position: 4, ID: "m-4", Sender: "ann", Text: "four"}, begun.Add(6 * time.Second)},
		}
		if page, more, err := m.Messages(t.Context(), "t-1", 0, 3); err != nil || more || !slices.Equal(page, messages) {
			t.Errorf("messages %+v, %v, %v", page, more, err)
		}
		if page, more, err := m.Messages(t.Context(), "t-1", 1, 1); err != nil || !more || !slices.Equal(page, messages[1:2]) {
			t.Errorf("messages after 1 %+v, %v, %v", page, more, err)
		}
		if page, more, err := m.Messages(t.Context(), "t-3", 0, 1); err != nil || more || len(page) > 0 {
			t.Errorf("messages of an empty thread %+v, %v, %v", page, more, err)
		}
	})
}

// What is left out or handled twice is an error, and changes nothing.
func TestHandlesOnce(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, in annals.Store) {
		m := open(t, in)
		for i, events := range [][]chat.Event{
			talk[1:], {talk[0], talk[0]}, append(talk[:2:2], talk[1]), append(talk[:3:3], talk[2]), {talk[0], chat.MemberRemoved{Account: "bob"}},
			{talk[0], chat.Edited{ID: "m-1", Text: "x"}}, {talk[0], chat.MarkedRead{Account: "bob", Position: 1}}, {talk[0], chat.Deleted{}, chat.Deleted{}},
			append(slices.Clone(talk), chat.MessageDeleted{ID: "m-2"}),
		} {
			if err := happen(t, m, "t", events...); err == nil {
				t.Errorf("case %d: handled", i)
			}
		}
		if err := happen(t, m, "t", talk...); err != nil {
			t.Error(err)
		}
	})
}

// After any history the rows are what the events of each thread are folded to.
func TestRowsAreTheFold(t *testing.T) {
	t.Parallel()
	journal := memstore.New()
	t.Log(chatter(t, journal, 800))
	databases(t, func(t *testing.T, in annals.Store) {
		m := open(t, in)
		feed(t, m, journal)
		total, err := m.Compare(t.Context(), journal)
		if err != nil {
			t.Fatal(err)
		}
		if total.Threads == 0 || total.Messages == 0 || total.Unread == 0 {
			t.Errorf("compared %+v", total)
		}
		for i, spoil := range []string{
			`UPDATE chat_thread SET posted = posted + 1`, `UPDATE chat_member SET unread = unread + 1`, `UPDATE chat_member SET read_to = read_to + 1`,
			`UPDATE chat_message SET at = at + 1`, `UPDATE chat_message SET edited = NOT edited`, `DELETE FROM chat_message`, `DELETE FROM chat_thread`,
			`INSERT INTO chat_thread (generation, thread, name, members, posted, messages) SELECT current, 'invented', 'x', 0, 0, 0 FROM chat_generation`,
		} {
			execute(t, m, fmt.Sprintf(`INSERT INTO chat_thread SELECT %d, thread, name, members, posted, messages FROM chat_thread WHERE generation = 1`, i+2))
			execute(t, m, fmt.Sprintf(`INSERT INTO chat_member SELECT %d, thread, account, role, read_to, unread FROM chat_member WHERE generation = 1`, i+2))
			execute(t, m, fmt.Sprintf(`INSERT INTO chat_message SELECT %d, thread, position, id, sender, text, edited, at FROM chat_message WHERE generation = 1`, i+2))
			execute(t, m, `UPDATE chat_generation SET current = current + 1`)
			if _, err := m.Compare(t.Context(), journal); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(spoil, "INSERT") {
				spoil += fmt.Sprintf(` WHERE generation = %d`, i+2)
			}
			execute(t, m, spoil)
			if _, err := m.Compare(t.Context(), journal); err == nil {
				t.Errorf("after %s nothing differs", spoil)
			}
		}
	})
}

func execute(t *testing.T, m *Model, text string) {
	t.Helper()
	err := m.inTx(t.Context(), func(ctx context.Context, tx sqltx.Tx) error {
		_, err := tx.Exec(ctx, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// chatter sends so many random commands to a few threads and returns how many there are of each event.
func chatter(t *testing.T, journal annals.Store, commands int) map[string]int {
	t.Helper()
	r := random.New(t)
	threads, err := aggregate.New(journal, chat.Behavior, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	account := func() string { return random.OneOf(r, "ann", "bob", "joe", "eve") }
	message := func() string { return fmt.Sprintf("m-%d", r.IntN(100)) }
	for _, c := range []chat.Command{chat.Create{Executor: "ann", Name: "sure"}, chat.AddMember{Executor: "ann", Account: "bob", Role: chat.Member},
		chat.Post{Executor: "ann", ID: "m-1", Text: "hi"}} {
		if _, err := threads.Ask(t.Context(), "sure", c); err != nil {
			t.Fatal(err)
		}
	}
	for range commands {
		executor, some := account(), []chat.Command(nil)
		switch r.IntN(20) {
		case 0, 1, 2:
			some = []chat.Command{chat.Create{Executor: executor, Name: "go"}, chat.AddMember{Executor: executor, Account: account(), Role: chat.Admin}}
		case 3:
			some = []chat.Command{chat.AddMember{Executor: executor, Account: account(), Role: chat.Member}}
		case 4:
			some = []chat.Command{chat.RemoveMember{Executor: executor, Account: account()}}
		case 5:
			some = []chat.Command{chat.Rename{Executor: executor, Name: fmt.Sprint(r.Int())}}
		case 6:
			if r.OneIn(10) {
				some = []chat.Command{chat.Delete{Executor: executor}}
			}
		case 7, 8, 9:
			some = []chat.Command{chat.MarkRead{Executor: executor, Position: 1 + r.IntN(20)}}
		case 10, 11:
			some = []chat.Command{chat.DeleteMessage{Executor: executor, ID: message()}}
		case 12, 13:
			some = []chat.Command{chat.Edit{Executor: executor, ID: message(), Text: fmt.Sprint(r.Int())}}
		default:
			some = []chat.Command{chat.Post{Executor: executor, ID: message(), Text: "hi"}}
		}
		thread := fmt.Sprintf("t-%d", r.IntN(5))
		for _, c := range some {
			if _, err := threads.Ask(t.Context(), thread, c); err != nil && !errors.As(err, new(*chat.Rejection)) {
				t.Fatal(err)
			}
		}
	}
	kinds := map[string]int{}
	for e, err := range journal.Query().Events(t.Context(), annals.Filter{Type: chat.Behavior.Type}) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[e.Manifest]++
	}
	return kinds
}

// feed handles all events of a journal in one transaction.
func feed(t *testing.T, m *Model, journal annals.Store) {
	t.Helper()
	err := m.inTx(t.Context(), func(ctx context.Context, tx sqltx.Tx) error {
		for e, err := range journal.Query().Events(t.Context(), annals.Filter{Type: chat.Behavior.Type}) {
			if err != nil {
				return err
			}
			v, err := chat.Events.Decode(e.Payload)
			if err != nil {
				return err
			}
			if err := handle(ctx, tx, 1, projection.Envelope[chat.Event]{Event: e, Value: v}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
