package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// scripted is a client whose answer to the n-th write, counted from 0, is the error that answer returns.
type scripted struct {
	Client
	sent   []time.Time
	tokens []string // of transactions
	answer func(ctx context.Context, n int) error
}

func (c *scripted) reply(ctx context.Context) error {
	c.sent = append(c.sent, time.Now())
	return c.answer(ctx, len(c.sent)-1)
}

func (c *scripted) PutItem(ctx context.Context, _ *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return &dynamodb.PutItemOutput{}, c.reply(ctx)
}

func (c *scripted) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	c.tokens = append(c.tokens, *in.ClientRequestToken)
	return &dynamodb.TransactWriteItemsOutput{}, c.reply(ctx)
}

func (c *scripted) engine() *engine {
	return &engine{clock: time.Now, client: c, tables: map[string]plan.Table{"t": {Name: "t", Hash: plan.Key{Name: "pid"}}}, slots: make(chan struct{}, 1), attempts: defaultAttempts}
}

func opOn(key string) plan.Op { return plan.Op{Table: "t", Put: plan.Item{"pid": plan.S(key)}} }

// The service forgets a token after ten minutes. Later the transaction would be executed a second time.
func TestTransactionIsNotSentWithAForgottenToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		c := &scripted{answer: func(_ context.Context, n int) error {
			switch {
			case n == 0:
				return errors.New("no answer")
			case time.Since(begun) < 11*time.Minute:
				return &types.ProvisionedThroughputExceededException{}
			}
			return nil
		}}
		e := c.engine()
		own := []types.TransactWriteItem{{Put: &types.Put{TableName: aws.String("theirs"), Item: plan.Item{"k": plan.S("1")}}}}
		if _, err := e.transact(t.Context(), "", nil, own); !errors.Is(err, annals.ErrUnknown) {
			t.Errorf("got error %v, want ErrUnknown", err)
		}
		if last := c.sent[len(c.sent)-1].Sub(begun); last > keepsToken || last < keepsToken/2 {
			t.Errorf("sent until %v after the first try", last)
		}
		if len(e.slots) != 0 {
			t.Error("a slot is still taken")
		}
	})
}

// A transaction whose answer was lost has the time at which it was sent first. It is not sent so late that its events would be missed by
// followers that look back as far as they have to.
func TestTransactionIsNotSentLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &scripted{answer: func(_ context.Context, n int) error {
			if n == 0 {
				time.Sleep(10 * time.Second)
				return errors.New("no answer")
			}
			return &types.ProvisionedThroughputExceededException{}
		}}
		e := c.engine()
		var stamped time.Time
		op := opOn("x")
		op.Stamp = func(now time.Time) { stamped = now }
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

// A write whose token was used with another request is not stored, even if an answer to it was lost.
func TestReusedTokenAfterLostAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &scripted{answer: func(_ context.Context, n int) error {
			if n == 0 {
				return errors.New("no answer")
			}
			return &types.IdempotentParameterMismatchException{}
		}}
		_, err := c.engine().Write(t.Context(), plan.Write{Ops: []plan.Op{opOn("x")}, Token: plan.TokenOf("x")})
		if !errors.Is(err, annals.ErrConflict) || errors.Is(err, annals.ErrUnknown) || len(c.tokens) != 2 || c.tokens[0] != plan.TokenOf("x") || c.tokens[1] != c.tokens[0] {
			t.Errorf("%v after the tokens %q, want ErrConflict after one token twice", err, c.tokens)
		}
	})
}

// The machine is suspended after an answer was lost, so that the monotonic clock stands still. Then a transaction is not sent with a token that the
// service has forgotten, nor with the time that its events had before.
func TestTransactionIsNotSentAfterTheMachineWasSuspended(t *testing.T) {
	t.Parallel()
	stamped := opOn("x")
	stamped.Stamp = func(time.Time) {}
	for _, w := range []plan.Write{{Ops: []plan.Op{opOn("x")}, Token: plan.NewToken()}, {Ops: []plan.Op{stamped, opOn("y")}}} {
		synctest.Test(t, func(t *testing.T) {
			var suspended time.Duration
			c := &scripted{answer: func(context.Context, int) error {
				suspended = time.Hour
				return errors.New("no answer")
			}}
			e := c.engine()
			e.clock = func() time.Time { return time.Now().Add(suspended) }
			if _, err := e.Write(t.Context(), w); !errors.Is(err, annals.ErrUnknown) || len(c.sent) != 1 {
				t.Errorf("%v after %d tries, want ErrUnknown after one", err, len(c.sent))
			}
		})
	}
}

// The last try of a transaction ends before the service forgets its token, whatever the client waits for.
func TestTryOfATransactionEndsBeforeItsTokenIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		c := &scripted{answer: func(ctx context.Context, n int) error {
			switch {
			case n == 0:
				return errors.New("no answer")
			case time.Since(begun) < keepsToken-10*time.Second:
				return &types.ProvisionedThroughputExceededException{}
			}
			select { // for a connection
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(2 * time.Minute):
				return nil
			}
		}}
		own := []types.TransactWriteItem{{Put: &types.Put{TableName: aws.String("theirs"), Item: plan.Item{"k": plan.S("1")}}}}
		_, err := c.engine().transact(t.Context(), "", nil, own)
		if took := time.Since(begun); !errors.Is(err, annals.ErrUnknown) || took > keepsToken+stampedFor || took < keepsToken-10*time.Second {
			t.Errorf("got error %v after %v, want ErrUnknown within %v", err, took, keepsToken+stampedFor)
		}
	})
}

