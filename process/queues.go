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
		keys = make(chan string, len(q))
	)
	for key := range q {
		keys <- key
	}
	close(keys)
	for range min(n, len(q)) {
		wait.Go(func() {
			for key := range keys {
				if err := do(ctx, key, q[key]); err != nil {
					mu.Lock()
					all = append(all, err)
					mu.Unlock()
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(all...)
}
