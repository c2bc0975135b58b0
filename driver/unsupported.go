package driver

import "github.com/annals-go/annals"

// Unsupported is an annals.Store that refuses everything. Embed it in a Driver for the contracts that the backend lacks, also those that
// later versions add.
type Unsupported struct{}

// refusing claims nothing, so nothing of its Driver is called.
var refusing = &Store{}

// Journal is a Journal that refuses everything.
func (Unsupported) Journal() annals.Journal { return journal{s: refusing} }

// Snapshots is a SnapshotStore that refuses everything.
func (Unsupported) Snapshots() annals.SnapshotStore { return snapshots{s: refusing} }

// States is a StateStore that refuses everything.
func (Unsupported) States() annals.StateStore { return states{s: refusing} }

// Query is a Query that refuses everything.
func (Unsupported) Query() annals.Query { return query{s: refusing} }

// Offsets is an OffsetStore that refuses everything.
func (Unsupported) Offsets() annals.OffsetStore { return offsets{s: refusing} }

// Capabilities claim nothing.
func (Unsupported) Capabilities() annals.Capabilities { return annals.Capabilities{} }

// Close does nothing.
func (Unsupported) Close() error { return nil }
