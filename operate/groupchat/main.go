// Command groupchat is the operator's tool of examples/groupchat, with a page in a browser:
//
//	go -C operate run ./groupchat serve --store sqlite:$PWD/groupchat.db
package main

import (
	"database/sql"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/examples/groupchat/profile"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/sqlitestore"
)

// profiles is the table that the program keeps profiles in.
const profiles = "user_profile"

var (
	sqlite   = sqlitestore.Options{CreateTables: new(false), StateTypes: map[string]annals.StateType[*sql.Tx]{profile.Behavior.Type: {Table: profiles}}}
	postgres = pgstore.Options{StateTypes: map[string]annals.StateType[pgx.Tx]{profile.Behavior.Type: {Table: profiles}}}
	dynamodb = dynamostore.Options{}
)

// config is what the tool knows of the program.
var config = operate.Config{
	Name:   "groupchat",
	Stores: annals.Openers{"sqlite": sqlite.OpenURL, "postgres": postgres.OpenURL, "dynamodb": dynamodb.OpenURL},
	Setups: operate.Setups{"sqlite": sqlite.SetupURL, "postgres": postgres.SetupURL, "dynamodb": dynamodb.SetupURL},
	Entities: []operate.Entity{
		operate.Sourced(chat.Behavior, []chat.Command{chat.Create{}, chat.Rename{}, chat.Delete{}, chat.AddMember{}, chat.RemoveMember{}, chat.Post{}, chat.Edit{}, chat.DeleteMessage{}, chat.MarkRead{}}...),
		operate.Durable(profile.Behavior, []profile.Command{profile.SetName{}, profile.SetStatus{}, profile.Remove{}}...),
	},
}

func main() { os.Exit(operate.ExitStatus(operate.Command(config).Execute())) }
