package commit_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

const id = annals.PersistenceID("Thread|42") // plantest's

func requests(t *testing.T, name string, prepare, do func(b *plantest.Bench)) {
	t.Helper()
	plantest.Requests(t, name, commit.Layout{Table: "annals"}, prepare, do)
}

func recoverEntity(b *plantest.Bench) {
	text := ""
	last, err := b.Recover(b.Context(), id,
		func(s annals.Snapshot) error { text += fmt.Sprintf(" snapshot %d", s.SeqNr); return nil },
		func(e annals.Event) error { text += fmt.Sprintf(" %d", e.SeqNr); return nil })
	if len(text) > 100 {
		text = text[:40] + " …"
	}
	b.Told(fmt.Sprintf("recover: last %d,%s", last, text), err)
}

// noise returns data that cannot be compressed.
func noise(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}

func TestJournalRequests(t *testing.T) {
	six := func(b *plantest.Bench) { b.Append(0, "1", "2"); b.Append(2, "3"); b.Append(3, "4", "5", "6") }
	requests(t, "append-first", nil, func(b *plantest.Bench) { b.Append(0, "hello") })
	requests(t, "append-three", six, func(b *plantest.Bench) {
		c := annals.Commit{ID: id, After: 6, WriteID: plantest.WriteID(7), Events: []annals.NewEvent{plantest.Event(`{"text":"hi"}`), plantest.Event("\x00\xff"), plantest.Event("")}}
		c.Events[0].Tags = []string{"red", "blue"}
		c.Events[1].Metadata = annals.Payload{SerializerID: 4, Manifest: "meta", Data: []byte("m")}
		c.Events[2].Time, c.Events[2].Adapter = time.Date(2020, 1, 2, 3, 4, 5, 6000, time.UTC), "adapter"
		b.Commit(c)
	})
	requests(t, "append-again", six, func(b *plantest.Bench) {
		b.Append(2, "3")
		b.Commit(annals.Commit{ID: id, After: 2, WriteID: plantest.WriteID(99), Events: []annals.NewEvent{plantest.Event("other")}})
	})
	requests(t, "append-with-snapshot", six, func(b *plantest.Bench) {
		b.Commit(annals.Commit{ID: id, After: 6, WriteID: plantest.WriteID(7), Events: []annals.NewEvent{plantest.Event("7")},
			Snapshot: &annals.Snapshot{ID: id, SeqNr: 7, Payload: annals.Payload{SerializerID: 31, Manifest: "chat.thread", Data: []byte("{}")}}})
	})
	requests(t, "replay", six, func(b *plantest.Bench) {
		b.Replay(1, annals.MaxSeqNr)
		b.Replay(3, annals.MaxSeqNr) // the number begins a commit
		b.Replay(5, annals.MaxSeqNr) // it lies within one
		b.Replay(5, 5)
		b.Replay(2, 3)
		b.Replay(9, 20)
	})
	requests(t, "replay-of-forgotten", six, func(b *plantest.Bench) {
		b.Meanwhile = func() { _ = b.DeleteAll(b.Context(), "annals", []plan.Item{key("1"), key("3"), key("4")}) }
		b.Replay(2, annals.MaxSeqNr)
	})
	requests(t, "last", six, func(b *plantest.Bench) {
		b.Last()
		b.ID = "Thread|nobody"
		b.Last()
	})
	requests(t, "delete-whole-commits", six, func(b *plantest.Bench) { b.Delete(3); b.Delete(3) })
	requests(t, "delete-divides-a-commit", six, func(b *plantest.Bench) { b.Delete(4); b.Delete(5); b.Delete(4) })
	requests(t, "delete-all", six, func(b *plantest.Bench) {
		b.Delete(annals.MaxSeqNr)
		b.Replay(1, annals.MaxSeqNr)
		b.Commit(annals.Commit{ID: b.ID, WriteID: plantest.WriteID(99), Events: []annals.NewEvent{plantest.Event("late")}})
	})
	requests(t, "delete-nothing", nil, func(b *plantest.Bench) { b.Delete(5) })
	requests(t, "delete-of-forgotten", six, func(b *plantest.Bench) {
		b.Meanwhile = func() { // after the last number is read. After the list of commits only the updates are left
			b.Meanwhile = func() { _ = b.DeleteAll(b.Context(), "annals", []plan.Item{key("1")}) }
		}
		b.Delete(3)
	})
	requests(t, "skip", nil, func(b *plantest.Bench) {
		for _, n := range []annals.SeqNr{100, 100, 99} {
			b.Told(fmt.Sprintf("skip to %d", n), b.SkipTo(b.Context(), id, 0, n))
		}
	})
	requests(t, "odd-ids", nil, func(b *plantest.Bench) {
		for _, odd := range []annals.PersistenceID{"Thread|a|b", "no type", "Þráður|„é\u2028\"\\", "annals", annals.PersistenceID("x|" + strings.Repeat("y", 2046))} {
			b.Commit(annals.Commit{ID: odd, WriteID: plantest.WriteID(1), Events: []annals.NewEvent{plantest.Event("1")}})
		}
	})
}

func key(seq string) plan.Item {
	return plan.Item{"pid": plan.S(string(id)), "seq": number(seq)}
}

