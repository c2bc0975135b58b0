package storetest

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// record runs f with a testing.TB that records failures, and returns the failures.
func record(tb testing.TB, f func(tb testing.TB)) []string {
	r := &recorder{TB: tb}
	done := make(chan struct{})
	go func() { // because FailNow ends its goroutine
		defer close(done)
		f(r)
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.failures)
}

// recorder is a testing.TB that records failures instead of failing the test.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
}

func (r *recorder) fail(message string) {
	where := ""
	if _, file, line, ok := runtime.Caller(2); ok {
		where = fmt.Sprintf("%s:%d: ", filepath.Base(file), line)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, where+message)
}

func (r *recorder) Error(args ...any)                 { r.fail(fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }
func (r *recorder) Fail()                             { r.fail("failed") }
func (r *recorder) FailNow()                          { r.fail("failed"); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.fail(fmt.Sprint(args...)); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) {
	r.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}
