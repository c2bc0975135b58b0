package child

import "sync"

// One is a server that everybody in this process shares. It is started when it is first asked for.
type One[S interface{ Stop() }] struct {
	mu      sync.Mutex
	server  S
	started bool
}

// Get is the server, from start where it does not run yet. A start that failed is tried again by the next Get.
func (o *One[S]) Get(start func() (S, error)) (S, error) {
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

// Stop stops the server if it runs.
func (o *One[S]) Stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.started {
		o.server.Stop()
		o.started = false
	}
}
