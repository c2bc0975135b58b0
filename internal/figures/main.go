// Command figures measures every figure that this project claims and prints one line each:
//
//	figure NAME VALUE GOAL ok|short
//
// VALUE is the median of -count runs. A figure that cannot be measured (no server) prints "-" and "error" instead. The exit
// status is 1 when a figure is short or missing, 2 when the flags are wrong. Documents quote figures only from here.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, parts, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program. It returns the exit status.
func run(ctx context.Context, parts []part, args []string, out, log io.Writer) int {
	flags := flag.NewFlagSet("figures", flag.ContinueOnError)
	flags.SetOutput(log)
	only := flags.String("only", "", "run the figures whose name matches this regular `expression`")
	count := flags.Int("count", 5, "take each figure so many times; its value is the median")
	asJSON := flags.Bool("json", false, "print a JSON object per line, with all runs")
	plots := flags.String("plots", "", "add the results to figures.txt in this `directory`, and draw the plots there")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var figures []Figure
	for _, p := range parts {
		figures = append(figures, p.figures()...)
	}
	chosen, err := choose(figures, *only, *count)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("what is %q?", flags.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(log, "figures:", err)
		return 2
	}

	status := 0
	var results []result
	for _, f := range chosen {
		fmt.Fprintf(log, "%s: %s\n", f.Name, f.About)
		r := measure(ctx, f, *count, log)
		if r.State != "ok" {
			status = 1
		}
		if *asJSON {
			err = json.NewEncoder(out).Encode(r)
		} else {
			_, err = fmt.Fprintln(out, r.line())
		}
		if err != nil {
			fmt.Fprintln(log, "figures:", err)
			return 1
		}
		if ctx.Err() != nil {
			fmt.Fprintln(log, "figures: interrupted")
			return 1
		}
		results = append(results, r)
	}
	if *plots != "" {
		if err := write(*plots, parts, results); err != nil {
			fmt.Fprintln(log, "figures:", err)
			return 1
		}
	}
	return status
}

// choose returns the figures to run and refuses what would make the output misleading.
func choose(figures []Figure, only string, count int) (chosen []Figure, err error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	if count < 1 {
		return nil, fmt.Errorf("-count %d: must be 1 or more", count)
	}
	seen := map[string]bool{}
	for _, f := range figures {
		if f.Name == "" || strings.ContainsAny(f.Name, " \t\n") || f.Goal == (Goal{}) || f.Run == nil {
			return nil, fmt.Errorf("figure %q lacks a name of one word, a goal or a measurement", f.Name)
		}
		if seen[f.Name] {
			return nil, fmt.Errorf("two figures are named %s", f.Name)
		}
		seen[f.Name] = true
		if pattern.MatchString(f.Name) {
			chosen = append(chosen, f)
		}
	}
	if len(chosen) == 0 {
		return nil, errors.New("no figure has such a name")
	}
	return chosen, nil
}
