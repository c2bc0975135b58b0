package process

import "syscall"

// endWithParent makes the kernel send signal to the new process when the thread that starts it ends.
func endWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }
