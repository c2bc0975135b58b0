package driver_test

import (
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

func TestParseWriteID(t *testing.T) {
	t.Parallel()
	w := annals.NewWriteID()
	if back, err := driver.ParseWriteID(w.String()); err != nil || back != w {
		t.Errorf("%s reads as %s, %v", w, back, err)
	}
	for _, bad := range []string{"", "x", strings.Repeat("-", 36), strings.Repeat("z", 32) + "----"} {
		if _, err := driver.ParseWriteID(bad); err == nil {
			t.Errorf("%q was read as a UUID", bad)
		}
	}
}
