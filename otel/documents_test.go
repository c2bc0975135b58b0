package annalsotel_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"gopkg.in/yaml.v3"
)

const guide = "../docs/guide/telemetry.md"

// rows returns the columns of the table under a heading of the guide.
func rows(t *testing.T, heading string) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| `") {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			all = append(all, cells)
		}
	}
	if !found || len(all) < 5 {
		t.Fatalf("the guide has %d rows under %q", len(all), heading)
	}
	return all
}

// typeOf is the type of a metric as the guide says it, with what Prometheus needs to name it, and its attributes.
func typeOf(t *testing.T, m metricdata.Metrics) (name string, kind otlptranslator.MetricType, sets []attribute.Set) {
	t.Helper()
	switch d := m.Data.(type) {
	case metricdata.Histogram[int64]:
		return "histogram", otlptranslator.MetricTypeHistogram, setsOf(d.DataPoints, func(p metricdata.HistogramDataPoint[int64]) attribute.Set { return p.Attributes })
	case metricdata.Histogram[float64]:
		return "histogram", otlptranslator.MetricTypeHistogram, setsOf(d.DataPoints, func(p metricdata.HistogramDataPoint[float64]) attribute.Set { return p.Attributes })
	case metricdata.Sum[int64]:
		return "counter", otlptranslator.MetricTypeMonotonicCounter, setsOf(d.DataPoints, func(p metricdata.DataPoint[int64]) attribute.Set { return p.Attributes })
	case metricdata.Sum[float64]:
		return "counter", otlptranslator.MetricTypeMonotonicCounter, setsOf(d.DataPoints, func(p metricdata.DataPoint[float64]) attribute.Set { return p.Attributes })
	case metricdata.Gauge[int64]:
		return "gauge", otlptranslator.MetricTypeGauge, setsOf(d.DataPoints, func(p metricdata.DataPoint[int64]) attribute.Set { return p.Attributes })
	case metricdata.Gauge[float64]:
		return "gauge", otlptranslator.MetricTypeGauge, setsOf(d.DataPoints, func(p metricdata.DataPoint[float64]) attribute.Set { return p.Attributes })
	}
	t.Fatalf("%s is a %T", m.Name, m.Data)
	return "", 0, nil
}

func setsOf[P any](points []P, of func(P) attribute.Set) (sets []attribute.Set) {
	for _, p := range points {
		sets = append(sets, of(p))
	}
	return sets
}

// The guide lists the metrics that are emitted, with their units and types, and the spans.
func TestGuide(t *testing.T) {
	t.Parallel()
	w := newWorkload(t)
	w.run()
	metrics := w.collect()
	for _, row := range rows(t, "Metrics") {
		name := strings.Trim(row[0], "`")
		m, emitted := metrics[name]
		if !emitted {
			t.Errorf("%s is not emitted", name)
			continue
		}
		if kind, _, _ := typeOf(t, m); "`"+m.Unit+"`" != row[1] || kind != row[2] || m.Description == "" {
			t.Errorf("%s is a %s in %s: %q", name, kind, m.Unit, m.Description)
		}
		delete(metrics, name)
	}
	for name := range metrics {
		t.Errorf("the guide does not list %s", name)
	}

	emitted := map[string]string{} // kinds by name
	for _, s := range w.spans.Ended() {
		name := strings.NewReplacer("Counter", "TYPE", "outlet", "NAME", "counters", "TOPIC").Replace(s.Name())
		emitted[name] = s.SpanKind().String()
	}
	delete(emitted, "request")
	quoted := regexp.MustCompile("`([^`]+)`")
	for _, row := range rows(t, "Spans") {
		for _, m := range quoted.FindAllStringSubmatch(row[0], -1) {
			kind, ended := emitted[m[1]]
			if ended && kind != row[1] {
				t.Errorf("%s is of kind %s", m[1], kind)
			}
			if !ended && !slices.Contains([]string{"put state TYPE", "query states", "query snapshots"}, m[1]) { // of durable states, and of no program
				t.Errorf("there is no span %s", m[1])
			}
			delete(emitted, m[1])
		}
	}
	for name, kind := range emitted {
		if kind != "client" {
			t.Errorf("the guide does not list the %s span %s", kind, name)
		}
	}
}

// The dashboard and the alert rules name metrics and labels that exist, in the names of Prometheus.
func TestDashboardAndAlerts(t *testing.T) {
	t.Parallel()
	w := newWorkload(t)
	w.run()
	metrics, labels := map[string]bool{}, map[string]bool{"le": true}
	namer, labelNamer := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes), otlptranslator.LabelNamer{}
	for _, m := range w.collect() {
		_, kind, sets := typeOf(t, m)
		name, err := namer.Build(otlptranslator.Metric{Name: m.Name, Unit: m.Unit, Type: kind})
		if err != nil {
			t.Fatal(err)
		}
		if kind == otlptranslator.MetricTypeHistogram {
			metrics[name+"_bucket"], metrics[name+"_count"], metrics[name+"_sum"] = true, true, true
		} else {
			metrics[name] = true
		}
		for _, set := range sets {
			for _, a := range set.ToSlice() {
				label, err := labelNamer.Build(string(a.Key))
				if err != nil {
					t.Fatal(err)
				}
				labels[label] = true
			}
		}
	}
	used := map[string]bool{}
	check := func(where, expr string) {
		t.Helper()
		found := 0
		rest := regexp.MustCompile(`\{([^}]*)\}`).ReplaceAllStringFunc(expr, func(matchers string) string {
			for _, m := range regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)"`).FindAllStringSubmatch(matchers, -1) {
				if !labels[m[1]] {
					t.Errorf("%s: there is no label %s", where, m[1])
				}
			}
			return ""
		})
		rest = regexp.MustCompile(`by \(([^)]*)\)`).ReplaceAllStringFunc(rest, func(by string) string {
			for label := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(by, "by ("), ")"), ",") {
				if !labels[strings.TrimSpace(label)] {
					t.Errorf("%s: there is no label %s", where, label)
				}
			}
			return ""
		})
		for _, name := range regexp.MustCompile(`\b(?:annals|db|messaging)_\w+`).FindAllString(rest, -1) {
			if found++; !metrics[name] {
				t.Errorf("%s: there is no metric %s", where, name)
			}
			used[name] = true
		}
		if found == 0 || strings.Count(expr, "(") != strings.Count(expr, ")") {
			t.Errorf("%s: %q", where, expr)
		}
	}

	text, err := os.ReadFile("grafana/annals.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Title  string
		Panels []struct {
			ID      int
			Title   string
			Type    string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %+v", p)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			check("panel "+p.Title, target.Expr)
			for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if !strings.Contains(target.Expr, m[1]) {
					t.Errorf("panel %s: the legend has %s, the query has not", p.Title, m[1])
				}
			}
		}
	}
	for name := range metrics {
		family := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
		if !used[name] && !used[family+"_bucket"] && !used[family+"_count"] {
			t.Errorf("no panel shows %s", name)
		}
	}

	text, err = os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	alerts := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			alerts++
			check("alert "+r.Alert, r.Expr)
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("alert %+v", r)
			}
		}
	}
	if alerts < 8 || len(dashboard.Panels) < 20 {
		t.Errorf("%d alerts, %d panels", alerts, len(dashboard.Panels))
	}
}
