package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/findings"
	"github.com/annals-go/annals/internal/quote"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// mostApart is the difference of two clocks that is worth a word. Answers have the time of the service in whole seconds.
const mostApart = 5 * time.Second

// examine calls what Open calls, without an end at the first refusal, and looks at what Open does not look at.
func (s *setup) examine(ctx context.Context) (found findings.List, err error) {
	if err := s.examineClock(ctx, &found); err != nil {
		return found, err
	}
	fits := map[string]bool{}
	all := true
	for _, t := range s.store.allTables(s.o) {
		if fits[t.Name], err = s.examineTable(ctx, &found, t); err != nil {
			return found, err
		}
		all = all && fits[t.Name]
	}
	check := func(check plan.Check, tables ...plan.Table) {
		for _, t := range tables {
			if err != nil || check == nil || !fits[t.Name] {
				return
			}
		}
		wrong := check(ctx, lookOnly{s.store.engine}, false)
		switch {
		case !errors.Is(wrong, errWrites):
		case s.o.ReadOnly:
			wrong = s.store.refuseItems(ctx, tables)
		default:
			found.Add(ability.Note, "settings", "the next Open stores the settings of the layout, or fills its index", "", "")
			return
		}
		err = found.Refused(wrong, "settings")
	}
	check(s.store.offer.Check, s.store.offer.Tables...)
	for _, own := range s.store.ownTables() {
		check(own.Check, own.Table)
	}
	if feed := s.store.offer.Feed; err == nil && s.o.Subscriptions.Table != "" && fits[feed.Table] {
		_, wrong := s.store.engine.streamOf(ctx, feed.Table)
		err = found.Refused(wrong, "stream")
	}
	if err == nil && all {
		err = found.Refused(s.store.learnIndexes(), "index")
	}
	if claims := s.store.Capabilities(); err == nil && claims.Lateness > 0 {
		found.Add(ability.Note, "lateness", fmt.Sprintf("claimed lateness: %v, which must be more than the clocks of all writers and readers differ", claims.Lateness), "", "")
	}
	if err == nil {
		found.Add(ability.Note, "not-checked", "how late indexes are was not looked at", "", "")
	}
	if err == nil && !s.o.ReadOnly {
		found.Add(ability.Note, "not-checked", "the right to BatchWriteItem was not tried, because it would write", "", "")
	}
	return found, err
}

// lookOnly is the engine of a store that is open for reading only, and for checks, which must not store what they would store when a store is opened.
type lookOnly struct{ *engine }

var errWrites = errors.New("nothing is written")

func (lookOnly) Write(context.Context, plan.Write) (plan.Outcome, error) {
	return plan.Outcome{}, errWrites
}

func (lookOnly) DeleteAll(context.Context, string, []plan.Item) error { return errWrites }

func (l lookOnly) Then(ctx context.Context, do func(ctx context.Context, x plan.Executor) error) error {
	return do(ctx, l)
}

// examineClock compares the clock of the service with that of this machine.
func (s *setup) examineClock(ctx context.Context, found *findings.List) error {
	if len(s.store.offer.Tables) == 0 {
		return nil
	}
	asked := time.Now()
	out, err := s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.store.offer.Tables[0].Name}, once)
	if err != nil {
		return nil //nolint:nilerr // examineTable tells of it
	}
	if now, ok := middleware.GetServerTime(out.ResultMetadata); ok {
		found.Clock(now, asked.Add(-time.Second), time.Now(), mostApart, "events have the time of their writer: followers of a store with queries may skip events of one whose clock is behind by more than the claimed lateness")
	} else {
		found.Add(ability.Note, "not-checked", "the clock was not compared: the service does not tell its time", "", "")
	}
	return nil
}

