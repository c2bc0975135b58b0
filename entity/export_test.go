package entity

// Len is the number of entities in memory.
func (r *Runtime[C, S, R]) Len() int { return r.Stats().Entities }

// Pending is how many commands wait for an answer.
func (r *Runtime[C, S, R]) Pending() int { return r.Stats().Pending }
