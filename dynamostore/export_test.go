package dynamostore

import (
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Steady shows the request-body wrapper to the tests.
func Steady(c aws.HTTPClient) aws.HTTPClient { return steady{c} }

// FromURL shows to the tests what a URL says.
func FromURL(o Options, u *url.URL) (any, error) { return o.fromURL(u) }

// OptionsOf are the Options in what FromURL has returned.
func OptionsOf(s any) Options { return s.(settings).store }

// SetBack sets the clock of s back.
func SetBack(s *Store, by time.Duration) { s.engine.behind = by }