// examineTable looks at a table and the rights to it. fits is whether Open goes on with it.
func (s *setup) examineTable(ctx context.Context, found *findings.List, t plan.Table) (fits bool, err error) {
	e := s.store.engine
	e.tables[t.Name] = t
	description, err := e.describe(ctx, t.Name)
	switch {
	case lacksRight(err):
		found.Add(ability.Refused, "right", "there is no right to dynamodb:DescribeTable on table "+quote.Text(t.Name), "Open fails", "allow the action")
		return false, nil
	case err != nil:
		return false, err
	case description == nil:
		found.Differs(ability.Refused, "table", fmt.Sprintf("table %q does not exist", t.Name), "Open refuses it", "Migrate creates it")
		return false, nil
	}
	if !active(description) {
		found.Add(ability.Problem, "not-active", fmt.Sprintf("table %q, or an index of it, is not active but %s", t.Name, description.TableStatus), "Open waits for it", "wait")
	}
	wrong := verify(t, description)
	if err := found.Refused(wrong, "table"); err != nil {
		return false, err
	}
	e.described[t.Name] = description
	about := func(severity ability.Severity, code, text, means, do string) {
		found.Add(severity, code, fmt.Sprintf("table %q: %s", t.Name, text), means, do)
	}
	billing := "provisioned"
	if b := description.BillingModeSummary; b != nil && b.BillingMode == types.BillingModePayPerRequest {
		billing = "on demand"
	}
	stream := "none"
	if d := description.StreamSpecification; d != nil && aws.ToBool(d.StreamEnabled) {
		stream = string(d.StreamViewType)
	}
	about(ability.Note, "table", fmt.Sprintf("billing %s, stream %s, deletion protection %t", billing, stream, aws.ToBool(description.DeletionProtectionEnabled)), "", "")
	if t.Stream && stream == "none" && s.o.Streams {
		found.Differs(ability.Problem, "stream", fmt.Sprintf("table %q has no stream", t.Name), "its events cannot be followed by the stream", "schema apply adds it, or "+streamCommand(t.Name))
	}
	s.examineExpiry(ctx, t, about)
	s.examineBackups(ctx, t, about)
	return wrong == nil, s.examineRights(ctx, found, t, description)
}

// about adds a finding about a table.
type about func(severity ability.Severity, code, text, means, do string)

// examineExpiry looks at the time to live.
func (s *setup) examineExpiry(ctx context.Context, t plan.Table, about about) {
	out, err := s.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &t.Name}, once)
	switch {
	case err != nil || out.TimeToLiveDescription == nil:
		about(ability.Note, "not-checked", "time to live was not looked at: "+reason(err), "", "allow dynamodb:DescribeTimeToLive")
	case out.TimeToLiveDescription.TimeToLiveStatus == types.TimeToLiveStatusEnabled:
		about(ability.Problem, "time-to-live", fmt.Sprintf("time to live is on, by the attribute %q", aws.ToString(out.TimeToLiveDescription.AttributeName)),
			"after an item has expired its number can be used again",
			fmt.Sprintf("aws dynamodb update-time-to-live --table-name %s --time-to-live-specification Enabled=false,AttributeName=%s", quote.Text(t.Name), quote.Text(aws.ToString(out.TimeToLiveDescription.AttributeName))))
	}
}

// examineBackups looks at point-in-time recovery.
func (s *setup) examineBackups(ctx context.Context, t plan.Table, about about) {
	out, err := s.client.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &t.Name}, once)
	switch {
	case err != nil || out.ContinuousBackupsDescription == nil:
		about(ability.Note, "not-checked", "point-in-time recovery was not looked at: "+reason(err), "", "allow dynamodb:DescribeContinuousBackups")
	case out.ContinuousBackupsDescription.PointInTimeRecoveryDescription == nil,
		out.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus != types.PointInTimeRecoveryStatusEnabled:
		about(ability.Note, "backups", "point-in-time recovery is off", "what is deleted by mistake is lost", "aws dynamodb update-continuous-backups --table-name "+quote.Text(t.Name)+" --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true")
	}
}

// reason is the code of an error of the service.
func reason(err error) string {
	if api := smithy.APIError(nil); errors.As(err, &api) {
		return api.ErrorCode()
	}
	return "the service does not tell"
}

