package hashkey

import (
	"strings"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/quote"
)

// settings are what can be compared with the items of a table.
type settings struct {
	table string
	names []string // of journals; the first is the layout's own
	keys  keys
}

// fits is plan.Sample.Fits.
func (s settings) fits(items []plan.Item) error {
	known, sample := false, ""
	for _, it := range items {
		key, _ := plan.Text(it, keyName)
		if _, err := plan.IsCounter(s.table, key, int64(s.keys.shards), s.names[0]+highKind, s.names[0]+lowKind); err != nil {
			return err
		}
		known = known || s.knows(key)
		if !s.knows(key) {
			sample = key
		}
	}
	if !known {
		return plan.Misfit("table %q: none of %d items is of the journal %q; a key is %s. If that is of another journal, name it in OtherNames", s.table, len(items), s.names[0], quote.Text(sample))
	}
	return nil
}

// knows reports whether a key begins with the name of a known journal.
func (s settings) knows(key string) bool {
	for _, name := range s.names {
		for _, kind := range []string{eventKind, highKind, lowKind} {
			if strings.HasPrefix(key, name+kind) {
				return true
			}
		}
	}
	return false
}
