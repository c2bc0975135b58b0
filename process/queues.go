package process

import (
	"context"
	"errors"
	"sync"
)

// queues are jobs by who gets them.
type queues[J any] map[string][]J

func (q queues[J]) add(key string, j J) { q[key] = append(q[key], j) }

// run calls do for each queue, at most n at the same time. It returns the errors joined.
func (q queues[J]) run(ctx context.Context, n int, do func(ctx context.Context, key string, jobs []J) error) error {
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		all  []error
		free = make(chan struct{}, n)
	)
	for key, jobs := range q {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			if err := do(ctx, key, jobs); err != nil {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(all...)
}
