package behavior

import "github.com/annals-go/annals"

// Result is what a host answers to a command.
type Result[R any] struct {
	Reply R
	SeqNr annals.SeqNr // of the entity after the command: the number of its last event, or the revision of its durable state. An ETag
}
