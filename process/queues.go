package process

import (
	"errors"
	"sync"

	"github.com/annals-go/annals/internal/panics"
)

// queues are jobs by who gets them.
type queues[J any] map[string][]J

func (q queues[J]) add(key string, j J) { q[key] = append(q[key], j) }

// run calls do for each job: for those of a queue in their order, and for at most n queues at the same time. When do fails or panics, failed gets
// this job and those behind it in its queue, and returns those for which do is called nevertheless; failed is not called concurrently, and nil
// returns none. run returns the errors joined.
func (q queues[J]) run(n int, do func(key string, j J) error, failed func(jobs []J, err error) []J) error {
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
	work := func() {
		key, left := "", []J(nil) // the queue that is worked on
		for ended := false; !ended; {
			// A goroutine serves many jobs, because a new one has to make its stack larger several times.
			err := panics.Contain("run process", "", func() error {
				for !ended {
					for ; len(left) > 0; left = left[1:] {
						if err := do(key, left[0]); err != nil {
							return err
						}
					}
					var more bool
					key, more = <-keys
					left, ended = q[key], !more
				}
				return nil
			})
			if err != nil {
				mu.Lock()
				all = append(all, err)
				if failed != nil {
					left = failed(left, err)
				} else {
					left = nil
				}
				mu.Unlock()
			}
		}
	}
	for range min(n, len(q)) {
		wait.Go(work)
	}
	wait.Wait()
	return errors.Join(all...)
}
