package process

import "sync"

// Singleton is a server that all tests of one program share. The first call of Get starts it. The zero value is ready for use, and
// its methods may be called from many goroutines at once.
type Singleton[S interface{ Stop() }] struct {
	mu      sync.Mutex
	server  S
	started bool
}

// Get returns the running server, or calls start and returns the new one. When start fails, the next Get calls start again.
func (o *Singleton[S]) Get(start func() (S, error)) (S, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.started {
		return o.server, nil
	}
	s, err := start()
	if err == nil {
		o.server, o.started = s, true
	}
	return s, err
}

// Stop stops the server if it is running.
func (o *Singleton[S]) Stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.started {
		o.server.Stop()
		o.started = false
	}
}
