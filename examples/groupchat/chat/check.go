package chat

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what users may write.
const (
	maxIDBytes   = 100
	maxNameBytes = 100
	maxTextBytes = 4000
)

// Check returns what is wrong with c for any thread: nil or a Rejection.
func Check(c Command) error {
	if !ValidID(c.executor()) {
		return ErrBadID
	}
	switch c := c.(type) {
	case Create:
		return unless(validText(c.Name, maxNameBytes), ErrBadName)
	case Rename:
		return unless(validText(c.Name, maxNameBytes), ErrBadName)
	case AddMember:
		if !ValidID(c.Account) {
			return ErrBadID
		}
		return unless(c.Role == Member || c.Role == Admin, ErrBadRole)
	case RemoveMember:
		return unless(ValidID(c.Account), ErrBadID)
	case Post:
		if !ValidID(c.ID) {
			return ErrBadID
		}
		return unless(validText(c.Text, maxTextBytes), ErrBadText)
	case Edit:
		if !ValidID(c.ID) {
			return ErrBadID
		}
		return unless(validText(c.Text, maxTextBytes), ErrBadText)
	case DeleteMessage:
		return unless(ValidID(c.ID), ErrBadID)
	case MarkRead:
		return unless(c.Position >= 1, ErrBadPosition)
	case List:
		return unless(c.After >= 0 && c.Limit >= 1, ErrBadPage)
	}
	return nil
}

// ValidID reports whether s can name a thread, an account or a message.
func ValidID(s string) bool {
	return validText(s, maxIDBytes) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// validText reports whether s can be stored: not every store accepts U+0000.
func validText(s string, most int) bool {
	return strings.TrimSpace(s) != "" && len(s) <= most && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

func unless(ok bool, rejection *Rejection) error {
	if ok {
		return nil
	}
	return rejection
}
