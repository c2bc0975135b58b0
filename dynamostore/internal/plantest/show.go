package plantest

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// shown is half the length above which texts and bytes are shortened.
const shown = 48

// show returns a value in readable form: S "text", N 1, B 0102, SS ["a" "b"], L [...], M {...}.
func show(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		if len(v.Value) > 2*shown {
			return fmt.Sprintf("S %q… %d bytes", v.Value[:shown/2], len(v.Value))
		}
		return fmt.Sprintf("S %q", v.Value)
	case *types.AttributeValueMemberN:
		return "N " + v.Value
	case *types.AttributeValueMemberB:
		if len(v.Value) > 2*shown {
			return fmt.Sprintf("B %d bytes", len(v.Value))
		}
		return "B " + hex.EncodeToString(v.Value)
	case *types.AttributeValueMemberBOOL:
		return fmt.Sprintf("BOOL %v", v.Value)
	case *types.AttributeValueMemberSS:
		return fmt.Sprintf("SS %q", v.Value)
	case *types.AttributeValueMemberL:
		all := make([]string, len(v.Value))
		for i, e := range v.Value {
			all[i] = show(e)
		}
		return "L [" + strings.Join(all, ", ") + "]"
	case *types.AttributeValueMemberM:
		all := make([]string, 0, len(v.Value))
		for _, name := range slices.Sorted(maps.Keys(v.Value)) {
			all = append(all, name+" "+show(v.Value[name]))
		}
		return "M {" + strings.Join(all, ", ") + "}"
	}
	return fmt.Sprintf("%T", v)
}

func showItem(it plan.Item) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(it)) {
		fmt.Fprintf(&b, "    %s %s\n", name, show(it[name]))
	}
	return b.String()
}

func showKey(key plan.Item) string {
	all := make([]string, 0, len(key))
	for _, name := range slices.Sorted(maps.Keys(key)) {
		all = append(all, name+" "+show(key[name]))
	}
	return strings.Join(all, ", ")
}

func showOp(op plan.Op) string {
	var b strings.Builder
	switch {
	case op.Put != nil:
		fmt.Fprintf(&b, "put %s\n%s    (%d bytes)\n", op.Table, showItem(op.Put), plan.Size(op.Put))
	case op.Update != "":
		fmt.Fprintf(&b, "update %s %s\n    %s\n", op.Table, showKey(op.Key), op.Update)
	case op.Delete:
		fmt.Fprintf(&b, "delete %s %s\n", op.Table, showKey(op.Key))
	default:
		fmt.Fprintf(&b, "check %s %s\n", op.Table, showKey(op.Key))
	}
	if op.Condition != "" {
		fmt.Fprintf(&b, "    if %s\n", op.Condition)
	}
	b.WriteString(showNames(op.Names, op.Values))
	return b.String()
}

// showQueries shows queries that go out together; those that differ only in their partition as one.
func showQueries(queries []plan.Query) string {
	var b strings.Builder
	for len(queries) > 0 {
		first := queries[0]
		var partitions []string
		for len(queries) > 0 {
			q := queries[0]
			partitions = append(partitions, fmt.Sprintf("%q", q.Hash))
			if q.Hash = first.Hash; showQuery(q, nil) != showQuery(first, nil) {
				partitions = partitions[:len(partitions)-1]
				break
			}
			queries = queries[1:]
		}
		b.WriteString(showQuery(first, partitions))
	}
	return b.String()
}

func showQuery(q plan.Query, partitions []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "query %s", q.Table)
	if q.Index != "" {
		fmt.Fprintf(&b, " index %s", q.Index)
	}
	fmt.Fprintf(&b, " %s", strings.Join(partitions, ", "))
	if q.From != nil {
		fmt.Fprintf(&b, " from %s", show(q.From))
	}
	if q.To != nil {
		fmt.Fprintf(&b, " to %s", show(q.To))
	}
	if q.Backward {
		b.WriteString(" backward")
	}
	if q.Limit > 0 {
		fmt.Fprintf(&b, " limit %d", q.Limit)
	}
	if q.Dense {
		b.WriteString(" dense")
	}
	b.WriteString("\n")
	if q.Fields != nil {
		fmt.Fprintf(&b, "    fields %s\n", strings.Join(q.Fields, ", "))
	}
	if q.Filter != "" {
		fmt.Fprintf(&b, "    filter %s\n", q.Filter)
	}
	b.WriteString(showNames(q.Names, q.Values))
	return b.String()
}

// showNames leaves out names that are equal to their placeholders.
func showNames(names map[string]string, values plan.Item) string {
	var b strings.Builder
	for _, placeholder := range slices.Sorted(maps.Keys(names)) {
		if placeholder != "#"+names[placeholder] {
			fmt.Fprintf(&b, "    %s = %s\n", placeholder, names[placeholder])
		}
	}
	for _, placeholder := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, "    %s = %s\n", placeholder, show(values[placeholder]))
	}
	return b.String()
}

func answer(it plan.Item) string {
	if it == nil {
		return "    = nothing\n"
	}
	return "    = an item\n"
}
