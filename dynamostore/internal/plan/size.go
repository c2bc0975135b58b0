package plan

import (
	"fmt"
	"strings"

	"github.com/annals-go/annals"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// MaxItemBytes is the service's limit for one item, names included.
const MaxItemBytes = 400 << 10

// Size returns the number of bytes that the service counts for an item.
func Size(it Item) int {
	n := 0
	for name, v := range it {
		n += len(name) + valueSize(v)
	}
	return n
}

func valueSize(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return numberSize(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberBOOL, *types.AttributeValueMemberNULL:
		return 1
	case *types.AttributeValueMemberL:
		return 3 + len(v.Value) + sum(v.Value, valueSize)
	case *types.AttributeValueMemberM:
		return 3 + len(v.Value) + Size(v.Value)
	case *types.AttributeValueMemberSS:
		return sum(v.Value, func(s string) int { return len(s) })
	case *types.AttributeValueMemberNS:
		return sum(v.Value, numberSize)
	case *types.AttributeValueMemberBS:
		return sum(v.Value, func(b []byte) int { return len(b) })
	}
	return 0
}

func sum[T any](all []T, size func(T) int) (n int) {
	for _, v := range all {
		n += size(v)
	}
	return n
}

// numberSize counts one byte for two significant digits, one for the exponent and one for a minus sign. Digits are paired from
// the decimal point outwards, so 105 takes as many bytes as 1050.
func numberSize(s string) int {
	size := 1
	if strings.HasPrefix(s, "-") {
		size, s = 2, s[1:]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	if len(whole)%2 == 1 {
		whole = "0" + whole
	}
	if len(fraction)%2 == 1 {
		fraction += "0"
	}
	pairs := whole + fraction
	for strings.HasPrefix(pairs, "00") {
		pairs = pairs[2:]
	}
	for strings.HasSuffix(pairs, "00") {
		pairs = pairs[:len(pairs)-2]
	}
	return size + len(pairs)/2
}

// Fits returns ErrTooLarge for an item that the service would refuse for its size.
func Fits(it Item) error {
	if size := Size(it); size > MaxItemBytes {
		return &annals.Error{Kind: annals.ErrTooLarge, Err: fmt.Errorf("an item of %d bytes, the service takes %d", size, MaxItemBytes)}
	}
	return nil
}
