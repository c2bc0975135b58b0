package entity

// begin has e work on a goroutine of its own. That goroutine works on e.
func (e *entity[C, S, R]) begin() {
	go func() {
		growStack(-1)
		e.work()
	}()
}

// growStack makes the stack of a new goroutine as large as most commands need. That is cheap while the stack is empty: to grow it later,
// deep in the calls of a store, takes more time than the rest of the command. With i below 0 it does nothing else.
//
//go:noinline
func growStack(i int) byte {
	if i < 0 {
		return 0 // without clearing the frame
	}
	var frame [5 << 10]byte
	return frame[i]
}
