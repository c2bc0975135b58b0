package main

import (
	"strings"
	"testing"
)

func TestChild(t *testing.T) {
	t.Setenv(asProgram, "1")
	server, err := start(t.Context(), "mem:", "")
	if err != nil {
		t.Fatal(err)
	}
	defer server.end()
	if _, err := newClient(server.url, 1).show(t.Context(), "t", "ann"); !missing(err) {
		t.Errorf("a new server answers %v", err)
	}
	if err := server.stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	if err := server.kill(); err == nil {
		t.Error("a server that had ended could be killed")
	}
}

func TestChildThatDoesNotStart(t *testing.T) {
	t.Setenv(asProgram, "1")
	if _, err := start(t.Context(), "paper:", ""); err == nil || !strings.Contains(err.Error(), "paper") {
		t.Errorf("the error does not say why: %v", err)
	}
}
