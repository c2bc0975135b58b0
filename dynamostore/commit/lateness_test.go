package commit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals/dynamostore/commit"
)

func TestLateness(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		layout commit.Layout
		want   time.Duration
		fault  string
	}{
		{layout: commit.Layout{}},
		{layout: commit.Layout{Index: "slices"}, want: 30 * time.Second},
		{layout: commit.Layout{Index: "slices", Lateness: time.Minute}, want: time.Minute},
		{layout: commit.Layout{Index: "slices", Lateness: -1}, fault: "Lateness is -1ns: it must be at least 10s"},
		{layout: commit.Layout{Index: "slices", Lateness: 10*time.Second - 1}, fault: "Lateness is 9.999999999s: it must be at least 10s"},
		{layout: commit.Layout{Index: "slices", Lateness: 10 * time.Second}, want: 10 * time.Second},
		{layout: commit.Layout{Lateness: time.Minute}, fault: "Lateness has no Index"},
	} {
		offer, err := c.layout.Plan()
		switch {
		case c.fault == "" && err != nil, c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%+v: got error %v, want %q", c.layout, err, c.fault)
		case err == nil && offer.Capabilities.Lateness != c.want:
			t.Errorf("%+v: got Lateness %v, want %v", c.layout, offer.Capabilities.Lateness, c.want)
		}
	}
}
