package pgstore

import (
	"context"
	"net/url"
	"time"

	"github.com/annals-go/annals"
)

// FromURL shows to the tests what a URL says.
func FromURL(u *url.URL) (Options, error) {
	_, o, err := Options{}.fromURL(u)
	return o, err
}

// AwaitAnswered returns the number of an append whose commit was answered and whose context has ended.
func AwaitAnswered(ctx context.Context) (annals.SeqNr, error) {
	m := &commit{events: make([]annals.NewEvent, 1), done: make(chan outcome, 1)}
	m.done <- m.won(time.Now())
	o := (&backend{}).await(ctx, m)
	return o.receipt.SeqNr, o.err
}

// ReportTime is how much time Horizon leaves a session to report its transaction.
const ReportTime = reportTime
