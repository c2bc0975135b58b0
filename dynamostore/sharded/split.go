package sharded

import (
	"regexp"
	"strings"
)

// split divides an id as the JVM does: when it contains the separator literally, by the separator as a regular expression,
// without the empty pieces at the end.
func split(id string, s Sharding) (pieces []string, divided bool) {
	if !strings.Contains(id, s.Separator) {
		return nil, false
	}
	if s.pattern == nil {
		pieces = strings.Split(id, s.Separator)
	} else {
		pieces = s.pattern.Split(id, -1)
	}
	for len(pieces) > 0 && pieces[len(pieces)-1] == "" {
		pieces = pieces[:len(pieces)-1]
	}
	return pieces, true
}

// pattern is nil for a separator without special characters.
func pattern(separator string) (*regexp.Regexp, error) {
	if regexp.QuoteMeta(separator) == separator {
		return nil, nil
	}
	return regexp.Compile(separator)
}