// From its stamp on a try has a bounded time, whatever the client waits for: credentials, a connection or an answer.
func TestTryEndsAfterItsStamp(t *testing.T) {
	t.Parallel()
	for _, ops := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			var stamped, gaveUp time.Time
			c := &scripted{answer: func(ctx context.Context, n int) error {
				if n == 2 {
					return nil
				}
				<-ctx.Done()
				gaveUp = time.Now()
				return ctx.Err()
			}}
			w := plan.Write{}
			for i := range ops {
				w.Ops = append(w.Ops, opOn(fmt.Sprint(i)))
			}
			w.Ops[0].Stamp = func(now time.Time) { stamped = now }
			_, err := c.engine().Write(t.Context(), w)
			switch {
			case ops == 1 && (err != nil || len(c.sent) != 3 || time.Since(stamped) > time.Second):
				t.Errorf("a write: %v after %d tries, %v after its stamp", err, len(c.sent), time.Since(stamped))
			case ops == 2 && (!errors.Is(err, annals.ErrUnknown) || len(c.sent) != 2 || gaveUp.Sub(stamped) > keepsTime+stampedFor): // it keeps its time
				t.Errorf("a transaction: %v after %d tries, %v after its stamp", err, len(c.sent), gaveUp.Sub(stamped))
			}
		})
	}
}

// A request that always meets transactions of others ends, also without a deadline of the caller's.
func TestConflictsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		c := &scripted{answer: func(context.Context, int) error { return &types.TransactionConflictException{} }}
		_, err := c.engine().Write(t.Context(), plan.Write{Ops: []plan.Op{opOn("x")}})
		if took := time.Since(begun); !errors.Is(err, annals.ErrUnavailable) || took < conflictsLast || took > conflictsLast+5*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// A write that another region meets was not stored, and is repeated.
func TestReplicatedWriteConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &scripted{answer: func(_ context.Context, n int) error {
			if n < 3 {
				return &types.ReplicatedWriteConflictException{}
			}
			return nil
		}}
		if _, err := c.engine().Write(t.Context(), plan.Write{Ops: []plan.Op{opOn("x")}}); err != nil || len(c.sent) != 4 {
			t.Errorf("%v after %d tries", err, len(c.sent))
		}
	})
}

// The answer of a write is lost. Then some reasons of its cancelled transactions may pass, beside an item that a later write has made, or
// beside one of the write's own. Such an answer decides nothing; the first one without a reason that may pass does.
func TestMixedReasons(t *testing.T) {
	t.Parallel()
	first, last := opOn("a"), opOn("b")
	last.Ours = func(old plan.Item) bool { w, _ := plan.Text(old, "w"); return w == "own" }
	failed := types.CancellationReason{Code: aws.String("ConditionalCheckFailed"), Item: plan.Item{"w": plan.S("later")}}
	own := types.CancellationReason{Code: aws.String("ConditionalCheckFailed"), Item: plan.Item{"w": plan.S("own")}}
	for _, code := range []string{"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"} {
		other := types.CancellationReason{Code: &code}
		for _, mixed := range [][]types.CancellationReason{{failed, other}, {other, own}} {
			synctest.Test(t, func(t *testing.T) {
				c := &scripted{answer: func(_ context.Context, n int) error {
					if n == 0 {
						return errors.New("no answer")
					}
					reasons := [][]types.CancellationReason{mixed, mixed, {failed, own}}[n-1]
					return &types.TransactionCanceledException{CancellationReasons: reasons}
				}}
				out, err := c.engine().Write(t.Context(), plan.Write{Ops: []plan.Op{first, last}, Refused: func(_ []plan.Item, open bool) error {
					return fmt.Errorf("refused, open %v", open)
				}})
				if err != nil || !out.Repeated || out.Old[0] == nil || out.Old[1] == nil {
					t.Errorf("%s: %+v, %v", code, out, err)
				}
			})
		}
	}
}

// What the reasons of a cancelled transaction say together.
func TestClassOfReasons(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		codes []string
		want  class
	}{
		{[]string{"None", "ConditionalCheckFailed"}, refused},
		{[]string{"", "ConditionalCheckFailed", "TransactionConflict"}, busy},
		{[]string{"TransactionConflict", "ThrottlingError", "ConditionalCheckFailed"}, throttled},
		{[]string{"ThrottlingError", "ItemCollectionSizeLimitExceeded", "ConditionalCheckFailed"}, wrong},
		{[]string{"ConditionalCheckFailed", "SomethingNew"}, down},
		{[]string{"None", "None"}, down},
		{nil, down},
	} {
		var reasons []types.CancellationReason
		for _, code := range c.codes {
			reasons = append(reasons, types.CancellationReason{Code: &code})
		}
		if got := classify(&smithy.OperationError{Err: &types.TransactionCanceledException{CancellationReasons: reasons}}); got != c.want {
			t.Errorf("%q is of class %d, want %d", c.codes, got, c.want)
		}
	}
}
