//go:build !linux

package child

import "syscall"

// endWithParent does nothing: only Linux tells a process that its parent died.
func endWithParent(*syscall.SysProcAttr, syscall.Signal) {}
