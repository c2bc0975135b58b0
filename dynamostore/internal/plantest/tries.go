package plantest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Tries returns an executor that sends the writes of x as a store does, which tries them again. s sends them once.
type Tries func(x plan.Executor, tables []plan.Table, s Service) plan.Executor

// Service is what a store has of the service, and of its machine.
type Service interface {
	// Send sends ops once: several, or those with a token, as a transaction.
	Send(ctx context.Context, ops []plan.Op, token string) Answer
	Clock() time.Time
}

// Answer is what the service says of a write.
type Answer struct {
	Err     error       // no answer
	Code    string      // why nothing was stored, where it is no condition; of the request
	Reasons []string    // why nothing was stored, by op; nil: it was
	Old     []plan.Item // that made the conditions fail, by op
}

// Codes of the service.
const (
	CodeRefused   = "ConditionalCheckFailed"
	codeThrottled = "ThrottlingError"
	codeBusy      = "TransactionConflict"
)

// remembered is for how long the service knows a token.
const remembered = 10 * time.Minute

// Send is Service. Answers are lost, and what was throttled once can be for longer than the service knows a token. A cancelled transaction has a
// reason for each op, and an op with a reason that may pass was not evaluated.
func (a *process) Send(ctx context.Context, ops []plan.Op, token string) (answer Answer) {
	if time.Now().Before(a.jammed) {
		time.Sleep(9 * time.Second)
		return Answer{Code: "ThrottlingException"}
	}
	a.request(func() {
		fault := 100
		if a.s.Faults {
			fault = a.s.random.IntN(12)
		}
		transaction := len(ops) > 1 || token != ""
		switch {
		case fault == 0:
			a.print("# not stored, and no answer\n")
			answer.Err = errLostAnswer
			return
		case fault == 1:
			a.print("# throttled\n")
			answer.Code = "ThrottlingException"
			return
		case fault == 2 && transaction:
			a.print("# another transaction has an item\n")
			answer.Reasons, answer.Old = make([]string, len(ops)), make([]plan.Item, len(ops))
			answer.Reasons[a.s.random.IntN(len(ops))] = codeBusy
			return
		}
		answer = a.execute(ops, token, transaction)
		switch {
		case fault == 3 || fault == 4:
			a.print("# no answer\n")
			answer = Answer{Err: errLostAnswer}
			if fault == 4 {
				a.print("# throttled for longer than tokens are known\n")
				a.jammed = time.Now().Add(remembered + time.Duration(a.s.random.IntN(60))*time.Second)
			}
		case answer.Reasons != nil && transaction && a.s.Faults && a.s.random.IntN(2) == 0:
			i := a.s.random.IntN(len(ops))
			answer.Reasons[i], answer.Old[i] = []string{codeBusy, codeThrottled}[a.s.random.IntN(2)], nil
			a.print("# op %d is not evaluated: %s\n", i+1, answer.Reasons[i])
		}
	})
	return answer
}

var errLostAnswer = errors.New("no answer")

// execute executes ops, unless the token is known.
func (a *process) execute(ops []plan.Op, token string, transaction bool) (answer Answer) {
	at, known := a.s.tokens[token]
	if transaction && known && time.Since(at) < remembered {
		a.print("# the token is known\n")
		return Answer{}
	}
	begin := a.log.Len()
	old, stored := a.Executor.try(ops, token)
	if !transaction {
		again := slices.Clone(ops)
		a.mayRepeat(a.log.String()[begin:], again[0].Put != nil, func() { a.Executor.try(again, "") })
	}
	if stored {
		if transaction {
			a.s.tokens[token] = time.Now()
		}
		return Answer{}
	}
	answer = Answer{Reasons: make([]string, len(ops)), Old: old}
	for i, it := range old {
		if it != nil {
			answer.Reasons[i] = CodeRefused
		}
	}
	return answer
}
