package dynamostore

import "github.com/aws/aws-sdk-go-v2/aws"

// Steady shows the request-body wrapper to the tests.
func Steady(c aws.HTTPClient) aws.HTTPClient { return steady{c} }
