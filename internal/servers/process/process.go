// Package process starts database servers for tests and measurements, as child processes that end when their parent ends.
package process

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a running child process.
type Process struct {
	cmd    *exec.Cmd
	signal syscall.Signal
	ended  chan struct{}
}

// Start starts cmd. Stop ends the process with the given signal. On Linux the kernel sends the same signal when the parent ends
// without calling Stop, for example after a panic.
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
		// The kernel sends the signal when the thread that started the process ends, so this thread must live as long as the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit status of a stopped server says nothing new
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Ended returns a channel that is closed when the process has ended and all its output has been read.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Stop ends the process and waits until it has ended.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(p.signal) // an error means that the process has already ended
	<-p.ended
}
