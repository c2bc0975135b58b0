package plantest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// shown is half the length above which texts and bytes are shortened.
const shown = 48

// byGzip is shown in place of data that is compressed by gzip, because its length depends on the release of Go.
const byGzip = "B by gzip"

// show returns a value in readable form: S "text", N 1, B 0102, SS ["a" "b"], L [...], M {...}.
func show(v types.AttributeValue) string { return string(appendValue(nil, v)) }

// appendValue appends what show returns. Tests of orders show items very often.
func appendValue(to []byte, v types.AttributeValue) []byte {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		if len(v.Value) > 2*shown {
			return fmt.Appendf(to, "S %q… %d bytes", v.Value[:shown/2], len(v.Value))
		}
		return strconv.AppendQuote(append(to, "S "...), v.Value)
	case *types.AttributeValueMemberN:
		return append(append(to, "N "...), v.Value...)
	case *types.AttributeValueMemberB:
		switch {
		case bytes.HasPrefix(v.Value, []byte("\x1f\x8b")):
			return append(to, byGzip...)
		case len(v.Value) > 2*shown:
			return fmt.Appendf(to, "B %d bytes", len(v.Value))
		}
		return hex.AppendEncode(append(to, "B "...), v.Value)
	case *types.AttributeValueMemberBOOL:
		return strconv.AppendBool(append(to, "BOOL "...), v.Value)
	case *types.AttributeValueMemberSS:
		return fmt.Appendf(to, "SS %q", v.Value)
	case *types.AttributeValueMemberL:
		to = append(to, "L ["...)
		for i, e := range v.Value {
			if i > 0 {
				to = append(to, ", "...)
			}
			to = appendValue(to, e)
		}
		return append(to, ']')
	case *types.AttributeValueMemberM:
		return append(appendValues(append(to, "M {"...), v.Value), '}')
	}
	return fmt.Appendf(to, "%T", v)
}

// appendValues appends names and values, in the order of the names.
func appendValues(to []byte, values plan.Item) []byte {
	for i, name := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			to = append(to, ", "...)
		}
		to = appendValue(append(append(to, name...), ' '), values[name])
	}
	return to
}

func showItem(it plan.Item) string {
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(it)) {
		b = append(appendValue(append(append(append(b, "    "...), name...), ' '), it[name]), '\n')
	}
	return string(b)
}

func showKey(key plan.Item) string { return string(appendValues(nil, key)) }

func showOp(op plan.Op) string {
	var b strings.Builder
	switch {
	case op.Put != nil:
		it := showItem(op.Put)
		fmt.Fprintf(&b, "put %s\n%s", op.Table, it)
		if !strings.Contains(it, byGzip) {
			fmt.Fprintf(&b, "    (%d bytes)\n", plan.Size(op.Put))
		}
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
