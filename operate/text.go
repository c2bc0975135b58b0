package operate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// clean is text without characters that act on a terminal: control characters but newlines, and those that are invisible or change the direction of
// the text, are escaped as in Go.
func clean(text string) string {
	return escape(text, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) })
}

// cleanJSON is clean for JSON without spaces.
func cleanJSON(text string) string {
	return escape(text, func(r rune) string {
		return fmt.Sprintf(`\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
	})
}

// escape escapes characters, and those above U+FFFF with wide.
func escape(text string, wide func(r rune) string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !strconv.IsPrint(r) && r != '\n' }) < 0 {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case strconv.IsPrint(r) || r == '\n':
			b.WriteRune(r)
		case r > 0xffff:
			b.WriteString(wide(r))
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// line is clean without newlines, and cut after most characters.
func line(text string, most int) string {
	rest := text
	if len(rest) > most*utf8.UTFMax {
		rest = rest[:most*utf8.UTFMax]
	}
	rest = strings.ReplaceAll(clean(rest), "\n", `\n`)
	if n := utf8.RuneCountInString(rest); n > most || len(rest) < len(text) {
		return string([]rune(rest)[:min(n, most)]) + fmt.Sprintf("… (%d bytes)", len(text))
	}
	return rest
}

// name is an id, a tag or a name as one word.
func name(text string) string { return line(text, 300) }

// shell is text as a word of a shell such as bash. Words with characters that are not printable are in $'…'.
func shell(text string) string {
	plain := text != "" && strings.IndexFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@,+", r))
	}) < 0
	switch cleaned := strings.ReplaceAll(clean(text), "\n", `\n`); {
	case len(text) > 4096:
		return "…" // an id that no shell should be given
	case plain:
		return text
	case cleaned != text:
		escaped := clean(strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(text))
		return "$'" + escaped + "'"
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// at is a time as it is shown; "-" where the store does not keep times.
func at(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// count is "1 event", "2 events".
func count[T ~int | ~int64](n T, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
