package pgstore

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/watchers"
)

// FromURL shows to the tests what a URL says.
func FromURL(u *url.URL) (Options, error) {
	_, o, err := Options{}.fromURL(u)
	return o, err
}

// AwaitAnswered returns the number of an append whose commit was answered and whose context has ended.
func AwaitAnswered(ctx context.Context) (annals.SeqNr, error) {
	m := &commit{events: make([]annals.NewEvent, 1), done: make(chan outcome, 1)}
	m.at = time.Now()
	m.done <- m.outcome()
	o := (&backend{}).await(ctx, m)
	return o.receipt.SeqNr, o.err
}

// ReportTime is how much time Watermark leaves a session to report its transaction.
const ReportTime = reportTime

// BelieveAfter makes s believe the clock of its server so long after it has jumped forward.
func BelieveAfter(s *Store, d time.Duration) { s.backend.clock.Hold = d }

// Notification is what s sends after commits to the slices of written.
func Notification(s *Store, written watchers.Signal) string {
	s.backend.notifier.written.Or(uint64(written))
	return s.backend.notifier.payload()
}

// Heard is what s makes of a notification.
func Heard(s *Store, payload string) watchers.Signal { return s.backend.notifier.heard(payload) }

// Groups collects commits. write gets how many are in each group, and returns how many of their callers it answers.
func Groups(write func(n int) (answered int)) (add func(id annals.PersistenceID)) {
	g := &groups{}
	g.write = func(group []*commit) { g.rejoin(write(len(group))) }
	return func(id annals.PersistenceID) { g.add(&commit{id: id}) }
}

// AppendGroup writes commits in one statement, and returns the answer to the first one.
func AppendGroup(ctx context.Context, s *Store, commits ...annals.Commit) (annals.Receipt, error) {
	group := make([]*commit, len(commits))
	for i, c := range commits {
		group[i] = newCommit(c)
		group[i].keep()
		s.backend.background.Add(1)
	}
	s.backend.writeGroup(group)
	o := s.backend.await(ctx, group[0])
	return o.receipt, o.err
}

// Mutate changes the statements of appends, deletes, Forget and Guard that contain a text. It returns how many.
func Mutate(s *Store, text, other string) (changed int) {
	sql := &s.backend.sql
	for _, statement := range []*string{&sql.appendNext, &sql.appendEach, &sql.appendRaced, &sql.appendAll, &sql.appendDeleted, &sql.deleteTo,
		&s.backend.states[""].sql.remains, &sql.lockDeletes, &sql.lockNewest, &sql.lockJournal, &sql.lockEntities} {
		if mutant := strings.ReplaceAll(*statement, text, other); mutant != *statement {
			*statement = mutant
			changed++
		}
	}
	return changed
}

// LockKey is lockKey.
var LockKey = lockKey

// Guard guards a transaction of s that has read the last numbers of entities, which all are 0.
func Guard(ctx context.Context, s *Store, ids ...annals.PersistenceID) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx, _ annals.Store) error {
		read := make([]driver.Seen, len(ids))
		for i, id := range ids {
			read[i].ID = id
		}
		return GuardIn(ctx, s, tx, read, nil)
	})
}

// GuardIn guards the transaction tx of s.
func GuardIn(ctx context.Context, s *Store, tx pgx.Tx, read, written []driver.Seen) error {
	return (&view{s.backend, &transaction{tx: tx, ctx: ctx}}).guard(ctx, read, written)
}

// GuardNothing makes s take each number for the one that was read.
func GuardNothing(s *Store) int {
	s.backend.sql.guarded = "SELECT $2::bigint FROM (SELECT $1::text) id"
	return 1
}

// GuardInOneStatement makes s lock an entity in the statement that reads its number.
func GuardInOneStatement(s *Store) int {
	s.backend.sql.guarded = "SELECT number FROM (SELECT pg_advisory_xact_lock(hashtext($1::text))) lock, LATERAL (" + s.backend.sql.guarded + ") AS n (number)"
	return 1
}

// Reconnect makes s connect again: its pools close their connections.
func Reconnect(s *Store) {
	for _, pool := range []*pgxpool.Pool{s.backend.reads, s.backend.write.Pool, s.backend.group.Pool} {
		pool.Reset()
	}
}
