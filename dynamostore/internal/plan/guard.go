package plan

import (
	"maps"
	"strconv"
	"strings"

	"github.com/annals-go/annals"
)

// Guard is an op that only checks its condition. It fails once what was read is out of date.
type Guard struct {
	Op
	Last func(old Item) annals.SeqNr // the number in the item that made the condition fail, 0 for none; nil: the item does not tell
}

// And adds the condition of check, which is of the same item, to op. Neither is in brackets as a whole: the service refuses two of them.
func (op *Op) And(check Op) {
	if op.Names = maps.Clone(op.Names); op.Names == nil {
		op.Names = map[string]string{}
	}
	if op.Values == nil && len(check.Values) > 0 {
		op.Values = Item{} // otherwise it is the map that Stamp changes
	}
	mark := "g" + strconv.Itoa(len(op.Names)) + "_" // op may have the same placeholders
	for placeholder, name := range check.Names {
		op.Names["#"+mark+placeholder[1:]] = name
	}
	for placeholder, v := range check.Values {
		op.Values[":"+mark+placeholder[1:]] = v
	}
	condition := strings.NewReplacer("#", "#"+mark, ":", ":"+mark).Replace(check.Condition)
	if op.Condition != "" {
		condition = "(" + op.Condition + ") AND (" + condition + ")"
	}
	op.Condition = condition
}
