//go:build !unix

package postgres

import "syscall"

// account returns the attributes of the server's processes, which have the account of the caller.
func account() (*syscall.SysProcAttr, error) { return &syscall.SysProcAttr{}, nil }

func owner(*syscall.SysProcAttr) (uid, gid int, other bool) { return 0, 0, false }
