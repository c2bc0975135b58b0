package quote_test

import (
	"strings"
	"testing"

	"github.com/annals-go/annals/internal/quote"
)

func TestText(t *testing.T) {
	t.Parallel()
	if got, want := quote.Text("a\x00"), `"a\x00"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := quote.Text(strings.Repeat("é", 200)), `"`+strings.Repeat("é", 128)+`"… (400 bytes)`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
