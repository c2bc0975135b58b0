package dynamostore

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// cloudFormation returns a template in JSON with a resource for each of the tables. The logical id of a resource is the name of its table as words that
// begin with a capital letter. CloudFormation keeps the tables when their stack is deleted, and when a change would replace them.
func cloudFormation(tables []*dynamodb.CreateTableInput) string {
	resources := block{}
	for _, in := range tables {
		table := fields(in)
		if s, ok := table["StreamSpecification"].(block); ok {
			delete(s, "StreamEnabled") // CloudFormation has no such property: a view switches the stream on
		}
		resources[unused(resources, capitalized(*in.TableName))] = block{"Type": "AWS::DynamoDB::Table", "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain", "Properties": table}
	}
	return indented(block{"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources})
}

// block is an object of JSON.
type block = map[string]any

// fields are those fields of a request that are set. CloudFormation has the same names for them.
func fields(in any) block {
	text, err := json.Marshal(in)
	if err != nil {
		panic(err) // requests have strings, numbers and booleans only
	}
	var all block
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&all) // it is what Marshal has made
	prune(all)
	return all
}

// prune removes the fields that are not set.
func prune(v any) {
	switch v := v.(type) {
	case block:
		maps.DeleteFunc(v, func(_ string, v any) bool { prune(v); return v == nil || v == "" })
	case []any:
		for _, each := range v {
			prune(each)
		}
	}
}

// capitalized is name without what is neither a letter nor a digit; what follows that begins with a capital letter. It is Table where
// nothing is left.
func capitalized(name string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return !letterOrDigit(r) }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return cmp.Or(b.String(), "Table")
}

func letterOrDigit(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// unused is name, with a number after it where resources has that name already.
func unused(resources block, name string) string {
	free := name
	for n := 2; resources[free] != nil; n++ {
		free = fmt.Sprint(name, n)
	}
	return free
}

// indented is v in JSON.
func indented(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		panic(err) // v has strings, numbers and booleans only
	}
	return b.String()
}
