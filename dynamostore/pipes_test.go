package dynamostore_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// pipes is a service that is connected by pipes, so that it works in a bubble of package synctest. rule returns the answer to an operation
// and is called for one request at a time.
type pipes struct {
	mu   sync.Mutex
	rule func(operation string) answer
	sent int // requests
}

// answer is an answer of a service. The zero answer is {}.
type answer struct {
	status int // 0 is 200
	body   string
	cut    bool // the body stops coming in its middle
}

// refusal returns an answer with an error.
func refusal(code string) answer {
	return answer{status: http.StatusBadRequest, body: `{"__type":"` + code + `"}`}
}

func (p *pipes) set(rule func(operation string) answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule, p.sent = rule, 0
}

// requests returns the number of requests since the last set.
func (p *pipes) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

func (p *pipes) client(change func(*dynamodb.Options)) *dynamodb.Client {
	o := dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("http://service"),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go p.serve(theirs)
			return ours, nil
		}}},
	}
	if change != nil {
		change(&o)
	}
	return dynamodb.New(o)
}

// serve answers one request.
func (p *pipes) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	p.mu.Lock()
	a := p.rule(operation)
	p.sent++
	p.mu.Unlock()
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if a.body == "" {
		a.body = "{}"
	}
	head := fmt.Sprintf("HTTP/1.1 %d Answer\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n", a.status, len(a.body))
	if !a.cut {
		_, _ = io.WriteString(c, head+a.body)
		return
	}
	_, _ = io.WriteString(c, head+a.body[:len(a.body)/2])
	_, _ = c.Read(make([]byte, 1)) // until the other end gives up
}

// opening returns the answers to the requests that Open of the commit layout makes for an existing table.
func opening(operation string) answer {
	if operation == "DescribeTable" {
		return answer{body: `{"Table":{"TableName":"annals","TableStatus":"ACTIVE",
			"KeySchema":[{"AttributeName":"pid","KeyType":"HASH"},{"AttributeName":"seq","KeyType":"RANGE"}],
			"AttributeDefinitions":[{"AttributeName":"pid","AttributeType":"S"},{"AttributeName":"seq","AttributeType":"N"}]}}`}
	}
	return answer{body: `{"Item":{"pid":{"S":"annals"},"seq":{"N":"-1"},"layout":{"S":"commit"},"v":{"N":"1"}}}`}
}
