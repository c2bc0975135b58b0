package esa

import (
	"fmt"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/quote"
)

// sample compares some rows of a table with the settings.
func (j *journal) sample(table string) plan.Sample {
	return plan.Sample{Table: table, Fits: func(rows []plan.Item) error {
		for _, it := range rows {
			if err := j.fits(table, it); err != nil {
				return err
			}
		}
		return nil
	}}
}

// fits returns ErrInvalid for a row of table that does not fit the settings. Rows without an aggregate id are not those of a library.
func (j *journal) fits(table string, it plan.Item) error {
	aid, ok := plan.Text(it, attrAID)
	n, counted := plan.Number(it, attrSeq)
	if !ok || !counted {
		return nil
	}
	numbers := []annals.SeqNr{annals.SeqNr(n)}
	if table == j.heads {
		numbers = []annals.SeqNr{0, annals.SeqNr(n)} // a head can have the number of its state
	}
	have := j.events.KeyOf(it)
	var want plan.Item
	for _, n := range numbers {
		id := j.owner(it, n)
		key, err := j.key(id, n)
		if err == nil && plan.SameKey(key, have) {
			if at, _ := plan.Number(it, attrOccurred); j.unit == time.Millisecond && at > mostMillis {
				return plan.Misfit("table %q: the attribute %s of the row %s is not in milliseconds: set Journal.OccurredAt", table, attrOccurred, plan.QuoteKey(have))
			}
			return nil
		}
		want = key
	}
	made := "refuse its id"
	if want != nil {
		made = "make it " + plan.QuoteKey(want)
	}
	return plan.Misfit("table %q: the row of %s number %d has the key %s; the settings (Peer, Shards, Keys, BareAID, Types) %s%s", table, quote.Text(aid), n, plan.QuoteKey(have), made, j.others(it, numbers))
}

// mostMillis is the greatest occurred_at in milliseconds: a time in the year 5138 in milliseconds, and one in January 1970 in nanoseconds.
const mostMillis = 100_000_000_000_000

// others names the peers that make the key of a row with the same settings otherwise.
func (j *journal) others(it plan.Item, numbers []annals.SeqNr) string {
	var names []string
	for _, p := range peers {
		if p.apart {
			continue
		}
		k := j.keys
		k.resolver = KeyResolver{}.of(p, k.bare)
		for _, n := range numbers {
			if key, err := k.key(k.owner(it, n), n); err == nil && plan.SameKey(key, j.events.KeyOf(it)) {
				names = append(names, p.name)
				break
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; the row is at the key of the peers %s", strings.Join(names, ", "))
}
