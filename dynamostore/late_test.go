package dynamostore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// silent is a client whose first transaction gets no answer. Those after it are throttled.
type silent struct {
	Client
	sent []time.Time
}

func (c *silent) TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	c.sent = append(c.sent, time.Now())
	if len(c.sent) == 1 {
		time.Sleep(10 * time.Second)
		return nil, errors.New("no answer")
	}
	return nil, &types.ProvisionedThroughputExceededException{}
}

// A transaction whose answer was lost has the time at which it was sent first. It is not sent so late that its events would be missed by
// followers that look back as far as they have to.
func TestTransactionIsNotSentLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &silent{}
		e := &engine{clock: time.Now, client: c, tables: map[string]plan.Table{"t": {Name: "t", Hash: plan.Key{Name: "pid"}}}, slots: make(chan struct{}, 1), attempts: defaultAttempts}
		var stamped time.Time
		op := plan.Op{Table: "t", Put: plan.Item{"pid": plan.S("x")}, Stamp: func(now time.Time) { stamped = now }}
		_, err := e.Write(t.Context(), plan.Write{Ops: []plan.Op{op}, Token: plan.NewToken()})
		if !errors.Is(err, annals.ErrUnknown) {
			t.Errorf("got error %v, want ErrUnknown", err)
		}
		if last := c.sent[len(c.sent)-1]; len(c.sent) < 3 || last.Sub(stamped) > keepsTime {
			t.Errorf("sent %d times, the last time %v after the time of its events, want at most %v", len(c.sent), last.Sub(stamped), keepsTime)
		}
		if len(e.slots) != 0 {
			t.Error("a slot is still taken")
		}
	})
}

// reusing is a client whose first transaction gets no answer, and which then says that the token was used with another request.
type reusing struct {
	Client
	tokens []string
}

func (c *reusing) TransactWriteItems(_ context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	if c.tokens = append(c.tokens, *in.ClientRequestToken); len(c.tokens) == 1 {
		return nil, errors.New("no answer")
	}
	return nil, &types.IdempotentParameterMismatchException{}
}

// A write whose token was used with another request is not stored, even if an answer to it was lost.
func TestReusedTokenAfterLostAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &reusing{}
		e := &engine{clock: time.Now, client: c, tables: map[string]plan.Table{"t": {Name: "t", Hash: plan.Key{Name: "pid"}}}, slots: make(chan struct{}, 1), attempts: defaultAttempts}
		_, err := e.Write(t.Context(), plan.Write{Ops: []plan.Op{{Table: "t", Put: plan.Item{"pid": plan.S("x")}}}, Token: plan.TokenOf("x")})
		if !errors.Is(err, annals.ErrConflict) || errors.Is(err, annals.ErrUnknown) || len(c.tokens) != 2 || c.tokens[0] != plan.TokenOf("x") || c.tokens[1] != c.tokens[0] {
			t.Errorf("%v after the tokens %q, want ErrConflict after one token twice", err, c.tokens)
		}
	})
}
