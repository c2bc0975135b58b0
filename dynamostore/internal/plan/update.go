package plan

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Update builds an update expression. Names and values are placeholders, since any name may be a reserved word.
type Update struct {
	Names         map[string]string
	Values        Item
	sets, removes []string
}

// NewUpdate returns an empty Update.
func NewUpdate() *Update { return &Update{Names: map[string]string{}, Values: Item{}} }

// Name returns the placeholder of an attribute.
func (u *Update) Name(attribute string) string { return placeholder(u.Names, attribute) }

// placeholder adds an attribute to names.
func placeholder(names map[string]string, attribute string) string {
	name := "#" + strings.Map(letters, attribute)
	for n := 0; names[name] != "" && names[name] != attribute; n++ {
		name += strconv.Itoa(n)
	}
	names[name] = attribute
	return name
}

// Value returns a placeholder for v.
func (u *Update) Value(v types.AttributeValue) string {
	placeholder := ":v" + strconv.Itoa(len(u.Values))
	u.Values[placeholder] = v
	return placeholder
}

// SetTo sets an attribute to the value of an expression.
func (u *Update) SetTo(attribute, expression string) {
	u.sets = append(u.sets, u.Name(attribute)+" = "+expression)
}

// SetAll sets all attributes of it, in the order of their names.
func (u *Update) SetAll(it Item) {
	for _, name := range slices.Sorted(maps.Keys(it)) {
		u.SetTo(name, u.Value(it[name]))
	}
}

// Remove removes attributes, in the order of their names.
func (u *Update) Remove(attributes ...string) {
	for _, name := range slices.Sorted(slices.Values(attributes)) {
		u.removes = append(u.removes, u.Name(name))
	}
}

// Replace sets all attributes of it, and removes those of names that it does not have.
func (u *Update) Replace(it Item, names ...string) {
	u.SetAll(it)
	u.Remove(slices.DeleteFunc(names, func(name string) bool { return it[name] != nil })...)
}

// Expression returns the update expression. At least one attribute must be set.
func (u *Update) Expression() string {
	text := "SET " + strings.Join(u.sets, ", ")
	if len(u.removes) > 0 {
		text += " REMOVE " + strings.Join(u.removes, ", ")
	}
	return text
}

// setting is what an update sets: a name, the name of an attribute that is taken if it is there, and a value or another name.
var setting = regexp.MustCompile(`(#\w+) = (?:if_not_exists\((#\w+), )?([:#]\w+)`)

// Updated is before, an item or a key, after op, whose Update sets and removes attributes as an Update does.
func Updated(before Item, op Op) Item {
	it := maps.Clone(before)
	sets, removes, _ := strings.Cut(op.Update, " REMOVE ")
	for _, set := range setting.FindAllStringSubmatch(sets, -1) {
		for _, from := range set[2:] { // if_not_exists takes the first that there is
			v, ok := op.Values[from]
			if !ok {
				v, ok = before[op.Names[from]]
			}
			if ok {
				it[op.Names[set[1]]] = v
				break
			}
		}
	}
	for name := range strings.SplitSeq(removes, ", ") {
		delete(it, op.Names[name])
	}
	return it
}

func letters(r rune) rune {
	if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
		return r
	}
	return '_'
}
