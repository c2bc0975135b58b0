package plan

import "iter"

// inBatch is the most items of a batch.
const inBatch = 100

// Batches calls do for the items found, some at a time, so that not all are in memory. The slice is do's own.
func Batches(found iter.Seq2[Item, error], do func(items []Item) error) error {
	var items []Item
	for it, err := range found {
		if err != nil {
			return err
		}
		if items = append(items, it); len(items) == inBatch {
			if err := do(items); err != nil {
				return err
			}
			items = nil
		}
	}
	if len(items) == 0 {
		return nil
	}
	return do(items)
}
