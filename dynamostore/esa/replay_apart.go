package esa

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
)

// apartReader reads the tables of Rust5, in two requests. The head is read first. It has the last number, and no event up to that one is written
// later.
type apartReader struct{ reader }

// Rows is driver.Reader. When the last events are missing, they were deleted after the head was read, which can have been after more events were
// stored. Then these are read, too: a read that shows a delete shows what was stored before the delete.
func (r *apartReader) Rows(ctx context.Context, from, to annals.SeqNr) iter.Seq2[driver.Part, error] {
	return func(yield func(driver.Part, error) bool) {
		var err error
		if !r.begun {
			r.head, err = r.j.read(ctx, r.id)
		}
		if !yield(driver.Part{Deleted: r.head.deleted, Last: r.head.version}, err) || err != nil {
			return
		}
		for {
			p := numbered.Part{ID: r.id, From: max(from, r.head.deleted+1), To: min(to, r.head.version)}
			if p.From > p.To {
				return
			}
			end, q := p.To, r.j.events.Query(p)
			q.Dense = true
			if !r.each(&p, r.j.x.Query(ctx, q), yield) || p.From > end {
				return
			}
			now, err := r.j.read(ctx, r.id)
			if err == nil && (now.deleted < end || now.version == r.head.version || to == end) {
				return
			}
			if r.head, from = now, p.From; !yield(driver.Part{Deleted: r.head.deleted, Last: r.head.version}, err) || err != nil {
				return
			}
		}
	}
}

// Gap is driver.Reader. The events had been written before the head was read, so the head tells now whether they were deleted before they
// were looked for. Those of the last commit were not left unused.
func (r *apartReader) Gap(ctx context.Context, _, to annals.SeqNr) (driver.Part, error) {
	h, err := r.j.read(ctx, r.id)
	p := driver.Part{Deleted: h.deleted}
	if r.j.gaps {
		p.Unused = min(to, r.head.version-annals.SeqNr(max(1, len(r.head.events))))
	}
	return p, err
}
