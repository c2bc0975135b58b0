package dynamostore_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
)

// The table of claims in docs/stores/dynamodb.md is what layouts claim: "yes" with all settings, "no" with none, otherwise with some.
func TestTableOfClaims(t *testing.T) {
	t.Parallel()
	layouts := map[string][]dynamostore.Layout{
		"commit": {commit.Layout{}, commit.Layout{Index: "slices"}},
		"akka":   {akka.Layout{}, akka.Layout{Journal: akka.Journal{IDIndex: "persistence-ids-idx"}}},
		"akka0":  {akka0.Layout{Table: "t"}, akka0.Layout{Table: "t", Permanent: true}},
		"esa":    {esa.Layout{Shards: 8}, esa.Layout{Shards: 8, WriteIDs: true, Snapshot: esa.Snapshot{Keep: 2}}, esa.Layout{Peer: esa.JS, Shards: 8}, esa.Layout{Peer: esa.Rust5}, esa.Layout{Shards: 8, Journal: esa.Journal{Gaps: true}}},
		"j5ik2o": {j5ik2o.Layout{State: j5ik2o.State{Tombstones: true}}, j5ik2o.Layout{Journal: j5ik2o.Journal{HardDelete: true}}},
	}
	text, err := os.ReadFile("../docs/stores/dynamodb.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| claim |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	names := cells(rows[0])
	claims := 0
	for _, row := range rows[2:] {
		row := cells(row)
		for _, claim := range regexp.MustCompile("`(.+?)`").FindAllStringSubmatch(row[0], -1) {
			for i, name := range names {
				made := map[bool]bool{}
				for _, layout := range layouts[name] {
					offer, err := layout.Plan()
					if err != nil {
						t.Fatal(err)
					}
					made[claimed(offer, claim[1])] = true
				}
				claims++
				if yes, no := row[i+1] == "yes", row[i+1] == "no"; yes && made[false] || no && made[true] || !yes && !no && len(made) < 2 {
					t.Errorf("%s of %s: the page says %q, the layouts %v", claim[1], name, row[i+1], made)
				}
			}
		}
	}
	if len(names) != len(layouts) || claims < 60 {
		t.Errorf("%d layouts, %d claims", len(names), claims)
	}
}

// claimed reports whether a layout makes a claim, or has an ability.
func claimed(offer plan.Offer, name string) bool {
	switch on := offer.On(plantest.New(offer.Tables)); name {
	case "Forgetter":
		return on.Forgetter != nil
	case "Skipper":
		return on.Skipper != nil
	case "StateSkipper":
		return offer.SkipStateTo != nil
	}
	return reflect.ValueOf(offer.Capabilities).FieldByName(name).Bool()
}

// The settings that the guide names are fields of the layouts and options.
func TestSettingsInTheGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/guide/coming-from-akka.md")
	if err != nil {
		t.Fatal(err)
	}
	for title, settings := range map[string][]any{
		"## j5ik2o":             {j5ik2o.Layout{}, j5ik2o.Journal{}, j5ik2o.Snapshot{}, j5ik2o.State{}},
		"## Akka 1.x and Pekko": {akka.Layout{}},
		"## Akka 0.1":           {akka0.Layout{}},
	} {
		settings = append(settings, dynamostore.Options{}, struct {
			dynamostore.Options
			dynamostore.ClientOptions
		}{})
		_, section, _ := strings.Cut(string(text), "\n"+title+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		found := 0
		for _, row := range regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(section, -1) {
			for _, name := range regexp.MustCompile("`([A-Z][A-Za-z.]*)").FindAllStringSubmatch(cells(row)[2], -1) {
				found++
				if !slices.ContainsFunc(settings, func(s any) bool { return hasField(reflect.TypeOf(s), strings.Split(name[1], ".")) }) {
					t.Errorf("%s: there is no setting %s", title, name[1])
				}
			}
		}
		if found < 5 {
			t.Errorf("%s: found %d settings", title, found)
		}
	}
}

// hasField reports whether path leads from a struct to a field.
func hasField(t reflect.Type, path []string) bool {
	for _, name := range path {
		if t.Kind() != reflect.Struct {
			return false
		}
		f, ok := t.FieldByName(name)
		if !ok {
			return false
		}
		t = f.Type
	}
	return true
}

// cells are the cells of a row of a table.
func cells(row string) (all []string) {
	for cell := range strings.SplitSeq(strings.Trim(row, "| "), "|") {
		all = append(all, strings.TrimSpace(cell))
	}
	return all
}
