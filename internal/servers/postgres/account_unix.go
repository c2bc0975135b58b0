//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account returns the attributes of the server's processes: for root they name the user postgres.
func account() (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() != 0 {
		return attr, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w (Debian: apt-get install -y postgresql creates the user)", err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr, errors.Join(uidErr, gidErr)
}

// owner is the account that attr names, if it names one.
func owner(attr *syscall.SysProcAttr) (uid, gid int, other bool) {
	if attr.Credential == nil {
		return 0, 0, false
	}
	return int(attr.Credential.Uid), int(attr.Credential.Gid), true
}
