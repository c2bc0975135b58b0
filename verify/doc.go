// Package verify finds what is damaged in a store: lost and doubled events, snapshots and states that cannot be read, rows where no query looks
// for them, positions of projections ahead of what exists, and payloads that no codec of the program reads.
//
//	for step, err := range verify.Store(ctx, store, verify.Options{}) {
//		if err != nil {
//			return err // to go on later: verify.Options{After: last.After}
//		}
//		for _, f := range step.Found {
//			fmt.Println(f.ID, f.Code, f.Kind().Means)
//		}
//	}
//
// It works on every store that is an ability.Checker, beside writers: what may be a write in progress is looked at twice. It reads everything at least
// once, and on DynamoDB scans the tables, too. Kinds is the table of what is found.
package verify
