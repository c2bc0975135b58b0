package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/servers/postgres"
)

// asProgram makes this test binary play the program, in the child processes that the demo starts.
const asProgram = "GROUPCHAT_AS_PROGRAM"

func TestMain(m *testing.M) {
	// For the DynamoDB of the tests, also in child processes; no credentials of the user are used.
	_ = os.Setenv("AWS_ACCESS_KEY_ID", "test")
	_ = os.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	defer postgres.Stop()
	defer dynamo.Stop()
	m.Run()
}

// tell runs the demo, small, and returns what it printed.
func tell(t *testing.T, args ...string) (string, error) {
	t.Helper()
	t.Setenv(asProgram, "1")
	var out, log bytes.Buffer
	err := run(t.Context(), append([]string{"demo", "-threads=2", "-clients=8", "-load=500ms"}, args...), &out, &log)
	if log.Len() > 0 {
		t.Errorf("the log says %s", log.String())
	}
	return out.String(), err
}

func TestDemo(t *testing.T) {
	out, err := tell(t)
	toldInOrder(t, out, err, "profiles 4 active, 4 away.*")
}

// On the tables of the event-store-adapter libraries, which cannot be queried, the read model follows the stream of the journal table.
func TestDemoOnESA(t *testing.T) {
	out, err := tell(t, "-store", esa(t))
	toldInOrder(t, out, err, "")
}

func toldInOrder(t *testing.T, out string, err error, profiles string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	inOrder := regexp.MustCompile(`(?s)start .*create .*post +[1-9]\d* messages.*kill -9.*start .*check .* 0 lost, 0 doubled.*` + profiles + `reads .*2 threads, 10 members.*` +
		`go on.*check .* 0 lost, 0 doubled.*reads .*2 threads, 10 members.*rebuild .*reads .*2 threads, 10 members.*done`)
	if !inOrder.MatchString(out) {
		t.Errorf("the story reads\n%s", out)
	}
}

// A store that forgets is found out.
func TestDemoFindsLoss(t *testing.T) {
	out, err := tell(t, "-store", "mem:")
	if err == nil || !strings.Contains(err.Error(), "are lost") {
		t.Errorf("error %v\n%s", err, out)
	}
}

func TestDemoFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"sing"}, {"demo", "now"}, {"demo", "-loud"}, {"demo", "-threads=0"}, {"demo", "-threads=3", "-clients=2"}, {"serve", "now"}} {
		var out, log bytes.Buffer
		if err := run(t.Context(), args, &out, &log); err == nil || out.Len() > 0 {
			t.Errorf("%q: error %v, output %q", args, err, out.String())
		}
	}
}

// The tally sees every way in which a server can break its promise.
func TestTally(t *testing.T) {
	t.Parallel()
	ann := &poster{thread: "t", account: "ann", acknowledged: 3, pending: true}
	listed := func(p *poster, n int) chat.Listed {
		m := p.message(n)
		return chat.Listed{ID: m.ID, Sender: m.Executor, Text: m.Text}
	}
	all := []chat.Listed{listed(ann, 1), listed(ann, 2), listed(ann, 3)}
	for name, c := range map[string]struct {
		messages []chat.Listed
		want     tally
	}{
		"as promised":    {all, tally{stored: 3, acknowledged: 3}},
		"one more":       {append(all[:3:3], listed(ann, 4)), tally{stored: 4, acknowledged: 3, landed: 1}},
		"lost":           {all[1:], tally{stored: 2, acknowledged: 3, lost: 1}},
		"doubled":        {append(all[:3:3], listed(ann, 2)), tally{stored: 4, acknowledged: 3, doubled: 1}},
		"never sent":     {append(all[:3:3], listed(ann, 5)), tally{stored: 4, acknowledged: 3, invented: 1}},
		"another text":   {append(all[:2:2], chat.Listed{ID: "ann-3", Sender: "ann", Text: "x"}), tally{stored: 3, acknowledged: 3, lost: 1}},
		"another sender": {append(all[:2:2], chat.Listed{ID: "ann-3", Sender: "bob", Text: ann.message(3).Text}), tally{stored: 3, acknowledged: 3, lost: 1}},
	} {
		service := serveThreads(t, threadsFunc(func(context.Context, string, chat.Command) (chat.View, error) {
			return chat.View{Page: c.messages}, nil
		}))
		got, err := count(t.Context(), newClient(service.URL, 1), []string{"t"}, []*poster{ann})
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
		if broken := c.want.lost+c.want.doubled+c.want.invented > 0; (got.err() != nil) != broken {
			t.Errorf("%s: verdict %v", name, got.err())
		}
	}
}
