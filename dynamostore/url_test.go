package dynamostore_test

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/internal/testenv"
)

func TestOpenURL(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	openers := annals.Openers{"dynamodb": dynamostore.Options{}.OpenURL}
	server := "&create=true&region=us-east-1&endpoint=" + testenv.DynamoDB(t)
	prefix := "u" + rand.Text()
	for _, u := range []string{
		"dynamodb:?table=" + prefix + server,
		"dynamodb:?index=slices&table=" + prefix + "i" + server,
		"dynamodb:?layout=sharded&shards=8&connections=4&journal=" + prefix + "j&snapshot=" + prefix + "s&state=" + prefix + "d" + server,
	} {
		s, err := openers.Open(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "Thing|1-1", Events: texts("a")}); err != nil {
			t.Error(err)
		}
		if _, err := s.Query().Newest(t.Context(), annals.Filter{}); errors.Is(err, annals.ErrUnsupported) == strings.Contains(u, "index=") {
			t.Errorf("%s: %v", u, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, u := range []string{"dynamodb:?layout=none", "dynamodb:?tabel=x", "dynamodb:?connections=-1", "dynamodb:?create=perhaps", "dynamodb://host/?table=x"} {
		if _, err := openers.Open(t.Context(), u); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%s: %v", u, err)
		}
	}
}
