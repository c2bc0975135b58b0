package pgstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
)

// cart is a state of the golden tables.
type cart struct {
	Title string `json:"title"`
	Total int64  `json:"total"`
}

// bindCart is what the plugin's columns did: an empty title is NULL, a negative total leaves the column as it is.
func bindCart(s annals.State) (annals.Columns, error) {
	var c cart
	if err := json.Unmarshal(s.Data, &c); err != nil {
		return nil, err
	}
	columns := annals.Columns{"title": nil}
	if c.Title != "" {
		columns["title"] = c.Title
	}
	if c.Total >= 0 {
		columns["total"] = c.Total
	}
	return columns, nil
}

var errRefused = errors.New("the handler refuses")

// onCart is the plugin's change handler: a row for every change, an error where the title says so.
func onCart(ctx context.Context, tx pgx.Tx, s annals.State) error {
	kind, title := "deleted", (*string)(nil)
	if !s.Deleted {
		var c cart
		if err := json.Unmarshal(s.Data, &c); err != nil {
			return err
		}
		kind, title = "updated", &c.Title
		if strings.HasPrefix(c.Title, "fail") {
			return errRefused
		}
	}
	_, err := tx.Exec(ctx, `INSERT INTO cart_changes (persistence_id, kind, revision, title, seen_offset, seen_timestamp) VALUES ($1, $2, $3, $4, 'NoOffset', 0)`,
		string(s.ID), kind, int64(s.Revision), title)
	return err
}
