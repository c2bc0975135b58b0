package jackson

import (
	"bytes"
	"compress/gzip"
	"testing"
)

func TestInflate(t *testing.T) {
	t.Parallel()
	zipped := func(n int) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for name, c := range map[string]struct {
		data  []byte
		n     int
		fault string
	}{
		"as large as may be": {zipped(1 << 20), 1 << 20, ""},
		"too large":          {zipped(1<<20 + 1), 0, "more than 1 MiB when inflated"},
		"in many pieces":     {bytes.Repeat(zipped(1<<19), 1000), 0, "more than 1 MiB when inflated"},
		"not compressed":     {make([]byte, 2<<20), 2 << 20, ""},
		"cut":                {zipped(1000)[:15], 0, "broken gzip"},
		"a head only":        {[]byte{0x1f, 0x8b}, 0, "broken gzip"},
		"nothing":            {nil, 0, ""},
	} {
		if got, fault := inflate(c.data, 1<<20); len(got) != c.n || fault != c.fault {
			t.Errorf("%s: got %d bytes, %q, want %d, %q", name, len(got), fault, c.n, c.fault)
		}
	}
}

func FuzzInflate(f *testing.F) {
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, fault := inflate(data, 1<<20); len(got) > max(1<<20, len(data)) || fault != "" && got != nil {
			t.Errorf("got %d bytes, %q", len(got), fault)
		}
	})
}
