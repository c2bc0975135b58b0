package lean_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A signature has the newest credentials and day.
func TestKeyChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newest := aws.Credentials{AccessKeyID: "key", SecretAccessKey: "secret"}
		bySDK, byLean, want, got := pair(t, server{status: http.StatusOK, answer: "{}"}, func(o *dynamodb.Options) {
			o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return newest, nil })
		})
		for _, newest.SessionToken = range []string{"", "token", "another", ""} {
			for _, later := range []time.Duration{0, time.Second, 24 * time.Hour} {
				time.Sleep(later)
				for _, c := range []client{bySDK, byLean} {
					if _, err := c.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("t"), Key: map[string]types.AttributeValue{}}); err != nil {
						t.Fatal(err)
					}
				}
				compareRequests(t, newest.SessionToken, got, want)
			}
		}
	})
}

// When the credentials become those of another account, requests go to its endpoint.
func TestAccountChanges(t *testing.T) {
	t.Parallel()
	account := ""
	bySDK, byLean, want, got := pair(t, server{status: http.StatusOK, answer: "{}"}, func(o *dynamodb.Options) {
		o.AccountIDEndpointMode = aws.AccountIDEndpointModePreferred
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "key", SecretAccessKey: "secret", AccountID: account}, nil
		})
	})
	for _, account = range []string{"123456789012", "210987654321", ""} {
		for _, c := range []client{bySDK, byLean} {
			if _, err := c.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("t"), Key: map[string]types.AttributeValue{}}); err != nil {
				t.Fatal(err)
			}
		}
		if got.got.URL.String() != want.got.URL.String() || !strings.Contains(got.got.URL.Host, account) {
			t.Errorf("%s: %s, by the SDK %s", account, got.got.URL, want.got.URL)
		}
	}
}
