package lean_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals/internal/random"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// readers are the operations whose items the package decodes, each with the form of an answer.
var readers = map[string]string{
	"Query":        `{"Count":2,"Items":[%s,%s],"LastEvaluatedKey":{"id":{"S":"a"}},"ScannedCount":2}`,
	"Scan":         `{"Items":[%s,%s]}`,
	"GetItem":      `{"Item":%s,"ConsumedCapacity":{"CapacityUnits":0.5,"TableName":"t"},"Unknown":[%s]}`,
	"BatchGetItem": `{"Responses":{"events":[%s],"states":[%s],"none":[]},"UnprocessedKeys":{}}`,
}

// The items of answers are decoded as by the SDK, also where the answer is damaged.
func TestItems(t *testing.T) {
	t.Parallel()
	random.Each(t, 300, func(t *testing.T, r *random.Source) {
		for operation, form := range readers {
			answer := fmt.Sprintf(form, itemText(r, 0), itemText(r, 0))
			if r.OneIn(2) {
				answer = damaged(r, answer)
			}
			bySDK, byLean, _, _ := pair(t, server{status: http.StatusOK, answer: answer}, func(*dynamodb.Options) {})
			compareAnswers(t, operation, answer, calls(r)[operation], bySDK, byLean)
		}
	})
}

// damaged is text without a character that ends or divides something, with another one, or with one more.
func damaged(r *random.Source, text string) string {
	at := r.IntN(len(text))
	if next := strings.IndexAny(text[at:], `{}[]:,"`); next > 0 {
		at += next
	}
	return text[:at] + random.OneOf(r, "", "", ",", ":", "{", "}", "[", "]", `"`, " ", `\`, "null", "\x01", "\xff") + text[at+r.IntN(2):]
}

// itemText is an item as the service may write it, with something unusual now and then.
func itemText(r *random.Source, depth int) string {
	var attributes []string
	for range r.IntN(1 + 9>>depth) {
		attributes = append(attributes, space(r)+stringText(r)+space(r)+":"+valueText(r, depth)+space(r))
	}
	return "{" + strings.Join(attributes, ",") + space(r) + "}"
}

func valueText(r *random.Source, depth int) string {
	value := ""
	switch r.IntN(10) {
	case 0, 1:
		value = `"N":` + usually(r, `"-1.50"`, `"x"`, `""`, "1", "null")
	case 2:
		value = `"B":` + usually(r, `"`+base64.StdEncoding.EncodeToString(make([]byte, r.IntN(9)))+`"`, `"\u0041A=="`, `"AA\n=="`, `"A"`, `"AA"`, `"AA==="`, `"A A="`, "null")
	case 3:
		value = `"BOOL":` + usually(r, random.OneOf(r, "true", "false"), "tru", "truefalse", `"true"`, "null", "1")
	case 4:
		value = `"SS":[` + stringText(r) + "," + stringText(r) + usually(r, "", ",null", ",") + "]"
	case 5:
		value = `"L":[` + valueText(r, depth+1) + space(r) + "," + valueText(r, depth+1) + usually(r, "", ",null", ",") + "]"
	case 6:
		value = `"M":` + itemText(r, depth+1)
	default:
		value = `"S":` + space(r) + stringText(r)
	}
	value = usually(r, value, `"NULL":true`, `"NS":["1","2"]`, `"BS":["AA=="]`, `"Q":"1"`, "", `"S":null,"N":"1"`, `"S":"1","N":"1"`, `"\u0053":"a"`,
		strings.Repeat(`"L":[{`, 70)+`"BOOL":true`+strings.Repeat("}]", 70))
	return usually(r, "{"+space(r)+value+space(r)+"}", "null", "1", "[]", `"a"`)
}

func stringText(r *random.Source) string {
	text := random.OneOf(r, "", "id", "seq", "seventy", strings.Repeat("long", 40))
	for range r.IntN(4) {
		text += usually(r, random.OneOf(r, "a", `\"`, `\\`, `\/`, `\n`, `\b\f\r\t`, `\u00e9`, `\ud83d\ude00`, "é", "😀", "\x7f"), `\ud83d`, `\u12`, `\x`, "\xff", "\x00", "\x1f")
	}
	return `"` + text + `"`
}

// usually is text, now and then another.
func usually(r *random.Source, text string, others ...string) string {
	if r.OneIn(50) {
		return random.OneOf(r, others...)
	}
	return text
}

func space(r *random.Source) string { return random.OneOf(r, "", "", "", "", " ", "\r\n\t") }

// protocol is that of the SDK. It notes what the SDK decodes.
type protocol struct {
	smithyhttp.ClientProtocol
	decoded *[]string
}

func (p protocol) DeserializeResponse(ctx context.Context, operation *smithy.OperationSchema, registry *smithy.TypeRegistry, answer *smithyhttp.Response, out smithy.Deserializable) error {
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	*p.decoded = append(*p.decoded, string(text))
	answer.Body = io.NopCloser(strings.NewReader(string(text)))
	return p.ClientProtocol.DeserializeResponse(ctx, operation, registry, answer, out)
}

// The SDK decodes what answers have beside items, and whole answers that have something unusual.
func TestLeftToSDK(t *testing.T) {
	t.Parallel()
	const usual = `{"a":{"S":"\"\\\/\b\f\n\r\t\u00e9é"},"b":{"N":"1"},"c":{"B":"AA=="},"d":{"BOOL":false},"e":{"L":[{"M":{"x":{"SS":["y"]}}}]}}`
	rest := map[string][]string{"Query": {`{"Count":2,"LastEvaluatedKey":{"id":{"S":"a"}},"ScannedCount":2}`}, "Scan": nil,
		"GetItem": {`{"ConsumedCapacity":{"CapacityUnits":0.5,"TableName":"t"},"Unknown":[` + usual + `]}`}, "BatchGetItem": {`{"UnprocessedKeys":{}}`}}
	for operation, form := range readers {
		for item, left := range map[string][]string{usual: rest[operation], `{"a":{"NULL":true}}`: {fmt.Sprintf(form, `{"a":{"NULL":true}}`, usual)}} {
			var decoded []string
			_, byLean, _, _ := pair(t, server{status: http.StatusOK, answer: fmt.Sprintf(form, item, usual)}, func(o *dynamodb.Options) {
				o.Protocol = protocol{dynamodb.New(dynamodb.Options{}).Options().Protocol, &decoded}
			})
			if got := calls(random.Of(1))[operation](t.Context(), byLean); got.err != nil || !slices.Equal(decoded, left) {
				t.Errorf("%s: %v, the SDK has decoded %q, want %q", operation, got.err, decoded, left)
			}
		}
	}
}
