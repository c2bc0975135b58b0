package plan

import "iter"

// inBatch is the most items of a batch.
const inBatch = 100

// Batches calls do for what is found, some at a time, so that not all is in memory. The slice is do's own.
func Batches[T any](found iter.Seq2[T, error], do func(items []T) error) (err error) {
	values := func(yield func(T) bool) {
		for v, failed := range found {
			if err = failed; err != nil || !yield(v) {
				return
			}
		}
	}
	for items := range Chunks(values, inBatch) {
		if err == nil {
			err = do(items)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// Chunks yields the values of all, in slices of up to size. A slice is the caller's own.
func Chunks[T any](all iter.Seq[T], size int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		var chunk []T
		for v := range all {
			if chunk == nil {
				chunk = make([]T, 0, size)
			}
			if chunk = append(chunk, v); len(chunk) == size {
				if !yield(chunk) {
					return
				}
				chunk = nil
			}
		}
		if len(chunk) > 0 {
			yield(chunk)
		}
	}
}

// Picked yields what pick makes of the values of all, without those for which it returns false. The first error ends the sequence.
func Picked[T, U any](all iter.Seq2[T, error], pick func(v T) (picked U, ok bool, err error)) iter.Seq2[U, error] {
	return func(yield func(U, error) bool) {
		for v, err := range all {
			var picked U
			ok := err != nil
			if err == nil {
				picked, ok, err = pick(v)
			}
			if (ok || err != nil) && !yield(picked, err) || err != nil {
				return
			}
		}
	}
}

// First returns the first value of all; false when there is none.
func First[T any](all iter.Seq2[T, error]) (first T, ok bool, err error) {
	for v, err := range all {
		return v, err == nil, err
	}
	return first, false, nil
}

// Newest returns the last item of q that read yields, which may leave some out. It reads backwards, with limit items in the first page. Between
// two pages a newer item may be stored in the part that was read, and the older one removed in the part that was not. The numbers of
// items only grow, so a second read, forwards, finds the newest.
func Newest[T any](q Query, limit int, read func(q Query) iter.Seq2[T, error]) (newest T, ok bool, err error) {
	paged := false
	back := q
	back.Backward, back.Limit, back.Paged = true, limit, func() { paged = true }
	if newest, ok, err = First(read(back)); ok || err != nil || !paged {
		return newest, ok, err
	}
	for v, err := range read(q) {
		if err != nil {
			return v, false, err
		}
		newest, ok = v, true
	}
	return newest, ok, nil
}
