// Package claims says which claims of a store each feature of the hosts needs.
package claims

import (
	"errors"
	"reflect"
	"strings"

	"github.com/annals-go/annals"
)

// Feature is what a program asks of a host, and a store may not have.
type Feature struct {
	Name   string   // as in the table of docs/claims.md, and in errors
	Needs  []string // fields of annals.Capabilities, all of them; a "!" says that the field must be false
	Unless string   // the option with which a program accepts a store that lacks them; "" when there is none
}

// The features. A host asks for them when it is made; CommandKeys and DeletedState are not known before a command is given.
var (
	Events       = Feature{"an event-sourced behavior", []string{"Events"}, ""}
	States       = Feature{"a durable-state behavior", []string{"States"}, ""}
	Snapshots    = Feature{"SnapshotEvery", []string{"Snapshots"}, ""}
	DeleteEvents = Feature{"DeleteEvents", []string{"FenceAfterDelete"}, "SingleOwner"}
	Retention    = Feature{"Projections of DeleteEvents", []string{"Offsets"}, ""}
	Stored       = Feature{"EvolveStored", []string{"!Limits.FirstSnapshot"}, ""}
	Times        = Feature{"times of EvolveStored", []string{"Times"}, "MayDrop"}
	Tags         = Feature{"Tags", []string{"Tags"}, "MayDrop"}
	Metadata     = Feature{"Metadata of events", []string{"Metadata"}, "MayDrop"}
	StateInfo    = Feature{"Metadata of states", []string{"StateMetadata"}, "MayDrop"}
	CommandKeys  = Feature{"a command with a key", []string{"States"}, ""}
	DeletedState = Feature{"a decision to delete a state", []string{"DeletesStates"}, ""}

	EventFeed       = Feature{"a feed of events", []string{"Events", "EventQueries"}, ""}
	StateFeed       = Feature{"a feed of states", []string{"States", "StateQueries"}, ""}
	TagFeed         = Feature{"a feed by tag", []string{"TagQueries"}, ""}
	SnapshotFeed    = Feature{"a feed that begins with snapshots", []string{"Events", "EventQueries", "SnapshotQueries"}, ""}
	IDFeed          = Feature{"a feed of ids", []string{"IDQueries"}, ""}
	Projection      = Feature{"the positions of a projection", []string{"Offsets", "States"}, ""}
	CleanedEvents   = Feature{"deleting events in bulk", []string{"Events"}, ""}
	CleanedSnapshot = Feature{"deleting snapshots in bulk", []string{"Snapshots"}, ""}
	CleanedBeside   = Feature{"deleting events in bulk beside writers", []string{"FenceAfterDelete"}, "NoWriters"}
	Cleaned         = Feature{"deleting up to what projections have handled", []string{"Offsets"}, ""}
	SubjectKeys     = Feature{"keys of subjects", []string{"States", "DeletesStates"}, ""}
	Lease           = Feature{"a lease", []string{"States"}, ""}
	Calendar        = Feature{"timers", []string{"States"}, ""}
)

// All are the features, in the order of docs/claims.md.
var All = []Feature{
	Events, States, Snapshots, DeleteEvents, Retention, Stored, Times, Tags, Metadata, StateInfo, CommandKeys, DeletedState,
	EventFeed, StateFeed, TagFeed, SnapshotFeed, IDFeed, Projection, CleanedEvents, CleanedSnapshot, CleanedBeside, Cleaned, SubjectKeys, Lease, Calendar,
}

// Informative are the fields of annals.Capabilities that no feature needs, with the reason.
var Informative = map[string]string{
	"CommitSnapshot":  "hosts save snapshots after the commit",
	"ManySnapshots":   "without the claim KeepSnapshots is 1",
	"EventTimes":      "hosts leave NewEvent.Time to the store",
	"StateEvents":     "hosts write no StateWrite.Event; the store refuses one",
	"IdempotentState": "without the claim a host does not repeat a write whose answer is lost: ErrUnknown",
	"Repeatable":      "without the claim a host does not repeat a write whose answer is lost: ErrUnknown",
	"GuardsReads":     "hosts read and write one entity at a time",
	"SpreadSlices":    "runners of projections ask which ranges suit the store",
	"Lateness":        "followers look back so far",
	"Limits":          "writes are checked one by one; EvolveStored needs that FirstSnapshot is false",
}

// Missing is nil when c has the claims that f needs. Otherwise it says what is missing and how to get it.
func (f Feature) Missing(c annals.Capabilities) error {
	var lacks []string
	for _, claim := range f.Needs {
		if has(c, claim) {
			continue
		}
		if name, negated := strings.CutPrefix(claim, "!"); negated {
			lacks = append(lacks, "has "+name)
		} else {
			lacks = append(lacks, "does not claim "+name)
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	text := f.Name + ": the store " + strings.Join(lacks, " and ") + "; docs/claims.md says which stores and settings have what is missing"
	if f.Unless != "" {
		text += ", and when to accept this one with Options." + f.Unless
	}
	return errors.New(text)
}

// Refusal is nil when c has the claims of all features. Otherwise it is ErrUnsupported of the operation op.
func Refusal(op string, c annals.Capabilities, features ...Feature) error {
	var lacks []error
	for _, f := range features {
		lacks = append(lacks, f.Missing(c))
	}
	if err := errors.Join(lacks...); err != nil {
		return &annals.Error{Op: op, Kind: annals.ErrUnsupported, Err: err}
	}
	return nil
}

// has reports whether c has what one of Feature.Needs names.
func has(c annals.Capabilities, claim string) bool {
	name, negated := strings.CutPrefix(claim, "!")
	v := reflect.ValueOf(c)
	for part := range strings.SplitSeq(name, ".") {
		v = v.FieldByName(part)
	}
	return v.Bool() != negated
}