// examineRights tries each action with a request that changes nothing.
func (s *setup) examineRights(ctx context.Context, found *findings.List, t plan.Table, description *types.TableDescription) error {
	e, c := s.store.engine, s.client
	key := unusedKey(t)
	names := map[string]string{"#hash": t.Hash.Name}
	never := aws.String("attribute_exists(#hash) AND attribute_not_exists(#hash)")
	const reading = 4 // of the actions, which are the first
	actions := []action{
		{"GetItem", try(c.GetItem, &dynamodb.GetItemInput{TableName: &t.Name, Key: key})},
		{"BatchGetItem", try(c.BatchGetItem, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{t.Name: {Keys: []plan.Item{key}}}})},
		{"Query", try(c.Query, queryOf(t.Name, nil, t.Hash))},
		{"Scan", try(c.Scan, &dynamodb.ScanInput{TableName: &t.Name, Limit: aws.Int32(1)})},
		{"PutItem", try(c.PutItem, &dynamodb.PutItemInput{TableName: &t.Name, Item: key, ConditionExpression: never, ExpressionAttributeNames: names})},
		{"UpdateItem", try(c.UpdateItem, &dynamodb.UpdateItemInput{TableName: &t.Name, Key: key, ConditionExpression: never, ExpressionAttributeNames: names})},
		{"DeleteItem", try(c.DeleteItem, &dynamodb.DeleteItemInput{TableName: &t.Name, Key: key, ConditionExpression: never, ExpressionAttributeNames: names})},
		{"ConditionCheckItem", try(c.TransactWriteItems, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{
			ConditionCheck: &types.ConditionCheck{TableName: &t.Name, Key: key, ConditionExpression: never, ExpressionAttributeNames: names}}}})},
	}
	if s.o.ReadOnly {
		actions = actions[:reading]
	}
	for _, i := range t.Indexes {
		if _, ok := theIndex(description, i); ok {
			actions = append(actions, action{"Query on its index " + i.Name, try(c.Query, queryOf(t.Name, &i.Name, i.Hash))})
		}
	}
	var lacking []string
	for _, a := range actions {
		_, failed, err := e.run(ctx, request{keys: func() []string { return nil }, send: a.send})
		switch {
		case err == nil, failed == refused:
		case lacksRight(err):
			lacking = append(lacking, a.name)
		case failed == wrong:
			found.Add(ability.Problem, "request", fmt.Sprintf("table %q: the service refuses %s: %s", t.Name, a.name, reason(err)), "the store cannot use it", "")
		default:
			return err
		}
	}
	if lacking != nil {
		found.Add(ability.Problem, "right", fmt.Sprintf("table %q: there is no right to %s", t.Name, strings.Join(lacking, ", ")), "calls that need it are ErrInvalid", "allow the actions on the table and its indexes")
	}
	return nil
}

// action is a request for which a right is needed.
type action struct {
	name string
	send func(ctx context.Context) error
}

// try returns a function that sends in.
func try[I, O any](send func(context.Context, *I, ...func(*dynamodb.Options)) (*O, error), in *I) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := send(ctx, in, once)
		return err
	}
}

// queryOf asks for the items of a partition that does not exist.
func queryOf(table string, index *string, hash plan.Key) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{TableName: &table, IndexName: index, KeyConditionExpression: aws.String("#hash = :hash"), ExpressionAttributeNames: map[string]string{"#hash": hash.Name},
		ExpressionAttributeValues: unusedKey(plan.Table{Hash: plan.Key{Name: ":hash", Number: hash.Number}})}
}

// lacksRight reports whether the service has refused err for a missing right.
func lacksRight(err error) bool {
	api := smithy.APIError(nil)
	if canceled := (*types.TransactionCanceledException)(nil); errors.As(err, &canceled) {
		for _, r := range canceled.CancellationReasons {
			if strings.HasPrefix(aws.ToString(r.Code), "AccessDenied") {
				return true
			}
		}
	}
	return errors.As(err, &api) && strings.HasPrefix(api.ErrorCode(), "AccessDenied")
}
