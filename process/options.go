package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/internal/panics"
	"github.com/annals-go/annals/projection"
)

// Options configure a Runner. The zero Options suit most programs.
type Options struct {
	// Parallel is how many instances, or recipients, are served at the same time at most, for each range of slices; 0: 64. Instances whose timers
	// are due are served together for all ranges, so there are Ranges times as many.
	Parallel    int
	SendTimeout time.Duration // of one command; 0: 10 s. A recipient that takes longer holds up others of its range for so long, a third of the time

	From   annals.Offset // where a process begins that has never run, in each source, as in projection.Options; zero: with the first event
	Ranges int           // as in projection.Options
	Lease  time.Duration // as in projection.Options
	// Poll is as in projection.Options, but 0 is 1 s where the store of the events is no ability.Watcher, such as one on DynamoDB: each step of a
	// process waits for a look. A longer one costs less.
	Poll time.Duration
	// Precision is how much later than its time a timer may take effect; a Runner reads a small durable state so often. At least 1 ms; 0: 1 s. The
	// first Runner of a process decides.
	Precision time.Duration

	// ErrorText makes what Control shows of an error, as in projection.Options.
	ErrorText func(err error) string
	// Observer is told of the operations of the projections and of the aggregate.Repository that a Runner consists of. May be nil.
	Observer annals.Observer
	Logger   *slog.Logger // for failures and rejections; nil: slog.Default()
}

func (o *Options) setDefaults() error {
	var faults []error
	if o.Parallel < 0 {
		faults = append(faults, fmt.Errorf("Options.Parallel is %d", o.Parallel))
	}
	if o.SendTimeout < 0 {
		faults = append(faults, fmt.Errorf("Options.SendTimeout is %v", o.SendTimeout))
	}
	o.Parallel, o.SendTimeout = cmp.Or(o.Parallel, 64), min(cmp.Or(o.SendTimeout, 10*time.Second), math.MaxInt64/4)
	o.Logger = panics.Logger(o.Logger)
	return errors.Join(faults...)
}

func (o *Options) aggregate() aggregate.Options {
	return aggregate.Options{Observer: o.Observer, Logger: o.Logger}
}

// sending is how long the commands of some steps are sent, beside the longest time of one command. Then it is noted which were executed.
const sending = 4 * time.Minute

// pollAlone is Options.Poll where nothing signals new events.
const pollAlone = time.Second

// projection returns the Options of a projection of the events of s.
func (o *Options) projection(s annals.Store, from annals.Offset, onError func(context.Context, projection.Failure) projection.Verdict) projection.Options {
	poll := o.Poll
	if _, err := ability.Of[ability.Watcher](s); err != nil {
		poll = cmp.Or(poll, pollAlone)
	}
	return projection.Options{
		From: from, Ranges: o.Ranges, Lease: o.Lease, Poll: poll, HandlerTimeout: o.SendTimeout + sending + time.Minute,
		OnError: onError, ErrorText: o.ErrorText, Observer: o.Observer, Logger: o.Logger,
	}
}
