package readmodel

import (
	"context"
	"fmt"
	"time"

	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqltx"
)

// handle writes what e changes in the rows of a generation. It counts, so it must run exactly once for each event.
func handle(ctx context.Context, tx sqltx.Tx, generation int64, e projection.Envelope[chat.Event]) error {
	for _, c := range changes(e.Value, e.Time) {
		n, err := tx.Exec(ctx, c.text, append([]any{generation, e.ID.EntityID()}, c.args...)...)
		if err == nil && !c.many && n != 1 {
			err = fmt.Errorf("%d rows changed, not 1: an event was left out or handled twice", n)
		}
		if err != nil {
			return fmt.Errorf("read model, generation %d, thread %q, event %d: %w", generation, e.ID.EntityID(), e.SeqNr, err)
		}
	}
	return nil
}

// change is a statement. Its $1 is the generation, its $2 the thread, and args follow. Unless many is set, it changes exactly one row.
type change struct {
	text string
	args []any
	many bool
}

func one(text string, args ...any) change  { return change{text, args, false} }
func many(text string, args ...any) change { return change{text, args, true} }

const (
	insertThread = `INSERT INTO chat_thread (generation, thread, name, members, posted, messages) VALUES ($1, $2, $3, 0, 0, 0)`
	rename       = `UPDATE chat_thread SET name = $3 WHERE generation = $1 AND thread = $2`
	deleteThread = `DELETE FROM chat_thread WHERE generation = $1 AND thread = $2`

	countMembers  = `UPDATE chat_thread SET members = members + $3 WHERE generation = $1 AND thread = $2`
	insertMember  = `INSERT INTO chat_member (generation, thread, account, role, read_to, unread) VALUES ($1, $2, $3, $4, (SELECT posted FROM chat_thread WHERE generation = $1 AND thread = $2), 0)`
	deleteMember  = `DELETE FROM chat_member WHERE generation = $1 AND thread = $2 AND account = $3`
	deleteMembers = `DELETE FROM chat_member WHERE generation = $1 AND thread = $2`

	countPosted    = `UPDATE chat_thread SET posted = posted + 1, messages = messages + 1 WHERE generation = $1 AND thread = $2`
	insertMessage  = `INSERT INTO chat_message (generation, thread, id, sender, text, edited, at, position) VALUES ($1, $2, $3, $4, $5, FALSE, $6, (SELECT posted FROM chat_thread WHERE generation = $1 AND thread = $2))`
	countUnread    = `UPDATE chat_member SET unread = unread + 1 WHERE generation = $1 AND thread = $2 AND account <> $3`
	edit           = `UPDATE chat_message SET text = $4, edited = TRUE WHERE generation = $1 AND thread = $2 AND id = $3`
	uncountMessage = `UPDATE chat_thread SET messages = messages - 1 WHERE generation = $1 AND thread = $2`
	uncountUnread  = `UPDATE chat_member SET unread = unread - 1 WHERE generation = $1 AND thread = $2 AND EXISTS (SELECT 1 FROM chat_message m
		WHERE m.generation = $1 AND m.thread = $2 AND m.id = $3 AND m.position > chat_member.read_to AND m.sender <> chat_member.account)`
	deleteMessage  = `DELETE FROM chat_message WHERE generation = $1 AND thread = $2 AND id = $3`
	deleteMessages = `DELETE FROM chat_message WHERE generation = $1 AND thread = $2`

	markRead = `UPDATE chat_member SET read_to = $4, unread = (SELECT count(*) FROM chat_message m
		WHERE m.generation = $1 AND m.thread = $2 AND m.position > $4 AND m.sender <> $3)
		WHERE generation = $1 AND thread = $2 AND account = $3`
)

// changes are the statements for an event that was stored at a time.
func changes(e chat.Event, at time.Time) []change {
	switch e := e.(type) {
	case chat.Created:
		return append([]change{one(insertThread, e.Name)}, added(e.Creator, chat.Admin)...)
	case chat.Renamed:
		return []change{one(rename, e.Name)}
	case chat.Deleted:
		return []change{one(deleteThread), many(deleteMembers), many(deleteMessages)}
	case chat.MemberAdded:
		return added(e.Account, e.Role)
	case chat.MemberRemoved:
		return []change{one(countMembers, -1), one(deleteMember, e.Account)}
	case chat.Posted:
		return []change{one(countPosted), one(insertMessage, e.ID, e.Sender, e.Text, at.UnixMicro()), many(countUnread, e.Sender)}
	case chat.Edited:
		return []change{one(edit, e.ID, e.Text)}
	case chat.MessageDeleted:
		return []change{one(uncountMessage), many(uncountUnread, e.ID), one(deleteMessage, e.ID)}
	case chat.MarkedRead:
		return []change{one(markRead, e.Account, e.Position)}
	}
	panic(fmt.Sprintf("readmodel: no case for %T", e))
}

func added(account string, role chat.Role) []change {
	return []change{one(countMembers, 1), one(insertMember, account, string(role))}
}