func TestSnapshotRequests(t *testing.T) {
	small := func(n int) func(*plantest.Bench) {
		return func(b *plantest.Bench) {
			for i := range annals.SeqNr(n) {
				b.Append(2*i, "a", "b")
				b.Save(2*i+2, []byte(`{"n":1}`))
			}
		}
	}
	requests(t, "snapshot-small", nil, func(b *plantest.Bench) { b.Save(7, []byte(`{"name":"Go"}`)); b.Save(7, []byte(`{"name":"Go!"}`)) })
	requests(t, "snapshot-compressed", nil, func(b *plantest.Bench) { b.Save(7, bytes.Repeat([]byte("text "), 100_000)) })
	requests(t, "snapshot-parts", nil, func(b *plantest.Bench) { b.Save(7, noise(900_000)); b.Save(7, []byte("small again")) })
	// An item has at most 409,600 bytes. With one more the data is compressed; noise does not become smaller, so it needs parts.
	requests(t, "snapshot-at-the-limit", nil, func(b *plantest.Bench) {
		b.Save(7, noise(plan.MaxItemBytes-snapshotFrame))
		b.Save(8, noise(plan.MaxItemBytes-snapshotFrame+1))
	})
	requests(t, "snapshot-latest", small(3), func(b *plantest.Bench) {
		for _, c := range []annals.SnapshotCriteria{{}, {MaxSeqNr: 5}, {MinSeqNr: 3, MaxSeqNr: 3}, {MinSeqNr: 9, MaxSeqNr: 3}, {MaxTime: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}} {
			b.Latest(c)
		}
	})
	requests(t, "snapshot-prune", func(b *plantest.Bench) { small(2)(b); b.Save(3, noise(900_000)) }, func(b *plantest.Bench) {
		b.Prune(annals.SnapshotCriteria{MaxSeqNr: 4})
		b.Prune(annals.SnapshotCriteria{MaxSeqNr: 4})
	})
	requests(t, "snapshot-saved-again-while-pruned", small(1), func(b *plantest.Bench) {
		b.Meanwhile = func() { b.Save(2, []byte("newer")) }
		b.Prune(annals.SnapshotCriteria{MaxSeqNr: 2})
	})
}

// snapshotFrame is the size of the item of a snapshot of id without its data.
const snapshotFrame = 63

func TestRecoveryRequests(t *testing.T) {
	four := func(b *plantest.Bench) {
		b.Append(0, "1", "2")
		b.Append(2, "3")
		b.Append(3, "4")
		b.Append(4, "5", "6")
	}
	requests(t, "recover-nothing", nil, recoverEntity)
	requests(t, "recover-events", four, recoverEntity)
	requests(t, "recover-snapshot", func(b *plantest.Bench) { four(b); b.Save(2, []byte("2")); b.Save(4, []byte("4")) }, func(b *plantest.Bench) {
		recoverEntity(b)
		recoverEntity(b) // the limit has learnt
	})
	requests(t, "recover-snapshot-within-a-commit", func(b *plantest.Bench) { four(b); b.Save(5, []byte("5")) }, recoverEntity)
	requests(t, "recover-snapshot-of-the-last", func(b *plantest.Bench) { four(b); b.Save(6, []byte("6")) }, recoverEntity)
	requests(t, "recover-after-deletes", func(b *plantest.Bench) { four(b); b.Save(4, []byte("4")); b.Delete(4) }, recoverEntity)
	requests(t, "recover-all-deleted", func(b *plantest.Bench) { four(b); b.Delete(annals.MaxSeqNr) }, recoverEntity)
	requests(t, "recover-deleted-without-snapshot", func(b *plantest.Bench) { four(b); b.Delete(3) }, recoverEntity)
	requests(t, "recover-deleted-after-the-snapshot", func(b *plantest.Bench) { four(b); b.Save(4, []byte("4")); b.Delete(5) }, recoverEntity)
	requests(t, "recover-lost-parts", func(b *plantest.Bench) { four(b); b.Save(2, []byte("2")); b.Save(4, noise(900_000)) }, func(b *plantest.Bench) {
		b.Meanwhile = func() { b.Prune(annals.SnapshotCriteria{MinSeqNr: 4, MaxSeqNr: 4}) }
		recoverEntity(b)
	})
	large := func(b *plantest.Bench) {
		for i := range annals.SeqNr(45) {
			b.Append(i, string(bytes.Repeat([]byte("x"), 400_000)))
		}
	}
	requests(t, "recover-more-than-it-keeps", large, recoverEntity)
	requests(t, "recover-overtaken-by-a-snapshot", func(b *plantest.Bench) { large(b); b.Delete(1) }, func(b *plantest.Bench) {
		b.Meanwhile = func() { b.Save(3, []byte("3")); b.Delete(3) }
		recoverEntity(b)
	})
}

// Events after a snapshot that are too large to keep are read again from the snapshot on, not from the first event.
func TestLongTailRequests(t *testing.T) {
	requests(t, "recover-more-than-it-keeps-after-a-snapshot", func(b *plantest.Bench) {
		for i := range annals.SeqNr(50) {
			if i < 5 {
				b.Append(i, "x")
				b.Save(i+1, []byte("s"))
				continue
			}
			b.Append(i, string(bytes.Repeat([]byte("x"), 400_000)))
		}
	}, recoverEntity)
}

func TestSettingsRequests(t *testing.T) {
	check := func(created bool) func(*plantest.Bench) {
		return func(b *plantest.Bench) { b.Told("check", b.Offer.Check(b.Context(), b, created)) }
	}
	requests(t, "settings-new", nil, check(true))
	requests(t, "settings-known", check(true), check(false))
	requests(t, "settings-missing", func(b *plantest.Bench) { b.Append(0, "1") }, check(false))
	requests(t, "settings-other", func(b *plantest.Bench) {
		_, _ = b.Write(b.Context(), plan.Write{Ops: []plan.Op{{Table: "annals", Put: plan.Item{"pid": plan.S("annals"), "seq": plan.N(-1), "v": plan.N(2), "layout": plan.S("commit")}}}})
	}, check(false))
}
