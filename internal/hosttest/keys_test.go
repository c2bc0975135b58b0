package hosttest

import (
	"testing"

	"github.com/annals-go/annals/memstore"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	Keys(t, s, s)
}
