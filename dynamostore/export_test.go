package dynamostore

import (
	"context"
	"net/url"
	"time"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/stream"
	"github.com/aws/aws-sdk-go-v2/aws"
)

// CloudFormationOf and TerraformOf are texts of a Schema.
var CloudFormationOf, TerraformOf = cloudFormation, terraform

// Steady returns c with the wrapper of request bodies.
func Steady(c aws.HTTPClient) aws.HTTPClient { return steady{c} }

// FromURL returns the settings of a URL.
func FromURL(o Options, u *url.URL) (any, error) { return o.fromURL(u) }

// OptionsOf returns the Options in the settings that FromURL has returned.
func OptionsOf(s any) Options { return s.(settings).store }

// SetClock makes at the time of s.
func SetClock(s *Store, at time.Time) { s.engine.clock = func() time.Time { return at } }

// SetBack sets the clock of s back.
func SetBack(s *Store, by time.Duration) {
	s.engine.clock = func() time.Time { return time.Now().Add(-by) }
}

// Streams returns the client with which s reads streams.
func (s *Store) Streams(c StreamsClient) stream.Client { return streams{s.engine, c} }

// NewStreams returns a client that reads streams through c as a store does.
func NewStreams(c StreamsClient) stream.Client {
	return streams{&engine{clock: time.Now, slots: make(chan struct{}, 1), attempts: defaultAttempts}, c}
}

// StreamOf is the engine's.
func (s *Store) StreamOf(ctx context.Context, table string) (string, error) {
	return s.engine.streamOf(ctx, table)
}

// Feed is the layout's.
func (s *Store) Feed() *plan.Feed { return s.offer.Feed }

// Executor sends the requests of s.
func (s *Store) Executor() plan.Executor { return s.engine }
