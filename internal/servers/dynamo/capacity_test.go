package dynamo

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An index has partition keys of its own: writes to different keys of a table can be writes to one key of an index.
func TestCapacityOfIndexes(t *testing.T) {
	t.Parallel()
	const index = `"GlobalSecondaryIndexes":[{"IndexName":"ids","KeySchema":[{"AttributeName":"id","KeyType":"HASH"}]}],`
	for _, c := range []struct {
		indexes     string
		least, most int
	}{{"", 20, 20}, {index, 1, 3}} {
		p := NewFaultProxy("http://127.0.0.1:0") // nothing is to be passed on
		defer p.Close()
		send := func(operation, body string) int {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.Endpoint, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
			answer, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			return answer.StatusCode
		}
		send("CreateTable", `{"TableName":"rows",`+c.indexes+`"KeySchema":[{"AttributeName":"shard","KeyType":"HASH"},{"AttributeName":"n","KeyType":"RANGE"}]}`)
		p.SetCapacity(0, 0.1) // after the first write of a key nothing is left for ten seconds
		p.Swallow("PutItem")
		passed := 0
		for n := range 20 {
			if send("PutItem", fmt.Sprintf(`{"TableName":"rows","Item":{"shard":{"S":"%d"},"n":{"N":"%d"},"id":{"S":"one"}}}`, n, n)) == http.StatusOK {
				passed++
			}
		}
		if passed < c.least || passed > c.most {
			t.Errorf("%d of 20 writes passed, want %d to %d", passed, c.least, c.most)
		}
	}
}
