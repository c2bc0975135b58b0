package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// withServer returns a function that returns the processor time in nanoseconds of this program and of the processes of the server of
// pool, which runs on this machine. The time of the server has a resolution of 10 milliseconds for each process.
func withServer(ctx context.Context, pool *pgxpool.Pool) (func() float64, error) {
	var backend int
	if err := pool.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return nil, err
	}
	own, err := processOf(filepath.Join("/proc", strconv.Itoa(backend), "stat"))
	if err != nil {
		return nil, fmt.Errorf("the processor time of the server cannot be read: %w", err)
	}
	return func() float64 {
		all, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
		total := processorTime()
		for _, file := range all {
			switch p, err := processOf(file); {
			case err != nil: // it has ended
			case p.pid == own.parent:
				total += p.spent + p.ended
			case p.parent == own.parent:
				total += p.spent
			}
		}
		return total
	}, nil
}

// processTime is a process of Linux.
type processTime struct {
	pid, parent  int
	spent, ended float64 // nanoseconds of processor time: its own, and that of children that have ended
}

func processOf(file string) (p processTime, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	before, after, _ := strings.Cut(string(text), " (")
	fields := strings.Fields(after[strings.LastIndex(after, ")")+1:])
	if len(fields) < 15 {
		return p, fmt.Errorf("%s has %d fields", file, len(fields))
	}
	number := func(s string) int {
		n, failed := strconv.Atoi(s)
		err = errors.Join(err, failed)
		return n
	}
	const tick = 1e7 // of the kernel, in nanoseconds
	p = processTime{pid: number(before), parent: number(fields[1])}
	p.spent = tick * float64(number(fields[11])+number(fields[12]))
	p.ended = tick * float64(number(fields[13])+number(fields[14]))
	return p, err
}
