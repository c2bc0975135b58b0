package grouped

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/akkawire"
)

// checkedItems is how many items of the table Open compares with the settings, from several parts of the table.
const checkedItems = 256

// check compares some items with the settings. It is plan.Offer.Check.
func (j *journal) check(ctx context.Context, x plan.Executor, created bool) error {
	if created {
		return nil
	}
	items, err := x.Scan(ctx, j.table, checkedItems)
	if err != nil {
		return err
	}
	known, other := false, ""
	for _, it := range items {
		par := plan.KeyText(it[attrPar])
		for _, kind := range []string{kindHigh, kindLow} {
			rest, ours := strings.CutPrefix(par, j.name+kind)
			if known = known || ours; !ours {
				continue
			}
			if shard, err := strconv.ParseInt(rest[strings.LastIndex(rest, "-")+1:], 10, 64); err != nil || shard >= j.shards {
				return plan.Misfit("table %q: the marker %s is not in one of the %d shards of SequenceShards", j.table, annals.Quote(par), j.shards)
			}
		}
		name, ok := journalOf(it)
		if known = known || name == j.name; ok && !slices.Contains(j.others, name) {
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
