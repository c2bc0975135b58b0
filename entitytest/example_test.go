package entitytest_test

import (
	"testing"

	"github.com/annals-go/annals/entitytest"
)

func TestCart(t *testing.T) {
	entitytest.New(t, cart, "c-1").
		Given("apple", "apple").
		When("apple").Then("apple").Reply(3).
		When("").Rejected(errEmpty)
}
