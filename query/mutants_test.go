package query_test

import (
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/internal/random"
)

// The model finds feeds and workers that do one thing wrong.
func TestModelFindsMutants(t *testing.T) {
	t.Parallel()
	for name, lies := range map[string]late.Lies{
		"drops the window":                       {InOrder: true},
		"trusts the clock":                       {Now: true},
		"ignores holes":                          {NoHoles: true},
		"resumes at the head":                    {Newest: true},
		"forgets what it handled beyond Through": {Beyond: true},
		"goes on from the beginning":             {Start: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for r := range random.Rounds(t, modelRuns) {
				var err error
				synctest.Test(t, func(t *testing.T) {
					m := newModel(r)
					m.lies = lies
					err = m.run(t.Context())
				})
				if err != nil {
					t.Log(err)
					return
				}
			}
			t.Error("not found")
		})
	}
}
