package main

import (
	"log"
	"os"
	"strings"
	"testing"
)

// The second run goes on where the first one has ended.
func Example() {
	folder, err := os.MkdirTemp("", "hello")
	if err == nil {
		err = os.Chdir(folder)
	}
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	main()
	main()
	// Output:
	// 5 <nil>
	// 10 <nil>
	// 15 <nil>
	// 20 <nil>
	// 25 <nil>
	// 30 <nil>
}

// The program that newcomers copy is the one that is tested here.
func TestREADME(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(program), "\n") // without the package comment
	block := "```go\n" + code + "```\n"
	if !strings.Contains(string(readme), block) {
		t.Errorf("README.md does not hold this block:\n%s", block)
	}
}
