package verify

import (
	"slices"

	"github.com/annals-go/annals/ability"
)

// What only package verify finds.
const (
	Codec    ability.Code = "codec"    // Options.Decode cannot read a payload, and its error may have a part of it; or one of the library's own is no JSON
	Position ability.Code = "position" // a projection has handled what is not there, or its position cannot be read
	Unused   ability.Code = "unused"   // what is kept for a projection, a process manager or a lease that does not exist
)

// Kind says what a code means.
type Kind struct {
	Code  ability.Code
	Means string // for readers
	Do    string // what to do next
}

// Kinds are all kinds of findings.
func Kinds() []Kind { return slices.Clone(kinds) }

var kinds = []Kind{
	{ability.Missing, "readers of the entity and its hosts get ErrCorrupt; the events that are there stay as they are", "restore the events from a backup"},
	{ability.Hole, "readers take these numbers for unused: another system left them unused, or their events are lost", "compare with a backup; Options.Strict of the store makes them errors"},
	{ability.Doubled, "a number is stored twice: readers get ErrCorrupt, or see the newer one", "find out what wrote to the tables beside Annals, and remove one"},
	{ability.Incomplete, "readers of the entity get ErrCorrupt: a part of a commit is lost", "restore the commit from a backup"},
	{ability.Unreadable, "readers of the entity get ErrCorrupt at this event, or a later version wrote it", "restore the event from a backup, or use the later version"},
	{ability.Checksum, "readers get ErrCorrupt: a row has changed since it was stored", "check the disk, and restore the row from a backup"},
	{ability.Head, "what tells the last number is lost or wrong: readers or writers get ErrCorrupt, or the other system does not find the last events", "restore the row from a backup; akka.Repair writes a lost mark"},
	{ability.Snapshot, "recoveries get ErrCorrupt, or the other system cannot read the entity", "delete the snapshot if the events before it are still there; otherwise restore it from a backup"},
	{ability.Orphan, "a recovery begins with the state of events that are not there; a part of a snapshot without the rest takes space only", "restore the events from a backup, or delete the snapshot"},
	{ability.State, "reads and writes of the state get ErrCorrupt, or it is older than the events that were stored with it", "restore the state from a backup"},
	{ability.Key, "readers, queries or followers do not find the row, or find it for another entity", "find out what wrote it, and compare the settings of the store with those of that program"},
	{ability.Index, "queries and followers do not find the row, or not at its place; readers of the entity do", "build the index again, or write the row again"},
	{ability.File, "the database finds its own file damaged", "restore a backup, and check the disk"},
	{Codec, "hosts and projections fail when they read the payload", "add the codec, or an older form of it, to the behavior"},
	{Position, "events with numbers up to this one would be left out when they are written, or the projection cannot go on", "reset the projection to a time before the loss; of one that reads another store, name that store"},
	{Unused, "what the store keeps of it takes space; timers of a process manager do not fire, and positions hold back cleanups", "run it again, or delete what is kept"},
}

// Kind is what f means.
func (f Finding) Kind() Kind {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Code == f.Code })
	if i < 0 {
		return Kind{Code: f.Code}
	}
	return kinds[i]
}
