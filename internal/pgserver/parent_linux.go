package pgserver

import "syscall"

// endWithParent has the kernel stop the server when the test process dies without stopping it.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
