package sharded

import (
	"regexp"
	"strings"
)

// split divides an id as the JVM does: if the id contains the separator literally, the separator as a regular expression divides the id, and
// empty pieces at the end are dropped.
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

// pattern compiles a separator. It returns nil for one without special characters.
func pattern(separator string) (*regexp.Regexp, error) {
	if regexp.QuoteMeta(separator) == separator {
		return nil, nil
	}
	return regexp.Compile(separator)
}
