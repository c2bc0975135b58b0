package entity

import "slices"

// mailbox is the queue of the commands of one entity that have not been decided, in the order of their waitingCommand. Its memory
// stays within a few times what the waiting commands need.
type mailbox[C, S, R any] struct {
	commands []*command[C, S, R]
	head     int
}

func (m *mailbox[C, S, R]) len() int { return len(m.commands) - m.head }

// front is the command that pop returns next, nil when there is none.
func (m *mailbox[C, S, R]) front() *command[C, S, R] {
	if m.len() == 0 {
		return nil
	}
	return m.commands[m.head]
}

// push reuses the memory of commands that were popped before it allocates: a mailbox that is never empty must not grow.
func (m *mailbox[C, S, R]) push(c *command[C, S, R]) {
	if len(m.commands) == cap(m.commands) && m.head > len(m.commands)/2 {
		m.move(m.commands)
	}
	m.commands = append(m.commands, c)
}

func (m *mailbox[C, S, R]) pop() *command[C, S, R] {
	c := m.commands[m.head]
	m.commands[m.head] = nil
	m.head++
	switch n := m.len(); {
	case cap(m.commands) > keptCapacity && n < cap(m.commands)/8: // shrink after many have waited
		m.move(make([]*command[C, S, R], max(2*n, keptCapacity)))
	case n == 0:
		m.commands, m.head = m.commands[:0], 0
	}
	return c
}

// shrink frees the memory of an empty mailbox in which several commands have waited.
func (m *mailbox[C, S, R]) shrink() {
	if cap(m.commands) > 4 {
		*m = mailbox[C, S, R]{}
	}
}

// move copies the commands to the beginning of to and makes it the memory of m.
func (m *mailbox[C, S, R]) move(to []*command[C, S, R]) {
	n := copy(to, m.commands[m.head:])
	clear(to[n:])
	m.commands, m.head = to[:n], 0
}

// drop removes the commands for which gone is true.
func (m *mailbox[C, S, R]) drop(gone func(c *command[C, S, R]) bool) {
	m.commands = m.commands[:m.head+len(slices.DeleteFunc(m.commands[m.head:], gone))]
	if m.len() == 0 {
		m.shrink()
	}
}

// pushFront puts commands before all others.
func (m *mailbox[C, S, R]) pushFront(commands ...*command[C, S, R]) {
	m.commands, m.head = slices.Concat(commands, m.commands[m.head:]), 0
}

// takeAll empties m.
func (m *mailbox[C, S, R]) takeAll() []*command[C, S, R] {
	all := m.commands[m.head:]
	*m = mailbox[C, S, R]{}
	return all
}
