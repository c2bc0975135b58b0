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
		n := 3
		for _, e := range v.Value {
			n += 1 + valueSize(e)
		}
		return n
	case *types.AttributeValueMemberM:
		n := 3
		for name, e := range v.Value {
			n += 1 + len(name) + valueSize(e)
		}
		return n
	case *types.AttributeValueMemberSS:
		n := 0
		for _, s := range v.Value {
			n += len(s)
		}
		return n
	case *types.AttributeValueMemberNS:
		n := 0
		for _, s := range v.Value {
			n += numberSize(s)
		}
		return n
	case *types.AttributeValueMemberBS:
		n := 0
		for _, b := range v.Value {
			n += len(b)
		}
		return n
	}
	return 0
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
