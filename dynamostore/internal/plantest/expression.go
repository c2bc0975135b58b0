package plantest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var tokens = regexp.MustCompile(`attribute_exists|attribute_not_exists|AND|OR|[()]|[=<>]+|[#:][A-Za-z0-9_]+`)

// holds reports whether an item, nil where there is none, meets a condition made of attribute_exists, attribute_not_exists,
// =, <>, <, <=, AND, OR and brackets. It panics for anything else, which has to be added here first.
func holds(condition string, names map[string]string, values plan.Item, it plan.Item) bool {
	if condition == "" {
		return true
	}
	c := expression{words: words(condition), names: names, values: values, item: it}
	return c.any()
}

// read has the words of conditions that were read before: tests ask for few conditions, each of them very often.
var read sync.Map

func words(condition string) []string {
	if known, ok := read.Load(condition); ok {
		return known.([]string)
	}
	all := tokens.FindAllString(condition, -1)
	if strings.Join(all, "") != strings.ReplaceAll(condition, " ", "") {
		panic("unknown condition " + condition)
	}
	read.Store(condition, all)
	return all
}

type expression struct {
	words  []string
	names  map[string]string
	values plan.Item
	item   plan.Item
}

func (c *expression) next() string {
	word := c.words[0]
	c.words = c.words[1:]
	return word
}

func (c *expression) follows(word string) bool {
	if len(c.words) == 0 || c.words[0] != word {
		return false
	}
	c.next()
	return true
}

func (c *expression) any() bool {
	ok := c.all()
	for c.follows("OR") {
		ok = c.all() || ok
	}
	return ok
}

func (c *expression) all() bool {
	ok := c.one()
	for c.follows("AND") {
		ok = c.one() && ok
	}
	return ok
}

func (c *expression) one() bool {
	switch word := c.next(); word {
	case "(":
		ok := c.any()
		c.next()
		return ok
	case "attribute_exists", "attribute_not_exists":
		c.next()
		_, ok := c.item[c.name(c.next())]
		c.next()
		return ok == (word == "attribute_exists")
	default:
		have, operator, want := c.item[c.name(word)], c.next(), c.value(c.next())
		if have == nil {
			return false
		}
		switch operator {
		case "=":
			return compare(have, want) == 0
		case "<>":
			return compare(have, want) != 0
		case "<=":
			return compare(have, want) <= 0
		case "<":
			return compare(have, want) < 0
		}
		panic("unknown operator " + operator)
	}
}

func (c *expression) name(placeholder string) string {
	name, ok := c.names[placeholder]
	if !ok {
		panic("no name for " + placeholder)
	}
	return name
}

func (c *expression) value(placeholder string) types.AttributeValue {
	v, ok := c.values[placeholder]
	if !ok {
		panic("no value for " + placeholder)
	}
	return v
}

var (
	addition    = regexp.MustCompile(`^ADD (#\w+) (:\w+)$`)
	assignment  = `#\w+ = (?:if_not_exists\(#\w+, :\w+\)|:\w+)`
	assignments = regexp.MustCompile(`^SET ` + assignment + `(, ` + assignment + `)*( REMOVE #\w+(, #\w+)*)?$`)
	placeholder = regexp.MustCompile(`[#:]\w+`)
)

// updated returns the item stands after an update of the form SET a = b, … REMOVE c, …, where b is a value or if_not_exists(name, value), or
// of the form ADD a b for a set of strings. It panics for anything else, and for placeholders without a name or value.
func updated(op plan.Op, stands plan.Item) plan.Item {
	c := expression{names: op.Names, values: op.Values}
	for _, p := range placeholder.FindAllString(op.Update, -1) {
		if p[0] == '#' {
			c.name(p)
		} else {
			c.value(p)
		}
	}
	it := maps.Clone(op.Key)
	maps.Copy(it, stands)
	if m := addition.FindStringSubmatch(op.Update); m != nil {
		it[c.name(m[1])] = union(stands[c.name(m[1])], c.value(m[2]))
		return it
	}
	if !assignments.MatchString(op.Update) {
		panic(fmt.Sprintf("unknown update %q", op.Update))
	}
	return plan.Updated(it, op)
}

func union(stands, added types.AttributeValue) types.AttributeValue {
	all := added.(*types.AttributeValueMemberSS).Value
	if set, ok := stands.(*types.AttributeValueMemberSS); ok {
		all = slices.Concat(set.Value, all)
	}
	return &types.AttributeValueMemberSS{Value: slices.Compact(slices.Sorted(slices.Values(all)))}
}
