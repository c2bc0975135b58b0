package main

import (
	"testing"

	"github.com/annals-go/annals/entitytest"
)

func TestWithdraw(t *testing.T) {
	t.Parallel()
	entitytest.New(t, account, "ann").
		Given(Deposited{Cents: 500}).
		When(Withdraw{Cents: 200}).Then(Withdrawn{Cents: 200}).Reply(300).
		When(Withdraw{Cents: 301}).Rejected(ErrFunds).
		When(Withdraw{Cents: -1}).Rejected(ErrAmount)
}
