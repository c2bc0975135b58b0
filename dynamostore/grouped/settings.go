package grouped

import (
	"slices"
	"strconv"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/akkawire"
)

// fits compares some items with the settings. It is plan.Sample.Fits.
func (j *journal) fits(items []plan.Item) error {
	known, other := false, ""
	for _, it := range items {
		par := plan.KeyText(it[attrPar])
		counter, err := plan.IsCounter(j.table, par, j.shards, j.name+kindHigh, j.name+kindLow)
		if err != nil {
			return err
		}
		name, ok := journalOf(it)
		if known = known || counter || name == j.name; ok && !slices.Contains(j.others, name) {
			other = name
		}
	}
	if !known && other != "" {
		return plan.Misfit("table %q: none of %d items is of the journal %q, and some are of the journal %q: set that Name, or name it in OtherNames", j.table, len(items), j.name, other)
	}
	return nil
}

// journalOf returns the name of the journal in the key of an event; false for other items.
func journalOf(it plan.Item) (string, bool) {
	id, _ := owner(it)
	n, _ := plan.Number(it, attrSeq)
	if pay, ok := plan.Bytes(it, attrPay); ok && it[attrSeq] == nil {
		if record, err := akkawire.ParseRecord(pay); err == nil {
			n = int64(record.SeqNr)
		}
	}
	if id == "" {
		return "", false
	}
	return strings.CutSuffix(plan.KeyText(it[attrPar]), kindEvents+string(id)+"-"+strconv.FormatInt(groupOf(annals.SeqNr(n)), 10))
}
