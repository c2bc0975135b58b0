package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/sharded"
)

// OpenURL opens dynamodb:?layout=commit&table=annals, for annals.Openers. Parameters: layout (commit, the default, or
// sharded), region, endpoint, connections, create (true creates missing tables); for commit table and index (the name of one
// for queries across entities); for sharded shards, journal, snapshot and state, the names of its tables. Credentials come
// from the SDK's own chain.
func (o Options) OpenURL(ctx context.Context, u *url.URL) (annals.Store, error) {
	p := parameters{left: u.Query()}
	c := ClientOptions{Region: p.text("region"), Endpoint: p.text("endpoint"), MaxConnections: p.number("connections")}
	o.CreateTables = o.CreateTables || p.flag("create")
	if o.MaxInFlight == 0 {
		o.MaxInFlight = c.MaxConnections
	}
	var layout Layout
	switch name := p.text("layout"); name {
	case "", "commit":
		layout = commit.Layout{Table: p.text("table"), Index: p.text("index")}
	case "sharded":
		layout = sharded.Layout{ShardCount: p.number("shards"), Journal: sharded.Journal{Table: p.text("journal")},
			Snapshot: sharded.Snapshot{Table: p.text("snapshot")}, State: sharded.State{Table: p.text("state")}}
	default:
		p.faults = append(p.faults, fmt.Errorf("there is no layout %q", name))
	}
	for name := range p.left {
		p.faults = append(p.faults, fmt.Errorf("there is no parameter %q", name))
	}
	if u.Host != "" || u.Path != "" || u.Opaque != "" {
		p.faults = append(p.faults, errors.New("there is something between dynamodb: and the parameters"))
	}
	if err := errors.Join(p.faults...); err != nil {
		return nil, &annals.Error{Op: "open", Kind: annals.ErrInvalid, Err: err}
	}
	client, err := NewClient(ctx, c)
	if err != nil {
		return nil, err
	}
	return Open(ctx, client, layout, o)
}

// parameters are those of a URL that nobody has asked for yet, and what is wrong with the others.
type parameters struct {
	left   url.Values
	faults []error
}

func (p *parameters) text(name string) string {
	v := p.left.Get(name)
	p.left.Del(name)
	return v
}

func (p *parameters) number(name string) int {
	text := p.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		p.faults = append(p.faults, fmt.Errorf("%s is %q, not a number above 0", name, text))
	}
	return n
}

func (p *parameters) flag(name string) bool {
	text := p.text(name)
	if text == "" {
		return false
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		p.faults = append(p.faults, fmt.Errorf("%s is %q, not true or false", name, text))
	}
	return b
}
