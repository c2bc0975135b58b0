package entity

// Len is the number of entities in memory.
func (r *Runtime[C, S, R]) Len() int { entities, _ := r.Size(); return entities }

// Pending is how many commands wait for an answer.
func (r *Runtime[C, S, R]) Pending() int { _, pending := r.Size(); return pending }
