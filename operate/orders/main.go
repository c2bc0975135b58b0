// Command orders is the operator's tool of examples/orders: it knows the behaviors of that program, so it shows their states and what they decide.
package main

import (
	"os"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/examples/orders/order"
	"github.com/annals-go/annals/examples/orders/stock"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/sqlitestore"
)

// config is what the tool knows of the program.
var config = operate.Config{
	Name: "orders",
	Stores: annals.Openers{
		"sqlite":   sqlitestore.Options{CreateTables: new(false)}.OpenURL,
		"postgres": pgstore.Options{}.OpenURL,
		"dynamodb": dynamostore.Options{}.OpenURL,
	},
	Setups: operate.Setups{
		"sqlite":   sqlitestore.Options{CreateTables: new(false)}.SetupURL,
		"postgres": pgstore.Options{}.SetupURL,
		"dynamodb": dynamostore.Options{}.SetupURL,
	},
	Entities: []operate.Entity{
		operate.Sourced(order.Behavior, []order.Command{order.Place{}, order.Pay{}, order.Cancel{}}...),
		operate.Durable(stock.Behavior),
	},
}

func main() { os.Exit(operate.ExitStatus(operate.Command(config).Execute())) }
