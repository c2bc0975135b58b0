package main

import (
	"context"
	"fmt"

	"github.com/annals-go/annals/examples/groupchat/chat"
)

// poster is an account that posts to one thread, a message at a time, and counts the messages that the server acknowledged.
type poster struct {
	thread, account string
	acknowledged    int  // messages 1 … acknowledged were answered with success
	pending         bool // message acknowledged+1 was sent and not answered
}

// message is the nth message. Because of its id it can be sent again.
func (p *poster) message(n int) chat.Post {
	return chat.Post{Executor: p.account, ID: fmt.Sprintf("%s-%d", p.account, n), Text: fmt.Sprintf("message %d of %s", n, p.account)}
}

// run posts until ctx ends or the server does not answer. A pending message is sent first, with its old id. A request is not
// cancelled when ctx ends: it is answered, or the server has stopped.
func (p *poster) run(ctx context.Context, c *client) error {
	for ctx.Err() == nil {
		p.pending = true
		if err := c.post(context.WithoutCancel(ctx), p.thread, p.message(p.acknowledged+1)); err != nil {
			return err
		}
		p.acknowledged++
		p.pending = false
	}
	return nil
}
