// Package akkakeys has what the tables of the plugins for DynamoDB of Akka and Pekko have in common: the keys of a journal, and its counters.
package akkakeys

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/quote"
)

// Journal is a journal in a table. Several can be in one.
type Journal struct {
	Table       string
	Hash, Range string // attributes of the key. Range is "" where there is none; it is 0 in counters
	Number      string // attribute with the number of a counter
	Name        string // begins all keys
	Others      []string
	Shards      int64 // over how many counters of each kind a number of an entity is distributed
	Step        int64 // counters of the highest number have multiples of it
}

// Kinds of items, in keys between the name of the journal and the id.
const (
	Events = "-P-"
	High   = "-SH-" // counters of the highest number
	Low    = "-SL-" // counters of the lowest number
)

// Kinds are all kinds.
var Kinds = []string{Events, High, Low}

// MaxKey is the most bytes of a hash key that the service takes.
const MaxKey = 2048

// Key returns a hash key. n is the shard of a counter.
func (j Journal) Key(kind string, id annals.PersistenceID, n int64) string {
	return j.Name + kind + string(id) + "-" + strconv.FormatInt(n, 10)
}

// MaxID returns how many bytes an id may have, so that all keys are taken. n is the highest number in the key of an event.
func (j Journal) MaxID(n int64) int {
	return MaxKey - max(len(j.Key(Events, "", n)), len(j.Key(High, "", j.Shards-1)))
}

// Counter returns the key of a counter.
func (j Journal) Counter(kind string, id annals.PersistenceID, shard int64) plan.Item {
	key := plan.Item{j.Hash: plan.S(j.Key(kind, id, shard))}
	if j.Range != "" {
		key[j.Range] = plan.N(0)
	}
	return key
}

// Counters returns the keys of all counters of some kinds.
func (j Journal) Counters(id annals.PersistenceID, kinds ...string) []plan.Item {
	keys := make([]plan.Item, 0, len(kinds)*int(j.Shards))
	for _, kind := range kinds {
		for shard := range j.Shards {
			keys = append(keys, j.Counter(kind, id, shard))
		}
	}
	return keys
}

// Read returns the numbers of those counters of some kinds that exist.
func (j Journal) Read(ctx context.Context, x plan.Executor, id annals.PersistenceID, kinds ...string) (high, low []annals.SeqNr, err error) {
	items, err := x.GetAll(ctx, j.Table, j.Counters(id, kinds...))
	for _, it := range items {
		d, numbers := plan.Decoder{Item: it}, &low
		n := d.Required(j.Number, 0, math.MaxInt64)
		if strings.HasPrefix(plan.KeyText(it[j.Hash]), j.Name+High) {
			if numbers = &high; n%j.Step != 0 {
				d.Wrong(j.Number)
			}
		}
		if d.Fault != nil {
			return nil, nil, j.Corrupt(it, &ability.Damage{Code: ability.Head, Err: d.Fault})
		}
		*numbers = append(*numbers, annals.SeqNr(n))
	}
	return high, low, err
}

// Corrupt returns the error of an item that is not valid.
func (j Journal) Corrupt(it plan.Item, err error) error {
	return plan.Corrupt(j.Table, plan.Table{Hash: plan.Key{Name: j.Hash}, Range: plan.Key{Name: j.Range}}.KeyOf(it), err)
}

// Sample compares some items of the table with the settings. It refuses a table with items of which none is of the journal or one of Others,
// and counters in more than Shards shards.
func (j Journal) Sample() plan.Sample { return plan.Sample{Table: j.Table, Fits: j.fits} }

func (j Journal) fits(items []plan.Item) error {
	known, sample := false, ""
	for _, it := range items {
		key := plan.KeyText(it[j.Hash])
		for _, kind := range []string{High, Low} {
			rest, ok := strings.CutPrefix(key, j.Name+kind)
			shard, err := strconv.ParseInt(rest[strings.LastIndex(rest, "-")+1:], 10, 64)
			if ok && (err != nil || shard >= j.Shards) {
				return plan.Misfit("table %q: the key %s is not in one of the %d shards of SequenceShards", j.Table, quote.Text(key), j.Shards)
			}
		}
		if j.Knows(key) {
			known = true
		} else {
			sample = key
		}
	}
	if !known {
		return plan.Misfit("table %q: none of %d items is of the journal %q; a key is %s. If that is of another journal, name it in OtherNames", j.Table, len(items), j.Name, quote.Text(sample))
	}
	return nil
}

// Parse returns the kind of an item, the id in its key, and the number at the end of the key. The kind is "" for an item of another journal.
func (j Journal) Parse(it plan.Item) (kind string, id annals.PersistenceID, n int64) {
	key := plan.KeyText(it[j.Hash])
	rest, ours := strings.CutPrefix(key, j.Name)
	if end := strings.LastIndexByte(rest, '-'); ours && end > 0 {
		n, err := strconv.ParseInt(rest[end+1:], 10, 64)
		for _, kind := range Kinds {
			if id, ok := strings.CutPrefix(rest[:end], kind); ok && err == nil {
				return kind, annals.PersistenceID(id), n
			}
		}
	}
	return "", "", 0
}

// Ambiguous reports whether a key with id may be one of another journal with another id: nothing in a key marks where the name of the journal
// ends.
func (j Journal) Ambiguous(id annals.PersistenceID) bool {
	return slices.ContainsFunc(Kinds, func(kind string) bool {
		return strings.Contains(j.Name+"-", kind) || strings.Contains("-"+string(id), kind)
	})
}

// Row is plan.Row for the items of the journal. owner is the id in an event, "" where it cannot be read.
func (j Journal) Row(it plan.Item, owner annals.PersistenceID) (annals.PersistenceID, *ability.Damage) {
	kind, id, n := j.Parse(it)
	key := plan.KeyText(it[j.Hash])
	switch {
	case kind == "" && j.Knows(key):
		return "", nil // of another journal
	case kind == "":
		return "", plan.Misplaced("", 0, fmt.Errorf("the key %s is of no known journal", quote.Text(key)))
	case j.Ambiguous(id) && (kind != Events || owner != id):
		return "", nil
	case kind != Events && (n < 0 || n >= j.Shards):
		return id, plan.Misplaced(id, 0, fmt.Errorf("the key %s is not in one of the %d shards of SequenceShards", quote.Text(key), j.Shards))
	}
	return id, nil
}

// Knows reports whether a key begins with the name of a known journal.
func (j Journal) Knows(key string) bool {
	for _, name := range append([]string{j.Name}, j.Others...) {
		for _, kind := range Kinds {
			if strings.HasPrefix(key, name+kind) {
				return true
			}
		}
	}
	return false
}
