// Command annals shows and checks what a store has, without the behaviors of a program: see package operate.
package main

import (
	"os"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/sqlitestore"
)

func main() {
	sqlite, postgres, dynamodb := sqlitestore.Options{CreateTables: new(false)}, pgstore.Options{}, dynamostore.Options{}
	os.Exit(operate.ExitStatus(operate.Command(operate.Config{
		Stores: annals.Openers{"sqlite": sqlite.OpenURL, "postgres": postgres.OpenURL, "dynamodb": dynamodb.OpenURL},
		Setups: operate.Setups{"sqlite": sqlite.SetupURL, "postgres": postgres.SetupURL, "dynamodb": dynamodb.SetupURL},
	}).Execute()))
}
