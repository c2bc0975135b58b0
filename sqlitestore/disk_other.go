//go:build !linux && !darwin

package sqlitestore

// disk does not know the disks of this system.
func disk(string) (free uint64, network, ok bool) { return 0, false, false }
