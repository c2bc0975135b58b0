package ability

import (
	"context"
)

// HealthChecker is an optional ability of a Store.
type HealthChecker interface {
	// CheckHealth asks whether the store can be read and written now, and changes nothing. nil says that it can. An error names what
	// cannot be done: ErrUnavailable when that may pass by itself, such as a server that does not answer, and ErrInvalid when an
	// operator has to act, such as a missing right. It is cheap enough to be called every few seconds; on DynamoDB it costs one read unit and one
	// write unit.
	CheckHealth(ctx context.Context) error
}
