package plan

import "context"

// checked is how many rows of a table a Check compares with the settings, from several parts of the table.
const checked = 256

// Check returns an error when what is stored does not fit the layout's settings. created says that the tables are new.
type Check func(ctx context.Context, x Executor, created bool) error

// Sample compares some rows of a table with the settings. It is not called without rows.
type Sample struct {
	Table string
	Fits  func(rows []Item) error
}

// Compare returns the Check of samples. New tables are empty and need no check.
func Compare(samples ...Sample) Check {
	return func(ctx context.Context, x Executor, created bool) error {
		for _, s := range samples {
			if created {
				break
			}
			rows, err := x.Scan(ctx, s.Table, checked)
			if err == nil && len(rows) > 0 {
				err = s.Fits(rows)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}
