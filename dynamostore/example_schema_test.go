package dynamostore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
)

func ExampleOpen() {
	ctx := context.Background()
	client, err := dynamostore.NewClient(ctx, dynamostore.ClientOptions{})
	if err != nil {
		log.Fatal(err)
	}
	store, err := dynamostore.Open(ctx, client, commit.Layout{}, dynamostore.Options{CreateTables: true})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
}

// A step of the build writes the tables of the program for the tool that manages the account.
func ExampleNewSetup() {
	layout, options := commit.Layout{Table: "shop-events"}, dynamostore.Options{Streams: true} // those that the program opens its store with
	setup, err := dynamostore.NewSetup(nil, layout, options)
	if err != nil {
		log.Fatal(err)
	}
	text, err := setup.Schema("terraform")
	if err != nil {
		log.Fatal(err)
	}
	file := filepath.Join(os.TempDir(), "shop.tf.json")
	defer func() { _ = os.Remove(file) }()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		log.Panic(err)
	}
	template, err := setup.Schema("cloudformation")
	fmt.Print(template, err)
	// Output:
	// {
	//   "AWSTemplateFormatVersion": "2010-09-09",
	//   "Resources": {
	//     "ShopEvents": {
	//       "DeletionPolicy": "Retain",
	//       "Properties": {
	//         "AttributeDefinitions": [
	//           {
	//             "AttributeName": "pid",
	//             "AttributeType": "S"
	//           },
	//           {
	//             "AttributeName": "seq",
	//             "AttributeType": "N"
	//           }
	//         ],
	//         "BillingMode": "PAY_PER_REQUEST",
	//         "KeySchema": [
	//           {
	//             "AttributeName": "pid",
	//             "KeyType": "HASH"
	//           },
	//           {
	//             "AttributeName": "seq",
	//             "KeyType": "RANGE"
	//           }
	//         ],
	//         "StreamSpecification": {
	//           "StreamViewType": "NEW_IMAGE"
	//         },
	//         "TableName": "shop-events"
	//       },
	//       "Type": "AWS::DynamoDB::Table",
	//       "UpdateReplacePolicy": "Retain"
	//     }
	//   }
	// }
	// <nil>
}
