package stream

import (
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// itemOf returns an image with the types of a table's items; nil when there is none.
func itemOf(image map[string]streams.AttributeValue) plan.Item {
	if image == nil {
		return nil
	}
	it := make(plan.Item, len(image))
	for name, v := range image {
		it[name] = valueOf(v)
	}
	return it
}

func valueOf(v streams.AttributeValue) types.AttributeValue {
	switch v := v.(type) {
	case *streams.AttributeValueMemberS:
		return &types.AttributeValueMemberS{Value: v.Value}
	case *streams.AttributeValueMemberN:
		return &types.AttributeValueMemberN{Value: v.Value}
	case *streams.AttributeValueMemberB:
		return &types.AttributeValueMemberB{Value: v.Value}
	case *streams.AttributeValueMemberBOOL:
		return &types.AttributeValueMemberBOOL{Value: v.Value}
	case *streams.AttributeValueMemberNULL:
		return &types.AttributeValueMemberNULL{Value: v.Value}
	case *streams.AttributeValueMemberM:
		return &types.AttributeValueMemberM{Value: itemOf(v.Value)}
	case *streams.AttributeValueMemberL:
		list := make([]types.AttributeValue, len(v.Value))
		for i, v := range v.Value {
			list[i] = valueOf(v)
		}
		return &types.AttributeValueMemberL{Value: list}
	case *streams.AttributeValueMemberSS:
		return &types.AttributeValueMemberSS{Value: v.Value}
	case *streams.AttributeValueMemberNS:
		return &types.AttributeValueMemberNS{Value: v.Value}
	case *streams.AttributeValueMemberBS:
		return &types.AttributeValueMemberBS{Value: v.Value}
	case *streams.UnknownUnionMember:
		return &types.UnknownUnionMember{Tag: v.Tag, Value: v.Value}
	}
	return nil
}
