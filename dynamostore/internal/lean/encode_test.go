package lean_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/schemas"
	"github.com/aws/smithy-go"
)

// The values in inputs are of the kinds that are encoded.
func TestKinds(t *testing.T) {
	t.Parallel()
	seen := map[*smithy.Schema]bool{}
	var look func(path string, s *smithy.Schema)
	look = func(path string, s *smithy.Schema) {
		if seen[s] {
			return
		}
		seen[s] = true
		switch s.Type() {
		case smithy.ShapeTypeStructure, smithy.ShapeTypeUnion, smithy.ShapeTypeMap, smithy.ShapeTypeList, smithy.ShapeTypeString, smithy.ShapeTypeBoolean,
			smithy.ShapeTypeInteger, smithy.ShapeTypeBlob:
		case smithy.ShapeTypeEnum: // its members are values
			return
		default:
			t.Errorf("%s has the kind %d", path, s.Type())
		}
		for name, member := range s.Members() {
			if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) || r > unicode.MaxASCII }) {
				t.Errorf("the name %q has other characters than letters", name)
			}
			look(path+"."+name, member)
		}
	}
	for name, s := range map[string]*smithy.Schema{
		"GetItem": schemas.GetItemInput, "BatchGetItem": schemas.BatchGetItemInput, "TransactGetItems": schemas.TransactGetItemsInput, "Query": schemas.QueryInput, "Scan": schemas.ScanInput,
		"PutItem": schemas.PutItemInput, "UpdateItem": schemas.UpdateItemInput, "DeleteItem": schemas.DeleteItemInput, "BatchWriteItem": schemas.BatchWriteItemInput,
		"TransactWriteItems": schemas.TransactWriteItemsInput,
	} {
		look(name, s)
	}
}
