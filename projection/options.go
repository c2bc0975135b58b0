package projection

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
	"github.com/annals-go/annals/internal/panics"
)

// Options configure a Runner. The zero Options suit most projections.
type Options struct {
	// Ranges is into how many ranges the slices are divided. Each range is handled by one goroutine at a time, of one of the runners. It
	// divides 1024; 0: 4. The first runner of a projection decides; others use it too, until none is running.
	Ranges int
	// BatchSize is the most events of one transaction, or between two saves; 0: 100, and up to 1,000 while a Runner is far behind and handles a
	// batch within half a second. A Runner uses smaller batches for a while where the store says ErrTooLarge, or does not wait for the handler.
	BatchSize int
	// HandlerTimeout is how long a call of the handler may take; 0: 5 minutes. Then the context of the call ends, and an error that the handler
	// returns is a failure of its events. When it does not return soon after that either, within Lease or HandlerTimeout, its transaction is undone,
	// and its range is given to another runner, if there is one; the promises hold. In this process it goes on when the handler has
	// returned. On SQLite all writers of the file wait for the transaction until then.
	HandlerTimeout time.Duration
	// Lease is how long a process may show no sign of life until other runners take its ranges; at least 10 ms; 0: 10 s. Each runner writes
	// to the store three times in that time, and the runners of a projection write one after another. So make it longer than three times the
	// time of a write for each runner with a range; the others do not write. With a shorter one runners can take each other for dead, and ranges
	// move; no event is left out or doubled. A runner that loses a range so before it has saved anything of it gets a lease twice as long for a while, up to
	// an hour: so ranges go on, and the others wait longer when it is killed.
	Lease time.Duration
	// Poll is the most time between two looks for new events; 0: 4 s where the store of the events is an ability.Watcher, which signals new
	// events, and 7 s elsewhere. There a range looks half as often as it has had new events of late, but not more often than every second: an event
	// waits about as long as the time from one event of the range to the next. A Poll of 1 s is faster and costs more: on DynamoDB a look is one
	// request for each of the 16 partitions of an entity type in the slices of the range, four with 4 ranges.
	Poll time.Duration
	// Audit is for how long events are found that become visible later than their store promises: see query.Options.Audit; 0: 2 minutes where
	// Capabilities.Lateness is not zero; negative: they are not looked for. Such an event is handled, after it was recorded as a parked entity
	// for a moment, logged, and counted in Status.Late.
	Audit time.Duration
	From  annals.Offset // where a projection begins that has saved nothing, which is saved then; zero: the first event
	// OnError decides what happens to an event whose handler has failed. It is called from one goroutine of each range. nil: Retry,
	// which is also what happens when OnError panics. A lost connection can be the reason, too: Retry at the first few tries, as f.Try says.
	OnError func(ctx context.Context, f Failure) Verdict
	// ErrorText makes ParkedEntity.Error, which everybody can read who reads the store: at most 256 bytes of the text are kept. nil: the Go
	// type of the error. With error.Error the texts are kept as they are; they may contain parts of payloads.
	ErrorText func(err error) string
	// Observer is told of each batch and of each decision. Call.Store is "projection/" and the name, and Call.Op is one of these: "handle"
	// handles a batch and saves, with Result.Events and Result.Lag; "retry", "skip", "park" and "stop" are what OnError says of an event
	// of the entity Call.ID, with Result.Err; "late" comes at most once a minute for a range when events have become visible too late, with
	// Call.Events and the entity of the last of them; "warning" comes at most once a minute with a Result.Warning of the store of the events, on
	// whose watermark the projection relies; "stuck" comes when a range has not gone on for 30 seconds, 1 minute, 2 minutes and so
	// on, with that time and a Result.Warning; "take" and "release" come when the Runner gets and gives up a range, and "lose" when it finds that
	// another Runner has taken the range over, or that the projection was set back. annals.Batch has the events of "handle". A handler that does not
	// return is a Start of "handle" without an End. May be nil.
	Observer annals.Observer
	Logger   *slog.Logger // for failures and how they were decided; nil: slog.Default()
}

// maxBatch keeps a batch below what a reader would hold in memory without need.
const maxBatch = 10_000

const (
	pollWatched = 4 * time.Second
	pollAlone   = 7 * time.Second

	batchSize, farBatch = 100, 1000
	handlerTimeout      = 5 * time.Minute
)

func (o *Options) setDefaults(events annals.Store) {
	poll := pollAlone
	if _, err := ability.Of[ability.Watcher](events); err == nil {
		poll = pollWatched
	}
	o.Poll = cmp.Or(o.Poll, poll)
	o.Ranges = cmp.Or(o.Ranges, 4)
	o.BatchSize = cmp.Or(o.BatchSize, batchSize)
	o.HandlerTimeout = min(cmp.Or(o.HandlerTimeout, handlerTimeout), math.MaxInt64/2) // the grace is added to it
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	if o.OnError == nil {
		o.OnError = func(context.Context, Failure) Verdict { return Retry }
	}
	if o.ErrorText == nil {
		o.ErrorText = typeOf
	}
	o.Observer, o.Logger = panics.Observer(o.Observer), panics.Logger(o.Logger)
}

func (o *Options) faults() error {
	var faults []error
	if o.Ranges < 0 || o.Ranges > 0 && annals.SliceCount%o.Ranges != 0 {
		faults = append(faults, fmt.Errorf("Options.Ranges is %d, and does not divide %d", o.Ranges, annals.SliceCount))
	}
	if o.BatchSize < 0 || o.BatchSize > maxBatch {
		faults = append(faults, fmt.Errorf("Options.BatchSize is %d, not between 0 and %d", o.BatchSize, maxBatch))
	}
	if o.Lease != 0 && o.Lease < 10*time.Millisecond {
		faults = append(faults, fmt.Errorf("Options.Lease is %v, less than 10 ms", o.Lease))
	}
	if o.HandlerTimeout < 0 {
		faults = append(faults, fmt.Errorf("Options.HandlerTimeout is negative: %v", o.HandlerTimeout))
	}
	if o.Poll < 0 {
		faults = append(faults, fmt.Errorf("Options.Poll is negative: %v", o.Poll))
	}
	return errors.Join(faults...)
}

// Failure is an event whose handler has failed.
type Failure struct {
	Event annals.Event
	Err   error // of the handler or the codec, ErrPanic after a panic, or why the store did not take the handler's writes
	Try   int   // 1 for the first
}

// Verdict is what happens to an event whose handler has failed.
type Verdict int

// What happens to the event, and to the later ones.
const (
	Retry Verdict = iota // handle it again after at most half a second, for ever; the later events of its range wait
	Skip                 // go on as if it had been handled
	// Park leaves out the event and the later ones of its entity until Control.Retry or Control.Discard, and goes on with the others. When
	// the parked entities of a slice do not fit into one durable state of the store any more, Park is Stop, and so is a retry that has failed.
	Park
	Stop // end Run with the error
)

// name is v as an operation.
func (v Verdict) name() string {
	switch v {
	case Retry:
		return "retry"
	case Skip:
		return "skip"
	case Park:
		return "park"
	case Stop:
		return "stop"
	}
	return fmt.Sprintf("Verdict(%d)", int(v))
}
