package plan

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/annals-go/annals"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// S returns a string attribute.
func S(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// N returns a number attribute.
func N[T ~int | ~int32 | ~int64](n T) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(n), 10)}
}

// B returns a binary attribute; nil is stored as an empty one.
func B(b []byte) types.AttributeValue {
	if b == nil {
		b = []byte{}
	}
	return &types.AttributeValueMemberB{Value: b}
}

// Bool returns a boolean attribute.
func Bool(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

// M returns a map attribute.
func M(it Item) types.AttributeValue { return &types.AttributeValueMemberM{Value: it} }

// L returns a list attribute.
func L(all ...types.AttributeValue) types.AttributeValue {
	return &types.AttributeValueMemberL{Value: all}
}

// Texts returns a list of strings.
func Texts(texts []string) types.AttributeValue {
	all := make([]types.AttributeValue, len(texts))
	for i, text := range texts {
		all[i] = S(text)
	}
	return L(all...)
}

// Text returns the string attribute name of it; false when there is none.
func Text(it Item, name string) (string, bool) {
	s, ok := it[name].(*types.AttributeValueMemberS)
	if !ok {
		return "", false
	}
	return s.Value, true
}

// TypeBool is the type of boolean attributes, which cannot be in a key.
const TypeBool types.ScalarAttributeType = "BOOL"

// TypeOf returns the type of a string, number, binary or boolean attribute; "" for other attributes.
func TypeOf(v types.AttributeValue) types.ScalarAttributeType {
	switch v.(type) {
	case *types.AttributeValueMemberS:
		return types.ScalarAttributeTypeS
	case *types.AttributeValueMemberN:
		return types.ScalarAttributeTypeN
	case *types.AttributeValueMemberB:
		return types.ScalarAttributeTypeB
	case *types.AttributeValueMemberBOOL:
		return TypeBool
	}
	return ""
}

// KeyText returns the text of a key's string or number; "" for other values.
func KeyText(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	}
	return ""
}

// Number returns the integer attribute name of it; false when there is none.
func Number(it Item, name string) (int64, bool) {
	v, ok := it[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	return n, err == nil
}

// Bytes returns the binary attribute name of it; false when there is none.
func Bytes(it Item, name string) ([]byte, bool) {
	v, ok := it[name].(*types.AttributeValueMemberB)
	if !ok {
		return nil, false
	}
	return v.Value, true
}

// Flag returns the boolean attribute name of it; false when there is none.
func Flag(it Item, name string) bool {
	v, ok := it[name].(*types.AttributeValueMemberBOOL)
	return ok && v.Value
}

// Micros returns t as a number attribute: microseconds since 1970.
func Micros(t time.Time) types.AttributeValue { return N(t.UnixMicro()) }

// Time returns the time in the attribute name of it that Micros made; the zero time when there is none.
func Time(it Item, name string) time.Time {
	n, ok := Number(it, name)
	if !ok {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// Column returns the attribute for a value of an additional column. It is nil for nil, which removes the attribute.
func Column(value any) (types.AttributeValue, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case string:
		return S(v), nil
	case int64:
		return N(v), nil
	case float64:
		if size := math.Abs(v); v != 0 && (size < 1e-130 || size >= 1e126) || math.IsNaN(v) {
			return nil, errors.New("the number is not one that DynamoDB has")
		}
		return &types.AttributeValueMemberN{Value: strconv.FormatFloat(v, 'g', -1, 64)}, nil
	case bool:
		return Bool(v), nil
	case []byte:
		return B(v), nil
	case time.Time:
		return S(v.UTC().Format("2006-01-02T15:04:05.000000Z")), nil // of a fixed width, so that values sort by time
	}
	return nil, fmt.Errorf("%T is not string, int64, float64, bool, []byte or time.Time", value)
}

// PutColumns adds additional columns to an item. It returns the attributes to remove, which are those whose value is nil.
func PutColumns(it Item, columns annals.Columns) (removed []string, err error) {
	for name, value := range columns {
		v, err := Column(value)
		switch {
		case err != nil:
			return nil, &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("column %q: %w", name, err)}
		case v == nil:
			removed = append(removed, name)
		default:
			it[name] = v
		}
	}
	return removed, nil
}
