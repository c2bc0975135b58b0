package child

import "syscall"

// endWithParent has the kernel send signal to the process when the thread that started it ends.
func endWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }
