// Package quote shortens what errors say of values that a caller chose: a wrong id, tag or name may be of any length.
package quote

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Text returns s in quotes, cut after 256 bytes.
func Text(s string) string {
	const most = 256
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%q… (%d bytes)", Cut(s, most), len(s))
}

// Cut returns at most the first n bytes of s, without half a character at the end.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for back := 0; back < utf8.UTFMax && n > 0 && !utf8.RuneStart(s[n]); back++ {
		n--
	}
	return s[:n]
}
