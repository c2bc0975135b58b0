package dynamostore

import (
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Steady returns c with the wrapper of request bodies.
func Steady(c aws.HTTPClient) aws.HTTPClient { return steady{c} }

// FromURL returns the settings of a URL.
func FromURL(o Options, u *url.URL) (any, error) { return o.fromURL(u) }

// OptionsOf returns the Options in the settings that FromURL has returned.
func OptionsOf(s any) Options { return s.(settings).store }

// SetBack sets the clock of s back.
func SetBack(s *Store, by time.Duration) { s.engine.behind = by }
