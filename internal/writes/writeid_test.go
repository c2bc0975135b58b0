package writes

import (
	"strings"
	"testing"

	"github.com/annals-go/annals"
)

func TestParseID(t *testing.T) {
	t.Parallel()
	w := annals.NewWriteID()
	if back, err := ParseID(w.String()); err != nil || back != w {
		t.Errorf("%s reads as %s, %v", w, back, err)
	}
	for _, bad := range []string{"", "x", strings.Repeat("-", 36), strings.Repeat("z", 32) + "----"} {
		if _, err := ParseID(bad); err == nil {
			t.Errorf("%q was read as a UUID", bad)
		}
	}
}
