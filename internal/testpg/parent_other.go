//go:build !linux

package testpg

import "syscall"

// endWithParent does nothing: only Linux tells a process that its parent died.
func endWithParent(*syscall.SysProcAttr) {}
