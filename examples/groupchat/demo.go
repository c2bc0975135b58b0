package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/examples/groupchat/profile"
	"github.com/annals-go/annals/examples/groupchat/readmodel"
	"github.com/annals-go/annals/projection"
)

// host is the account that creates the threads of the demo.
const host = "host"

// story is one run of the demo.
type story struct {
	out     io.Writer
	began   time.Time
	store   string // URL
	reads   string // URL of the read model, "" if it is in the store
	threads []string
	posters []*poster
	load    time.Duration
	counts  map[profile.Status]int // of the posters' profiles; nil where the store keeps none
}

// demo serves in a child process, posts under load, kills the process in the middle, starts it again, and shows that every
// acknowledged message is there, once, and that the read model is what the journal says, also after a rebuild. It is an error if not.
func demo(ctx context.Context, args []string, out, log io.Writer) (err error) {
	flags := flag.NewFlagSet("groupchat demo", flag.ContinueOnError)
	threads := flags.Int("threads", 8, "`number` of threads")
	clients := flags.Int("clients", 64, "`number` of clients that post at the same time")
	load := flags.Duration("load", 2*time.Second, "how long they post before the server is killed")
	store := flags.String("store", "", "`url` of the store; a temporary SQLite file by default, mem: shows what loss looks like")
	if err := parse(flags, args, log); err != nil {
		return err
	}
	if *threads < 1 || *clients < *threads {
		return errors.New("a demo wants a thread, and a client for every thread")
	}
	dir, err := os.MkdirTemp("", "groupchat-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &story{out: out, began: time.Now(), store: *store, load: *load}
	switch scheme, _, _ := strings.Cut(*store, ":"); {
	case scheme == "":
		s.store = sqliteURL(filepath.Join(dir, "groupchat.db"))
	case readStores[scheme] == nil:
		s.reads = sqliteURL(filepath.Join(dir, "readmodel.db"))
	}
	for i := range *threads {
		s.threads = append(s.threads, fmt.Sprintf("thread-%d", i+1))
	}
	for i := range *clients {
		s.posters = append(s.posters, &poster{thread: s.threads[i%*threads], account: fmt.Sprintf("client-%d", i+1)})
	}
	return s.tell(ctx)
}

func (s *story) tell(ctx context.Context) error {
	if err := s.crash(ctx); err != nil {
		return err
	}
	return s.recover(ctx)
}

// crash posts under load and kills the server in the middle.
func (s *story) crash(ctx context.Context) error {
	server, err := start(ctx, s.store, s.reads)
	if err != nil {
		return err
	}
	defer server.end()
	s.say("start", "a chat server, process %d, store %s", server.cmd.Process.Pid, s.store)
	c := newClient(server.url, len(s.posters))
	defer c.close()
	for _, thread := range s.threads {
		if err := c.create(ctx, thread, host, "all about "+thread); err != nil {
			return err
		}
	}
	for _, p := range s.posters {
		if err := c.addMember(ctx, p.thread, host, p.account); err != nil {
			return err
		}
	}
	s.say("create", "%d threads, %d members", len(s.threads), len(s.posters))
	if err := s.introduce(ctx, c); err != nil {
		return err
	}

	begin := time.Now()
	wait := s.post(ctx, c)
	select {
	case <-time.After(s.load):
	case <-ctx.Done():
		return ctx.Err()
	}
	took := time.Since(begin)
	if err := server.kill(); err != nil {
		return errors.Join(err, wait())
	}
	if err := wait(); errors.As(err, new(*refusal)) {
		return err
	}
	acknowledged, pending := s.promised()
	if acknowledged == 0 {
		return fmt.Errorf("nothing was acknowledged in %v: there is nothing to lose", s.load)
	}
	s.say("post", "%d messages acknowledged in %.1f s: %.0f events per second from %d clients",
		acknowledged, took.Seconds(), float64(acknowledged)/took.Seconds(), len(s.posters))
	s.say("kill -9", "process %d, in the middle of %d posts", server.cmd.Process.Pid, pending)
	return nil
}

// recover starts the server again and takes stock, before and after the clients go on.
func (s *story) recover(ctx context.Context) error {
	begin := time.Now()
	server, err := start(ctx, s.store, s.reads)
	if err != nil {
		return err
	}
	defer server.end()
	up := time.Since(begin)
	c := newClient(server.url, len(s.posters))
	defer c.close()
	messages := 0
	for _, thread := range s.threads {
		shown, err := c.show(ctx, thread, host)
		if err != nil && !missing(err) {
			return err
		}
		messages += shown.Messages
	}
	s.say("start", "process %d listens after %d ms; %d ms later all %d threads with %d messages are back",
		server.cmd.Process.Pid, up.Milliseconds(), (time.Since(begin) - up).Milliseconds(), len(s.threads), messages)

	t, err := count(ctx, c, s.threads, s.posters)
	if err != nil {
		return err
	}
	_, pending := s.promised()
	s.say("check", "%d acknowledged, %d lost, %d doubled; of the %d without an answer %d were stored",
		t.acknowledged, t.lost, t.doubled, pending, t.landed)
	if err := errors.Join(t.err(), s.recount(ctx, c)); err != nil {
		return err
	}
	if err := s.compare(ctx, c, t.stored); err != nil {
		return err
	}

	stop, cancel := context.WithTimeout(ctx, s.load/2)
	defer cancel()
	if err := s.post(stop, c)(); err != nil {
		return err
	}
	s.say("go on", "the %d are sent again under their ids, and more after them", pending)
	if t, err = count(ctx, c, s.threads, s.posters); err != nil {
		return err
	}
	s.say("check", "%d acknowledged, %d stored, %d lost, %d doubled", t.acknowledged, t.stored, t.lost, t.doubled)
	if err := errors.Join(t.err(), s.compare(ctx, c, t.stored)); err != nil {
		return err
	}
	if err := errors.Join(s.rebuild(ctx), s.compare(ctx, c, t.stored)); err != nil {
		return err
	}
	c.close() // the server would wait for connections that were opened and never used
	if err := server.stop(); err != nil {
		return err
	}
	s.say("done", "nothing that was acknowledged was lost")
	return nil
}

// introduce gives every poster a profile, every second one of them Away.
func (s *story) introduce(ctx context.Context, c *client) error {
	counts := map[profile.Status]int{profile.Active: 0, profile.Away: 0, profile.Left: 0}
	for i, p := range s.posters {
		err := c.setName(ctx, p.account, p.account)
		if answered(err, http.StatusNotImplemented) {
			return nil
		}
		status := profile.Active
		if err == nil && i%2 == 1 {
			status = profile.Away
			err = c.setStatus(ctx, p.account, status)
		}
		if err != nil {
			return err
		}
		counts[status]++
	}
	s.counts = counts
	return nil
}

// recount compares the counts of the profiles with what they were before the crash, and tries a name twice.
func (s *story) recount(ctx context.Context, c *client) error {
	if s.counts == nil {
		return nil
	}
	counts, err := c.counts(ctx)
	if err != nil {
		return err
	}
	first := s.posters[0].account
	found, err := c.byName(ctx, first)
	if err != nil {
		return err
	}
	if !maps.Equal(counts, s.counts) || found.User != first {
		return fmt.Errorf("the profiles count %v, not %v; %q is the name of %q", counts, s.counts, first, found.User)
	}
	if err := c.setName(ctx, "newcomer", first); !answered(err, http.StatusConflict) {
		return errors.Join(errors.New("a name that is taken was not refused"), err)
	}
	s.say("profiles", "%d active, %d away, as before; a name that is taken was refused", counts[profile.Active], counts[profile.Away])
	return nil
}

// compare waits until the read model shows that many messages, then compares all of it with the journal.
func (s *story) compare(ctx context.Context, c *client, messages int) (err error) {
	begin := time.Now()
	if err := s.catchUp(ctx, c, messages); answered(err, http.StatusNotImplemented) {
		return nil
	} else if err != nil {
		return err
	}
	took := time.Since(begin)
	return s.withModel(ctx, func(model *readmodel.Model, journal annals.Store) error {
		same, err := model.Compare(ctx, journal, s.threads...)
		if err != nil {
			return err
		}
		s.say("reads", "after %d ms the read model is what the journal says: %d threads, %d members, %d messages, %d times unread",
			took.Milliseconds(), same.Threads, same.Members, same.Messages, same.Unread)
		return nil
	})
}

// rebuild builds the read model anew while the server runs.
func (s *story) rebuild(ctx context.Context) error {
	return s.withModel(ctx, func(model *readmodel.Model, journal annals.Store) error {
		if model == nil {
			return nil
		}
		begin := time.Now()
		o := projection.Options{Lease: lease, Logger: slog.New(slog.DiscardHandler)}
		if err := model.Rebuild(ctx, journal, o, nil); err != nil {
			return err
		}
		s.say("rebuild", "after %d ms the read model is rebuilt, while the server runs", time.Since(begin).Milliseconds())
		return nil
	})
}

// withModel calls do with the read model, nil if there is none, and the journal.
func (s *story) withModel(ctx context.Context, do func(model *readmodel.Model, journal annals.Store) error) (err error) {
	journal, err := stores.Open(ctx, s.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	model, done, err := openReads(ctx, journal, s.store, s.reads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	return do(model, journal)
}

// catchUp waits until the host's threads in the read model have that many messages.
func (s *story) catchUp(ctx context.Context, c *client, messages int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		threads, err := c.threads(ctx, host)
		if err != nil {
			return err
		}
		shown := 0
		for _, t := range threads {
			shown += t.Messages
		}
		if shown == messages {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("the read model shows %d of %d messages: %w", shown, messages, ctx.Err())
		}
	}
}

// post lets every poster begin, until ctx ends or the server does. The function it returns waits for all of them.
func (s *story) post(ctx context.Context, c *client) (wait func() error) {
	var posting sync.WaitGroup
	errs := make([]error, len(s.posters))
	for i, p := range s.posters {
		posting.Go(func() { errs[i] = p.run(ctx, c) })
	}
	return func() error {
		posting.Wait()
		return errors.Join(errs...)
	}
}

// promised is what the posters know: how many messages were acknowledged, how many are without an answer.
func (s *story) promised() (acknowledged, pending int) {
	for _, p := range s.posters {
		acknowledged += p.acknowledged
		if p.pending {
			pending++
		}
	}
	return acknowledged, pending
}

func (s *story) say(what, format string, args ...any) {
	fmt.Fprintf(s.out, "%5.1f s  %-8s %s\n", time.Since(s.began).Seconds(), what, fmt.Sprintf(format, args...))
}
