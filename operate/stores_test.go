package operate_test

import (
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/sqlitestore"
)

// Each command on each store and layout. What a store does not claim is said, with exit status 4.
func TestStores(t *testing.T) {
	t.Parallel()
	own := rand.Text()
	tables := func(layout, parameters string) string {
		return "dynamodb:?layout=" + layout + "&region=us-east-1&create=true&endpoint=" + url.QueryEscape(dynamo.Endpoint(t)) + strings.ReplaceAll(parameters, "=", "="+own+layout)
	}
	openers := annals.Openers{"sqlite": sqlitestore.Options{}.OpenURL, "postgres": pgstore.Options{CreateTables: true}.OpenURL, "dynamodb": dynamostore.Options{}.OpenURL, "mem": memstore.Options{}.OpenURL}
	for name, address := range map[string]string{
		"memory":       "mem:",
		"sqlite":       "sqlite:" + t.TempDir() + "/all.db",
		"postgres":     postgres.Schema(t),
		"commit":       tables("commit", "&table=") + "&index=slices",
		"commit plain": tables("commit", "&table=p"),
		"j5ik2o":       tables("j5ik2o", "&journal=j&snapshot=s&state=d"),
		"akka":         tables("akka", "&journal=j&snapshot=s"),
		"akka0":        tables("akka0", "&table="),
		"esa":          tables("esa", "&journal=j&snapshot=s") + "&shards=8",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := openers.Open(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			metered(t, s, "a", 3)
			caps := s.Capabilities()
			_, noForgetter := ability.Of[ability.Forgetter](s)
			_, noSkipper := ability.Of[ability.Skipper](s)
			forgets := noForgetter == nil && noSkipper == nil && caps.FenceAfterDelete
			for args, supported := range map[string]bool{
				"ids --type Meter":                   caps.IDQueries,
				"show Meter|a":                       true,
				"show Meter|a --at 2 --diff --try 5": true,
				"tail --after 0 --type Meter":        caps.EventQueries,
				"projection list":                    caps.IDQueries && caps.States,
				"projection status p":                caps.States,
				"projection parked p":                caps.States,
				"projection pause p":                 caps.States,
				"test Meter|a --to 2":                true,
				"trace x":                            caps.EventQueries,
				"trace Meter|a/1 --projections p":    caps.EventQueries,
				"stats Meter|a":                      true,
				"stats":                              caps.IDQueries,
				"stats --since 1h":                   caps.EventQueries,
				"top Meter|a":                        true,
				"cost Meter|a":                       name != "memory",
				"top --by events":                    caps.IDQueries,
				"top --by rate":                      caps.EventQueries,
				"verify Meter|a":                     true,
				"prune Meter|a":                      caps.Snapshots && caps.FenceAfterDelete,
				"forget Meter|a":                     forgets,
			} {
				c := config(s)
				if args == "projection pause p" {
					c.Projections = []string{"p"} // which has not been run yet
				}
				o := run(t, c, append([]string{"--json"}, strings.Fields(args)...)...)
				failed := o.status == 4 && strings.Contains(o.text, `"code":"unsupported"`)
				if want := o.status == 0 || o.status == 1 && args == "projection status p"; failed == supported || supported != want {
					t.Errorf("%s: status %d: %s", args, o.status, o.text)
				}
			}
			for args, next := range map[string]string{"show Meter|none": "annals ids", "projection status p": "annals projection list", "forget Meter|none": "annals ids"} {
				o := run(t, config(s), strings.Fields(args)...)
				if asked := o.status < 4; asked && strings.Contains(o.text, "next: "+next+"\n") != caps.IDQueries || asked && args[0] == 'f' && !strings.Contains(o.text, "is it the right one?") {
					t.Errorf("%s: %+v", args, o)
				}
			}
			c := config(s)
			c.Projections = []string{"p"}
			if o := run(t, c, "projection", "pause", "p"); o.status == 4 && strings.Contains(o.text, "may be paused") {
				t.Errorf("%+v", o)
			}
			if o := run(t, config(s), "ids"); o.status == 4 && !strings.Contains(o.errors, "does not claim it; docs/claims.md says which stores") {
				t.Errorf("%+v", o)
			}
			page := visit(t, s, config(s), operate.PageOptions{})
			for path, supported := range map[string]bool{
				"":                              true,
				"entities":                      true, // without a list of ids it searches for whole ids
				"entities?search=a":             true,
				"entity?id=Meter%7Ca":           true,
				"entity?id=Meter%7Ca&at=2":      true,
				"projection?name=p":             caps.States,
				"tail":                          caps.EventQueries,
				"trace?correlation=x":           caps.EventQueries,
				"tail?after=0":                  caps.EventQueries,
				"tail/events?from=soon":         false,
				"entity?id=Meter%7Ca&raw=1":     true,
				"entities?search=a&all=1":       true,
				"entity?id=Meter%7Cnone":        true,
				"entities?search=none&type=Not": true,
			} {
				w := page.get(path)
				if want := w.Code == 200; want != supported || !supported && path != "tail/events?from=soon" && w.Code != 501 {
					t.Errorf("/%s: %d %s", path, w.Code, w.Body)
				}
				if path == "entity?id=Meter%7Ca&at=2" && !strings.Contains(w.Body.String(), "~ /sum: 1 → 3") || path == "entities?search=a" && !strings.Contains(w.Body.String(), `<a href="entity?id=Meter%7ca">`) {
					t.Errorf("/%s: %s", path, w.Body)
				}
			}
			o := run(t, config(s), "show", "Meter|a")
			if !strings.Contains(o.text, `state at 3: total {"sum":6}`) || !strings.Contains(o.text, `"n":2}`) {
				t.Errorf("%+v", o)
			}
			if o := run(t, config(s), "forget", "Meter|a", "--yes"); forgets && (o.status != 0 || !strings.Contains(o.text, "deleted: events: 3")) {
				t.Errorf("%+v", o)
			}
		})
	}
}
