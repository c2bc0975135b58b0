package readmodel

import (
	"context"
	"time"

	"github.com/annals-go/annals/examples/groupchat/chat"
)

// Thread is a thread as one of its members sees it.
type Thread struct {
	ID       string    `json:"thread"`
	Name     string    `json:"name"`
	Members  int       `json:"members"`
	Messages int       `json:"messages"` // without deleted ones
	Role     chat.Role `json:"role"`     // of the member
	ReadTo   int       `json:"read_to"`  // position of a message: the member has read the messages up to and including this one
	Unread   int       `json:"unread"`   // messages of others after ReadTo
}

// Member is a member of a thread.
type Member struct {
	chat.Membership
	ReadTo int `json:"read_to"`
	Unread int `json:"unread"`
}

// Message is a message that was not deleted.
type Message struct {
	chat.Listed
	At time.Time `json:"at"` // when it was posted
}

// Unread is how much an account has not read.
type Unread struct {
	Threads  int `json:"threads"`
	Messages int `json:"messages"`
}

const selectThreads = `SELECT t.thread, t.name, t.members, t.messages, m.role, m.read_to, m.unread FROM chat_member m
	JOIN chat_thread t ON t.generation = m.generation AND t.thread = m.thread
	WHERE m.generation = ` + currentGeneration + ` AND m.account = $1`

// Threads returns the threads of an account after the thread with the id after, in the order of their ids, at most limit of them. more
// says that others follow.
func (m *Model) Threads(ctx context.Context, account, after string, limit int) (page []Thread, more bool, err error) {
	return pageOf(ctx, m, limit, scanThread, selectThreads+` AND m.thread > $2 ORDER BY m.thread LIMIT $3`, account, after)
}

// Thread returns one thread of an account; ok is false when the account is not a member of it.
func (m *Model) Thread(ctx context.Context, account, thread string) (t Thread, ok bool, err error) {
	err = m.in.Read(ctx, func(scan func(...any) error) error {
		ok = true
		return scanThread(scan, &t)
	}, selectThreads+` AND m.thread = $2`, account, thread)
	return t, ok, err
}

func scanThread(scan func(...any) error, t *Thread) error {
	return scan(&t.ID, &t.Name, &t.Members, &t.Messages, &t.Role, &t.ReadTo, &t.Unread)
}

// Members returns the members of a thread after an account, in the order of their accounts, as Threads does.
func (m *Model) Members(ctx context.Context, thread, after string, limit int) (page []Member, more bool, err error) {
	return pageOf(ctx, m, limit, func(scan func(...any) error, m *Member) error {
		return scan(&m.Account, &m.Role, &m.ReadTo, &m.Unread)
	}, `SELECT account, role, read_to, unread FROM chat_member
		WHERE generation = `+currentGeneration+` AND thread = $1 AND account > $2 ORDER BY account LIMIT $3`, thread, after)
}

// Messages returns the messages of a thread after a position, in the order of posting, as Threads does.
func (m *Model) Messages(ctx context.Context, thread string, after, limit int) (page []Message, more bool, err error) {
	return pageOf(ctx, m, limit, func(scan func(...any) error, m *Message) error {
		var at int64
		err := scan(&m.Position, &m.ID, &m.Sender, &m.Text, &m.Edited, &at)
		m.At = time.UnixMicro(at).UTC()
		return err
	}, `SELECT position, id, sender, text, edited, at FROM chat_message
		WHERE generation = `+currentGeneration+` AND thread = $1 AND position > $2 ORDER BY position LIMIT $3`, thread, after)
}

// Unread returns how much an account has not read in all of its threads.
func (m *Model) Unread(ctx context.Context, account string) (u Unread, err error) {
	err = m.in.Read(ctx, func(scan func(...any) error) error { return scan(&u.Threads, &u.Messages) },
		`SELECT count(*), CAST(COALESCE(sum(unread), 0) AS BIGINT) FROM chat_member
		WHERE generation = `+currentGeneration+` AND account = $1 AND unread > 0`, account)
	return u, err
}

// pageOf reads a page with a statement whose last argument is its limit.
func pageOf[T any](ctx context.Context, m *Model, limit int, into func(func(...any) error, *T) error, text string, args ...any) (page []T, more bool, err error) {
	err = m.in.Read(ctx, func(scan func(...any) error) error {
		if len(page) == limit {
			more = true
			return nil
		}
		page = append(page, *new(T))
		return into(scan, &page[len(page)-1])
	}, text, append(args, limit+1)...)
	return page, more, err
}
