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
	os.Exit(operate.ExitStatus(operate.Command(operate.Config{Stores: annals.Openers{
		"sqlite":   sqlitestore.Options{CreateTables: new(false)}.OpenURL,
		"postgres": pgstore.Options{}.OpenURL,
		"dynamodb": dynamostore.Options{}.OpenURL,
	}}).Execute()))
}
