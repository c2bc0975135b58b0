package sealed

const MaxCached = maxCached

// Cached is how many subjects k has in memory.
func Cached(k *Keys) int {
	k.cache.mu.Lock()
	defer k.cache.mu.Unlock()
	return len(k.cache.rings)
}
