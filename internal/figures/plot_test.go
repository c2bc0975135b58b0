package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "draw the plots in docs again, from docs/figures.txt")

const docs = "../../docs"

// A bar reaches the line of the goals if, and only if, its value reaches the goal.
func TestPlot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		goal  Goal
		value string
		width float64
		class string
	}{
		{AtLeast(8), "12", 150, "bar"}, {AtLeast(8), "8.00", 100, "bar"}, {AtLeast(8), "4", 50, "short"}, {AtLeast(8), "99", 200, "bar"}, {AtLeast(8), "-1", 0, "short"},
		{AtMost(1.2), "0.8", 150, "bar"}, {AtMost(1.2), "1.2", 100, "bar"}, {AtMost(1.2), "2.4", 50, "short"}, {AtMost(1.2), "0", 200, "bar"},
	} {
		value, err := strconv.ParseFloat(c.value, 64)
		if err != nil {
			t.Fatal(err)
		}
		text := plot([]Figure{values("x", c.goal)}, map[string]result{"x": {Name: "x", Value: value, text: c.value}})
		var svg struct {
			Rects []struct {
				Class string  `xml:"class,attr"`
				Width float64 `xml:"width,attr"`
			} `xml:"rect"`
			Texts []string `xml:"text"`
		}
		if err := xml.Unmarshal([]byte(text), &svg); err != nil {
			t.Fatal(err)
		}
		if len(svg.Rects) != 2 || svg.Rects[1].Width != c.width || svg.Rects[1].Class != c.class {
			t.Errorf("%s with goal %v: %+v, want width %v", c.value, c.goal, svg.Rects, c.width)
		}
		if got := strings.Join(svg.Texts, "|"); got != "x|"+c.value+", "+c.goal.words() {
			t.Errorf("texts %q", got)
		}
	}
}

// A run adds its results to those of former ones. A figure without a result keeps the former one, and one that no longer exists is left out.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before := "figure gone 1 >=1 ok\nfigure b 2.5 >=2 ok\nfigure a 2.0 >=1 ok\n"
	if err := os.WriteFile(filepath.Join(dir, stored), []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	figures := only(values("a", AtLeast(2), 1.494), values("b", AtLeast(3), 9), broken("c"))
	if status := run(t.Context(), figures, []string{"-count", "1", "-only", "a|c", "-plots", dir}, io.Discard, io.Discard); status != 1 {
		t.Errorf("status %d", status)
	}
	text, err := os.ReadFile(filepath.Join(dir, stored))
	if want := "figure a 1.49 >=2 short\nfigure b 2.5 >=3 short\n"; err != nil || string(text) != want {
		t.Errorf("stored %q, %v, want %q", text, err, want)
	}
	if svg, err := os.ReadFile(filepath.Join(dir, "figures-some.svg")); err != nil || !bytes.Contains(svg, []byte("1.49, at least 2")) {
		t.Errorf("drawn %s, %v", svg, err)
	}
	results, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range documents(figures, results) {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %s, %v, and drawn again from what is stored it is %s", name, got, err, want)
		}
	}
	for _, broken := range []string{"figure a 1 >=1\n", "figure a x >=1 ok\n"} {
		if err := os.WriteFile(filepath.Join(dir, stored), []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		if status := run(t.Context(), only(values("a", AtLeast(2), 3)), []string{"-count", "1", "-plots", dir}, io.Discard, io.Discard); status != 1 {
			t.Errorf("%q: status %d", broken, status)
		}
	}
}

// The plots in the documents show what is stored and the goals of today. docs/performance.md shows each plot, and has the goal of each figure.
func TestDocuments(t *testing.T) {
	t.Parallel()
	if *update {
		if err := write(docs, parts, nil); err != nil {
			t.Fatal(err)
		}
	}
	results, err := load(docs)
	text, err2 := os.ReadFile(filepath.Join(docs, "performance.md"))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	drawn := documents(parts, results)
	for name, want := range drawn {
		if got, err := os.ReadFile(filepath.Join(docs, name)); err != nil || string(got) != want {
			t.Errorf("docs/%s is not what is drawn, %v: go -C internal/figures test -update", name, err)
		}
		if !bytes.Contains(text, []byte("("+name+")")) {
			t.Errorf("docs/performance.md does not show %s", name)
		}
	}
	goals := map[string]string{}
	for _, p := range parts {
		if name := "figures-" + p.name + ".svg"; drawn[name] == "" && bytes.Contains(text, []byte(name)) {
			t.Errorf("docs/performance.md shows %s, which has no bar", name)
		}
		for _, f := range p.figures() {
			goals["`"+f.Name+"`"] = f.Goal.words()
		}
	}
	for line := range strings.Lines(string(text)) { // | figures | goals | what is divided by what | what it means |
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) != 4 {
			continue
		}
		var want []string
		for name := range strings.SplitSeq(strings.TrimPrefix(cells[0], "| "), ", ") {
			want = append(want, goals[name])
			delete(goals, name)
		}
		if got := strings.Join(slices.Compact(want), ", "); cells[1] != got {
			t.Errorf("docs/performance.md: %s has the goal %q, not %q", cells[0], got, cells[1])
		}
	}
	for name := range goals {
		t.Errorf("docs/performance.md does not explain %s", name)
	}
}
