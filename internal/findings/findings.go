// Package findings is for the Setups of stores: what their Open refuses, and what else Examine finds, in one list.
package findings

import (
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// Fault is something that Open refuses.
type Fault struct {
	Code, Found string
	Do          string // it is a part of the error
	Schema      bool
}

// Error is the text of Open.
func (f *Fault) Error() string {
	if f.Do == "" {
		return f.Found
	}
	return f.Found + ": " + f.Do
}

// List is what was found.
type List []ability.Finding

// Add adds a finding.
func (l *List) Add(severity ability.Severity, code, found, means, do string) {
	*l = append(*l, ability.Finding{Code: code, Severity: severity, Found: found, Means: means, Do: do})
}

// Differs adds a difference of the tables that Open does not refuse.
func (l *List) Differs(severity ability.Severity, code, found, means, do string) {
	*l = append(*l, ability.Finding{Code: code, Severity: severity, Schema: true, Found: found, Means: means, Do: do})
}

// Refused adds what Open refuses with err: each Fault in it, and an error without one under the code. It returns err where that is no refusal
// but says that the database could not be asked.
func (l *List) Refused(err error, code string) error {
	if e, ok := errors.AsType[*annals.Error](err); ok && errors.Is(e.Kind, annals.ErrUnavailable) {
		return err
	}
	l.add(err, code)
	return nil
}

func (l *List) add(err error, code string) {
	finding := ability.Finding{Code: code, Severity: ability.Refused, Means: "Open refuses it"}
	switch e := err.(type) { //nolint:errorlint // one step of the tree at a time
	case nil:
		return
	case interface{ Unwrap() []error }:
		for _, each := range e.Unwrap() {
			l.add(each, code)
		}
		return
	case *annals.Error:
		l.add(e.Err, code)
		return
	}
	if f, ok := errors.AsType[*Fault](err); ok {
		finding.Code, finding.Schema, finding.Found, finding.Do = f.Code, f.Schema, f.Found, f.Do
	} else {
		finding.Found = err.Error()
	}
	*l = append(*l, finding)
}

// Clock compares the time of a server, which was between the times asked and answered of this machine, with them. More than most apart is a problem.
func (l *List) Clock(server, asked, answered time.Time, most time.Duration, means string) {
	apart := time.Duration(0)
	switch {
	case server.Before(asked):
		apart = server.Sub(asked)
	case server.After(answered):
		apart = server.Sub(answered)
	}
	severity, do, direction := ability.Note, "", "ahead of"
	if apart < 0 {
		direction = "behind"
	}
	if apart.Abs() <= most {
		means = ""
	} else {
		severity, do = ability.Problem, "set both clocks, as with NTP"
	}
	l.Add(severity, "clock", fmt.Sprintf("the clock of the server is %s %s that of this machine, at least", apart.Abs().Round(time.Millisecond), direction), means, do)
}
