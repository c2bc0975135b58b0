package plantest

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Secret is the payload that tests of hostile items write. No error may repeat it.
const Secret = "s3cret"

// hostileNumbers are numbers that DynamoDB stores.
var hostileNumbers = []string{"0", "1", "2", "3", "-1", "1.5", "31", "99", "100", "3000", "2147483648", "4294967327", "1099511627776",
	"9223372036854775800", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e30", "1e-30"}

// hostileValues are values of all types that layouts do not write. New texts and bytes are text.
func hostileValues(text []byte) []types.AttributeValue {
	values := []types.AttributeValue{
		plan.S(string(text)), plan.B(text), plan.Bool(true), plan.Bool(false), &types.AttributeValueMemberNULL{Value: true},
		&types.AttributeValueMemberSS{Value: []string{Secret, string(text)}}, plan.L(plan.S(Secret)), plan.M(plan.Item{"a": plan.B(text)}),
	}
	for _, n := range hostileNumbers {
		values = append(values, &types.AttributeValueMemberN{Value: n})
	}
	return values
}

// Spoil changes the attributes names of an item. Each byte of script says what to do with one of them: keep it, remove it, or put one of the
// hostile values into it. id is the attribute with the id, which gets another id as text, because errors name it.
func Spoil(it plan.Item, names []string, id string, script, text []byte) {
	values := hostileValues(text)
	for i, name := range names[:min(len(script), len(names))] {
		switch what := int(script[i]) % (len(values) + 2); what {
		case 0: // as it was
		case 1:
			delete(it, name)
		default:
			if it[name] = values[what-2]; what == 2 && name == id {
				it[name] = plan.S("another id")
			}
		}
	}
}

// Scripts yields the scripts of Spoil that change one of so many attributes, in every way.
func Scripts(attributes int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for what := range len(hostileValues(nil)) + 2 {
			for i := range attributes {
				script := make([]byte, i+1)
				if script[i] = byte(what); !yield(script) {
					return
				}
			}
		}
	}
}

// Answered checks the error of a call on tables with hostile items, and reports whether there is none. The error has a kind that says what is
// wrong, and does not repeat Secret.
func Answered(t testing.TB, what string, err error) bool {
	t.Helper()
	if err == nil {
		return true
	}
	if !errors.Is(err, annals.ErrCorrupt) && !errors.Is(err, annals.ErrInvalid) && !errors.Is(err, annals.ErrConflict) && !errors.Is(err, annals.ErrTruncated) {
		t.Errorf("%s: %v", what, err)
	}
	if strings.Contains(err.Error(), Secret) {
		t.Errorf("%s: the error repeats a payload: %v", what, err)
	}
	return false
}
