package pgstore

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/storeurl"
)

// OpenURL opens postgres://user:password@host:port/database?schema=…&create=true. The store has a pool of its own, which Close closes.
// These parameters replace fields of o: schema, journal, snapshot, state, timestamp_offset, epoch (names of
// Tables), create, jsonb, tags_index, plugin_deletes, write_timeout, lateness, non_durable and max_events. All others are those of pgxpool.ParseConfig.
func (o Options) OpenURL(ctx context.Context, u *url.URL) (annals.Store, error) {
	config, o, err := o.fromURL(u)
	if err != nil {
		return nil, faultOf("open", invalid(err))
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, faultOf("open", err)
	}
	s, err := Open(ctx, pool, o)
	if err != nil {
		pool.Close()
		return nil, err
	}
	if s.backend.own { // with another pool
		pool.Close()
	}
	s.backend.own = true
	return s, nil
}

// fromURL returns the configuration of a pool, and o with the parameters of u that are ours.
func (o Options) fromURL(u *url.URL) (*pgxpool.Config, Options, error) {
	p := storeurl.Parse(u)
	p.Fields(&o.Tables, storeurl.NoOther)
	p.Fields(&o, func(_ *storeurl.Parameters, _ string, field any) bool { return field == &o.Tables })
	config, err := poolConfig(u, p)
	return config, o, errors.Join(p.Err(), err)
}

// poolConfig passes the remaining parameters to pgx. Its errors do not contain those of pgx, which quote the URL.
func poolConfig(u *url.URL, p *storeurl.Parameters) (*pgxpool.Config, error) {
	rest := p.Rest("those of pgxpool.ParseConfig")
	bare := url.URL{Scheme: "postgres", User: u.User, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	with := func(parameters url.Values) (*pgxpool.Config, error) {
		one := bare
		one.RawQuery = parameters.Encode()
		return pgxpool.ParseConfig(one.String())
	}
	if u.Opaque != "" || strings.Contains(u.EscapedPath(), "@") { // an @ in the path means that the password contains a /
		return nil, errors.New("the URL is postgres://user:password@host:port/database, with / ? # and @ in a password percent-encoded")
	}
	config, err := with(rest)
	told := false
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		one := config
		if err != nil { // one by one, to know which of them it is
			if one, _ = with(url.Values{name: rest[name]}); one == nil {
				p.Fault(name, "has a value that pgx does not take")
				told = true
				continue
			}
		}
		if _, sent := one.ConnConfig.RuntimeParams[name]; sent && !isSetting(name) {
			p.Unknown(name)
		}
	}
	if err != nil && !told {
		return nil, errors.New("pgx does not take the URL, or not together with the PG… variables of the environment")
	}
	return config, nil
}

// settings are the server's settings that a URL may set for its connections. pgx would pass on any name, also a misspelled one. Other
// settings can be set by options=-c name=value.
var settings = []string{
	"application_name", "client_encoding", "client_min_messages", "datestyle", "default_transaction_isolation",
	"default_transaction_read_only", "extra_float_digits", "idle_in_transaction_session_timeout", "idle_session_timeout", "intervalstyle",
	"jit", "lock_timeout", "log_min_duration_statement", "log_statement", "options", "role", "search_path", "statement_timeout",
	"synchronous_commit", "tcp_keepalives_count", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_user_timeout",
	"temp_buffers", "timezone", "transaction_timeout", "work_mem",
}

// isSetting reports whether a URL may set name. A name with a dot is one of an extension, or of the user's own.
func isSetting(name string) bool {
	return strings.Contains(name, ".") || slices.Contains(settings, strings.ToLower(name))
}
