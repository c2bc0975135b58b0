//go:build linux || darwin

package sqlitestore

import "syscall"

// disk is what the disk of folder has free for this user, in bytes, and whether it is a network file system. ok is false where that is not known.
func disk(folder string) (free uint64, network, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, false, false
	}
	switch uint32(s.Type) { //nolint:gosec // the numbers are from linux/magic.h, and have 32 bits
	case 0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x01021997: // NFS, SMB, CIFS, SMB2, 9P
		network = true
	}
	return s.Bavail * uint64(s.Bsize), network, true //nolint:gosec // a size is positive
}
