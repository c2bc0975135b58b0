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
	digits := make([]byte, 0, 36) // strings.ReplaceAll would allocate
	if len(text) == cap(digits) {
		for part := range strings.SplitSeq(text, "-") {
			digits = append(digits, part...)
		}
	}
	if len(digits) == 32 {
		_, err = hex.Decode(w[:], digits)
	}
	if len(digits) != 32 || err != nil {
		return annals.WriteID{}, fmt.Errorf("annals: %s is not a UUID", quote.Text(text))
	}
	return w, nil
}
