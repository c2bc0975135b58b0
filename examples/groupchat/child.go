package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// child is a server: this program in a process of its own.
type child struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer // the child stops when it is closed, and so also when this process dies
	log   *lockedBuffer
}

// lease lets the read model of a child go on soon after another one was killed.
const lease = 300 * time.Millisecond

// start starts a child on a store and returns when it listens. reads is the URL of its read model, or "".
func start(ctx context.Context, store, reads string) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{log: &lockedBuffer{}}
	c.cmd = exec.CommandContext(ctx, program, "serve", "-attached", "-listen", "127.0.0.1:0", "-store", store, "-readmodel", reads, "-lease", lease.String())
	c.cmd.Stderr = c.log
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		_ = c.cmd.Process.Kill()
		return nil, fmt.Errorf("the server did not start: %w\n%s", errors.Join(err, c.cmd.Wait()), c.log)
	}
	c.url = url
	return c, nil
}

// kill ends the child as a crash does, with a signal that cannot be caught.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil {
		return err
	}
	err := c.cmd.Wait()
	if c.cmd.ProcessState.Exited() && runtime.GOOS != "windows" { // there a killed process looks like one that exited
		return fmt.Errorf("the server had ended by itself: %w\n%s", err, c.log)
	}
	return nil
}

// stop ends the child after it has answered the requests that it accepted.
func (c *child) stop() error {
	if err := errors.Join(c.stdin.Close(), c.cmd.Wait()); err != nil {
		return fmt.Errorf("the server did not stop in order: %w\n%s", err, c.log)
	}
	return nil
}

// end makes sure that the child has ended.
func (c *child) end() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

// lockedBuffer collects the log of a child while others may read it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
