// Package child starts the servers of tests and measurements as processes that end with the one that started them.
package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a running child.
type Process struct {
	cmd    *exec.Cmd
	signal syscall.Signal
	ended  chan struct{}
}

// Start starts cmd. signal is what ends it: Stop sends it, and on Linux the kernel does when this process dies without
// stopping its child, in a panic for example.
func Start(cmd *exec.Cmd, signal syscall.Signal) (*Process, error) {
	var attr syscall.SysProcAttr
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr
	}
	endWithParent(&attr, signal)
	cmd.SysProcAttr = &attr
	p := &Process{cmd: cmd, signal: signal, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.ended)
		// The signal comes when the thread ends that started the process: it has to live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // that it was told to end is no news
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Ended is closed when the process has ended and all its output been written.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Stop ends the process and waits for that.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(p.signal) // it may have ended by itself
	<-p.ended
}
