package projection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/claims"
	"github.com/annals-go/annals/internal/document"
	"github.com/annals-go/annals/internal/progress"
	"github.com/annals-go/annals/internal/quote"
	"github.com/annals-go/annals/internal/valid"
)

// Runner runs one projection. ExactlyOnce, AtLeastOnce and their grouped variants make one.
type Runner struct {
	name    string
	stream  stream
	offsets annals.Store
	o       Options
	deliver deliver
	orders  atomic.Int64 // record.Orders
	most    int          // events in a batch, while the Runner is far behind
	turns   *turns
	healths sync.Map // *condition of each range that the Runner has had
	waits   waits
}

// deliver handles the events of s and saves its progress. It returns how many of the events were handled and saved. The error is a
// *failure when an event could not be handled, otherwise the store's or errLater.
type deliver func(ctx context.Context, s step) (int, error)

func newRunner(name string, from stream, codec any, offsets annals.Store, handles bool, o Options, d deliver) (*Runner, error) {
	faults := []error{o.faults(), valid.Codec(codec), valid.FilterFault(from.filter())}
	switch {
	case name == "":
		faults = append(faults, errors.New("the projection has no name"))
	case from.store == nil:
		faults = append(faults, errors.New("Source.Store is nil"))
	case codec == nil:
		faults = append(faults, errors.New("Source.Codec is nil"))
	case offsets == nil || !handles:
		faults = append(faults, errors.New("a store or the handler is missing"))
	}
	if progress.Internal(annals.PersistenceID(from.Type + "|")) {
		faults = append(faults, fmt.Errorf("Source.Type is %s: \"annals.\" begins the types of the library, which are not handed over", quote.Text(from.Type)))
	}
	if strings.HasPrefix(name, "annals.") {
		faults = append(faults, errors.New("\"annals.\" begins the names of the library"))
	}
	if name != "" && offsets != nil { // what a store would refuse later
		faults = append(faults, valid.ID("run projection", waitedOf(name, annals.SliceCount-1).ID, offsets.Capabilities().Limits))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, invalid(name, err)
	}
	follows := claims.EventFeed
	if from.States {
		follows = claims.StateFeed
	}
	if err := errors.Join(claims.Refusal(name, from.store.Capabilities(), follows), claims.Refusal(name, offsets.Capabilities(), claims.Projection)); err != nil {
		return nil, err
	}
	r := &Runner{name: name, stream: from, offsets: offsets, most: cmp.Or(o.BatchSize, farBatch), turns: newTurns()}
	o.setDefaults(from.store)
	if most := offsets.Capabilities().Limits.MaxOffsets; most > 0 {
		o.BatchSize, r.most = min(o.BatchSize, most), min(r.most, most)
	}
	r.o = o
	d = r.observed(d)
	r.deliver = func(ctx context.Context, s step) (int, error) {
		ctx, s.health = finishing(ctx), r.health(s.progress.Slices)
		defer r.turns.take(ctx)()
		done, err := d(ctx, s)
		if err == nil || done > 0 {
			r.waits.stepped(s)
		}
		return done, err
	}
	return r, nil
}

// health returns that of a range.
func (r *Runner) health(slices annals.SliceRange) *condition {
	h, _ := r.healths.LoadOrStore(slices, &condition{timeout: r.o.HandlerTimeout, grace: min(r.o.Lease, r.o.HandlerTimeout), text: r.o.ErrorText})
	return h.(*condition)
}

// Run handles events until ctx ends, and returns nil then. It shares the slices with the other runners of the projection, in this process
// and in others. Errors of the stores are logged, the 1st, 2nd, 4th, 8th … of many, and Run goes on after a while, also when a server refuses
// because a table or a right is missing. It ends with an error only when OnError says Stop, when the projection has followed other events
// (ErrInvalid), when a store has been closed, or when a store does not support what the projection needs.
func (r *Runner) Run(ctx context.Context) error {
	return r.run(ctx, func(ctx context.Context, slices annals.SliceRange, epoch int64) error {
		return newWorker(r, slices, epoch, nil).run(ctx)
	})
}

// run calls work for each range that the Runner gets, until ctx ends.
func (r *Runner) run(ctx context.Context, work work) error {
	err := r.group().run(ctx, func(ctx context.Context, slices annals.SliceRange, epoch int64) error {
		r.waits.hold(slices, 1)
		defer r.waits.hold(slices, -1)
		return work(ctx, slices, epoch)
	})
	if stop := (*stopped)(nil); errors.As(err, &stop) {
		return stop.error
	}
	return err
}

func (r *Runner) group() *group {
	return &group{
		store: r.offsets, projection: r.name, source: r.stream.source,
		ranges: r.o.Ranges, spread: r.stream.store.Capabilities().SpreadSlices, lease: r.o.Lease, log: r.o.Logger, now: time.Now, orders: &r.orders, health: r.health, tell: r.tell,
		steps: func(slices annals.SliceRange) int64 { return r.health(slices).succeeded() },
	}
}

// begin returns the record of the projection, with the ranges of this Runner if it has none yet.
func (r *Runner) begin(ctx context.Context) (begun record, err error) {
	err = recordOf(r.name).Change(ctx, r.offsets, func(x *record) error {
		if begun = *x; len(x.Ranges) > 0 {
			return document.ErrUnchanged
		}
		begun, err = r.group().begun(ctx, *x)
		*x = begun
		return err
	})
	return begun, err
}
