package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// stored is the file with the last result of each figure, as lines of the output, in the directory of the plots.
const stored = "figures.txt"

// load returns the results in dir by the names of their figures.
func load(dir string) (map[string]result, error) {
	text, err := os.ReadFile(filepath.Join(dir, stored))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := map[string]result{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 5 || words[0] != "figure" {
			return nil, fmt.Errorf("%s has a line that is none of a figure: %q", stored, line)
		}
		value, err := strconv.ParseFloat(words[2], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", stored, err)
		}
		all[words[1]] = result{Name: words[1], Value: value, text: words[2]}
	}
	return all, nil
}

// documents are the files of dir: the results of the figures of today, each beside its goal of today, and a plot of each part that has some.
func documents(parts []part, results map[string]result) map[string]string {
	files, lines := map[string]string{}, ""
	for _, p := range parts {
		var figures []Figure
		for _, f := range p.figures() {
			if r, ok := results[f.Name]; ok {
				figures, lines = append(figures, f), lines+r.judged(f.Goal).line()+"\n"
			}
		}
		if len(figures) > 0 {
			files["figures-"+p.name+".svg"] = plot(figures, results)
		}
	}
	files[stored] = lines
	return files
}

// write stores results beside those that are in dir already, and draws all plots.
func write(dir string, parts []part, results []result) error {
	all, err := load(dir)
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.State != "error" {
			if r.Value, err = strconv.ParseFloat(r.text, 64); err != nil { // what the file has, so that it makes the same plot
				return err
			}
			all[r.Name] = r
		}
	}
	for name, text := range documents(parts, all) {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)) //nolint:gosec // everybody may read documents
	}
	return err
}

// Sizes of a plot in pixels: of a row, to the left of the bars, and of a bar that reaches its goal, which is half of the longest one.
const row, left, reach = 20, 240, 100

// plot is an SVG with a bar for each figure, which has a result. A bar shows how its value compares with the goal, so all goals are one
// line, and a longer bar is better: the value by the goal where a figure has to be at least its goal, the goal by the value where it has to
// be at most that. Text and background change together in a dark mode, so the text can be read in both.
func plot(figures []Figure, results map[string]result) string {
	height := row*len(figures) + 8
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 %d" width="660" height="%[1]d" font-family="monospace" font-size="12">
<style>.page{fill:#fff}text{fill:#1f2328}.bar{fill:#3b82c4}.short{fill:#d1533f}.goal{stroke:#1f2328}
@media(prefers-color-scheme:dark){.page{fill:#0d1117}text{fill:#e6edf3}.goal{stroke:#e6edf3}}</style>
<rect class="page" width="660" height="%[1]d" rx="4"/>
`, height)
	for i, f := range figures {
		y := row*i + 4
		r, class := results[f.Name], "bar"
		if !f.Goal.Reached(r.Value) {
			class = "short"
		}
		fmt.Fprintf(&b, `<rect class="%s" x="%d" y="%d" width="%.0f" height="12"/>`+"\n", class, left, y+4, reach*f.Goal.share(r.Value))
		fmt.Fprintf(&b, `<text x="8" y="%d">%s</text><text x="%d" y="%d">%s, %s</text>`+"\n", y+14, f.Name, left+2*reach+10, y+14, r.text, f.Goal.words())
	}
	fmt.Fprintf(&b, `<path class="goal" d="M%d 2V%d"/>`+"\n</svg>\n", left+reach, height-2)
	return b.String()
}

// words is the goal as documents show it: "at least 8".
func (g Goal) words() string {
	return strings.NewReplacer(">=", "at least ", "<=", "at most ").Replace(g.String())
}

// share is how far value reaches towards the goal, which must be above 0: 1 is the goal, 2 is twice as good or better.
func (g Goal) share(value float64) float64 {
	if g.sign == ">=" {
		return min(max(value, 0)/g.bound, 2)
	}
	return min(g.bound/max(value, g.bound/2), 2)
}
