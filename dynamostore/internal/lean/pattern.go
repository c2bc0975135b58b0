package lean

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// pattern is what all requests with credentials of an account have in common.
type pattern struct {
	account         string
	url             *url.URL
	host            string
	header          http.Header // without what each request has of its own. Only the type of the content is signed, as names that do not begin with X-Amz- need not be
	target          string      // the header of that name, without the operation
	region, service string      // of the signature
}

const (
	contentType   = "Content-Type"
	target        = "X-Amz-Target"
	securityToken = "X-Amz-Security-Token"
)

// errCaught ends the request that a pattern is made of. It is not sent.
var errCaught = errors.New("the request was caught")

// sample is the input of the request that is caught.
var sample = &dynamodb.GetItemInput{TableName: aws.String("annals"), Key: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "0"}}}

// errUnsigned says that the client signs requests in another way.
var errUnsigned = errors.New("the SDK signs requests in another way than by AWS4-HMAC-SHA256 of usual headers")

// catcher keeps a request instead of sending it.
type catcher struct{ caught *http.Request }

func (c *catcher) Do(r *http.Request) (*http.Response, error) {
	c.caught = r
	return nil, errCaught
}

// patternOf returns the pattern for an account, made of a request of the SDK.
func (c *Client) patternOf(ctx context.Context, account string) (*pattern, error) {
	if p := c.pattern.Load(); p != nil && p.account == account {
		return p, nil
	}
	var into catcher
	_, err := c.Client.GetItem(ctx, sample, func(o *dynamodb.Options) { o.HTTPClient, o.Retryer = &into, aws.NopRetryer{} })
	if into.caught == nil {
		return nil, err
	}
	p := &pattern{account: account, url: into.caught.URL, host: cmp.Or(into.caught.Host, into.caught.URL.Host), header: into.caught.Header.Clone()}
	credential, ok := strings.CutPrefix(p.header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=")
	credential, _, _ = strings.Cut(credential, ",")
	parts := strings.Split(credential, "/") // key, which has no slash, date, region, service, aws4_request
	if !ok || len(parts) != 5 {
		return nil, errUnsigned
	}
	p.region, p.service, p.target = parts[2], parts[3], strings.TrimSuffix(p.header.Get(target), "GetItem")
	for _, name := range []string{"Authorization", "X-Amz-Date", securityToken, target, "Amz-Sdk-Invocation-Id", "Amz-Sdk-Request", "Content-Length"} {
		p.header.Del(name)
	}
	for name := range p.header {
		if strings.HasPrefix(name, "X-Amz-") {
			return nil, errUnsigned
		}
	}
	c.pattern.Store(p)
	return p, nil
}
