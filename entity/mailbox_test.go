package entity

import (
	"testing"
)

// The memory of a mailbox that is never empty is at most a few times what the waiting commands need.
func TestMailboxIsBounded(t *testing.T) {
	t.Parallel()
	for _, waiting := range []int{1, 10, 400} {
		var m mailbox[int, int, int]
		next, done := 0, 0
		push := func(n int) {
			for range n {
				m.push(&command[int, int, int]{value: next})
				next++
			}
		}
		pop := func(n int) {
			t.Helper()
			for range n {
				if c := m.pop(); c.value != done {
					t.Fatalf("command %d came, want %d", c.value, done)
				}
				done++
			}
		}
		most := 0
		push(waiting)
		for range 1000 {
			push(256)
			pop(256)
			most = max(most, cap(m.commands))
		}
		if limit := 4 * (waiting + 256); m.len() != waiting || most > limit {
			t.Errorf("%d wait in %d places, want %d in at most %d", m.len(), most, waiting, limit)
		}
		push(100_000)
		pop(100_000)
		if limit := 8*waiting + keptCapacity; cap(m.commands) > limit {
			t.Errorf("after many commands: %d wait in %d places, want at most %d", m.len(), cap(m.commands), limit)
		}
		for i, c := range m.commands[:cap(m.commands)] {
			if (c != nil) != (m.head <= i && i < len(m.commands)) {
				t.Fatalf("place %d of %d is kept: %v", i, cap(m.commands), c != nil)
			}
		}
	}
}

// A mailbox that is emptied again and again takes no new memory.
func TestMailboxKeepsItsMemory(t *testing.T) {
	var m mailbox[int, int, int]
	c := &command[int, int, int]{}
	if n := testing.AllocsPerRun(100, func() {
		for range keptCapacity {
			m.push(c)
		}
		for range keptCapacity {
			m.pop()
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// Dropped commands take no memory, and the others keep their order.
func TestMailboxDrop(t *testing.T) {
	var m mailbox[int, int, int]
	for range 10 {
		for i := range 1000 {
			m.push(&command[int, int, int]{value: i})
		}
		m.pop()
		m.drop(func(c *command[int, int, int]) bool { return c.value%100 != 1 })
		for i := range 10 {
			if c := m.pop(); c.value != 100*i+1 {
				t.Fatalf("command %d, want %d", c.value, 100*i+1)
			}
		}
		if m.len() != 0 || cap(m.commands) > keptCapacity {
			t.Errorf("%d commands, memory for %d", m.len(), cap(m.commands))
		}
	}
}
