package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/annals-go/annals/examples/groupchat/chat"
)

// tally compares what the server has with what it promised.
type tally struct {
	stored       int // messages in the threads
	acknowledged int // messages whose sender was told so
	lost         int // acknowledged and not there, or with another text
	doubled      int // there more than once
	invented     int // there and never sent
	landed       int // there though the answer never came
}

// count reads every thread and takes stock.
func count(ctx context.Context, c *client, threads []string, posters []*poster) (t tally, err error) {
	stored := map[string][]chat.Listed{} // by thread and id
	for _, thread := range threads {
		messages, err := c.messages(ctx, thread, host)
		if err != nil && !missing(err) {
			return t, fmt.Errorf("read %s: %w", thread, err)
		}
		t.stored += len(messages)
		for _, m := range messages {
			key := thread + "/" + m.ID
			stored[key] = append(stored[key], m)
		}
	}
	for _, p := range posters {
		sent := p.acknowledged
		if p.pending {
			sent++
		}
		t.acknowledged += p.acknowledged
		for n := 1; n <= sent; n++ {
			want := p.message(n)
			key := p.thread + "/" + want.ID
			found := stored[key]
			delete(stored, key)
			right := len(found) > 0 && found[0].Text == want.Text && found[0].Sender == want.Executor
			switch {
			case n > p.acknowledged && right:
				t.landed++
			case n <= p.acknowledged && !right:
				t.lost++
			}
			if len(found) > 1 {
				t.doubled += len(found) - 1
			}
		}
	}
	for _, found := range stored {
		t.invented += len(found)
	}
	return t, nil
}

// missing reports whether err says that there is no such thread: then all its messages are lost.
func missing(err error) bool { return answered(err, http.StatusNotFound) }

// answered reports whether err is an answer with that status.
func answered(err error, status int) bool {
	r := (*refusal)(nil)
	return errors.As(err, &r) && r.code == status
}

// err is nil when every promise was kept.
func (t tally) err() error {
	if t.lost+t.doubled+t.invented > 0 {
		return fmt.Errorf("of %d acknowledged messages %d are lost, %d are doubled; %d were never sent", t.acknowledged, t.lost, t.doubled, t.invented)
	}
	return nil
}
