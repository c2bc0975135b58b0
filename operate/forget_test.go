package operate_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

// The command that follows a dry run, or goes on after an interrupt, deletes no more than this one was allowed to.
func TestNextDeletesTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, nextDeletesTheSame) // where an entity is done before the next one begins
}

func nextDeletesTheSame(t *testing.T) {
	t.Helper()
	s := memstore.New()
	parkAll(t, s, "sums", "broken", "broken", "broken")
	state, err := meter.States.Encode(total{3})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "c"} {
		if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: meter.ID(id), SeqNr: 2, Payload: state}); err != nil {
			t.Fatal(err)
		}
	}
	const flags = "--no-writers --projection sums --rate 1"
	for args, want := range map[string]string{
		"prune --type Meter --keep 2 --after Meter|a " + flags: "next: annals prune --after 'Meter|a' --keep 2 " + flags + " --type Meter --yes\n",
		"prune Meter|a " + flags:                               "next: annals prune 'Meter|a' " + flags + " --yes\n",
		"forget Meter|a --at-once " + flags:                    "next: annals forget 'Meter|a' --at-once " + flags + " --yes\n",
	} {
		if o := run(t, config(s), strings.Fields(args)...); o.status > 1 || !strings.Contains(o.text, want) {
			t.Errorf("%s: %+v, want %s", args, o, want)
		}
	}
	for _, yes := range []string{"", " --yes"} {
		ctx, interrupt := context.WithCancel(t.Context())
		c := config(&faulty.Store{Store: s, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
			if c.ID == meter.ID("b") {
				interrupt()
			}
			return run()
		}})
		o := runWith(ctx, c, strings.Fields("prune --type Meter "+flags+yes)...)
		if want := "next: annals prune " + flags + " --type Meter" + yes + " --after 'Meter|a'\n"; o.status != 2 || !strings.Contains(o.text, want) {
			t.Errorf("%+v, want %s", o, want)
		}
	}
}
