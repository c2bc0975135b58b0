package writes

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/quote"
)

// ParseID reads the text form of an annals.WriteID, a UUID.
func ParseID(text string) (w annals.WriteID, err error) {
	digits := strings.ReplaceAll(text, "-", "")
	if len(text) != 36 || len(digits) != 32 {
		return annals.WriteID{}, fmt.Errorf("annals: %s is not a UUID", quote.Text(text))
	}
	if _, err := hex.Decode(w[:], []byte(digits)); err != nil {
		return annals.WriteID{}, fmt.Errorf("annals: %s is not a UUID", quote.Text(text))
	}
	return w, nil
}
