package aggregate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/claims"
	"github.com/annals-go/annals/internal/contexts"
	"github.com/annals-go/annals/internal/host"
	"github.com/annals-go/annals/internal/keys"
)

// AskOnce is Ask for a command that may be sent again, as by a client that got no answer: with the same key for the entity id it takes effect once.
//
// The key is stored in one transaction with what c decides, also when c decides nothing. A command whose key is there is not decided: it gets the
// reply that Reply makes of the events of the first one and the state after them, or for a durable state of the newest state. It does not matter
// which process sends it, nor at what time within Options.KeyAge. A rejection stores nothing, so a command that was rejected is decided again.
//
// The key names the command: another command with the same key gets the reply to it that the first one would have got. AskOnce repeats a
// transaction whose outcome is unknown, within Options.WriteTimeout; after ErrUnknown call it again with the same key. Within the function of
// Transactor.InTx, with a repository on the inner store, the key is part of that transaction; when the key cannot be stored, the transaction is not
// stored either, whatever the function returns.
//
// ErrInvalid for an empty key; ErrTruncated when c was executed and the events are deleted that its reply needs; ErrOverloaded, with nothing decided, when
// the entity has executed Options.KeepKeys other commands with keys within Options.KeyAge; ErrUnsupported on a store that is not ability.Atomic or
// does not claim Capabilities.States. Other errors are those of Ask.
func (r *Repository[C, S, R]) AskOnce(ctx context.Context, key, id string, c C) (R, error) {
	result, err := r.DoOnce(ctx, key, id, c)
	return result.Reply, err
}

// DoOnce is AskOnce with the entity's number after the command, when it was executed.
func (r *Repository[C, S, R]) DoOnce(ctx context.Context, key, id string, c C) (behavior.Result[R], error) {
	if r.o.Observer == nil {
		return r.doOnce(ctx, key, id, c)
	}
	return r.model.Ask(ctx, id, func(ctx context.Context) (behavior.Result[R], error) { return r.doOnce(ctx, key, id, c) })
}

func (r *Repository[C, S, R]) doOnce(ctx context.Context, key, id string, c C) (result behavior.Result[R], err error) {
	pid, err := r.model.Identify(host.OpAsk, id)
	if err != nil {
		return result, err
	}
	if key == "" {
		return result, &annals.Error{Op: host.OpAsk, ID: pid, Kind: annals.ErrInvalid, Err: errors.New("the key is empty")}
	}
	if err := claims.Refusal(host.OpAsk, r.store.Capabilities(), claims.CommandKeys); err != nil {
		return result, err
	}
	k := keyed[C]{key: key, id: id, pid: pid, c: c}
	if _, err := ability.Of[ability.Atomic](r.store); errors.Is(err, contexts.ErrWithin) && contexts.InTx(ctx, nil) {
		return r.keyed(ctx, &k)
	}
	return r.keyedAlone(ctx, &k)
}

// keyed is a command with a key.
type keyed[C any] struct {
	key, id string
	pid     annals.PersistenceID
	c       C

	done    *keys.Executed // the command was executed before
	refused error          // why it is not executed, whatever others do meanwhile

	execution
}

// errExecuted undoes a transaction that has nothing to do.
var errExecuted = errors.New("the command was executed before")

// keyedAlone executes k in transactions of its own until one of them is stored or refused. From the first conflict on, the commands of this
// Repository to the entity wait for each other.
func (r *Repository[C, S, R]) keyedAlone(ctx context.Context, k *keyed[C]) (result behavior.Result[R], err error) {
	began, front := time.Now(), false
	for try := 0; ; try++ {
		k.done, k.refused = nil, nil
		err = ability.Atomically(ctx, r.store, func(ctx context.Context, in annals.Store) (err error) {
			inner, err := r.on(in)
			if err == nil {
				result, err = inner.execute(ctx, k)
			}
			return err
		})
		within := r.o.WriteTimeout
		switch {
		case err == nil:
			return result, nil
		case k.done != nil:
			return r.repeat(ctx, k)
		case k.refused != nil:
			return behavior.Result[R]{}, k.refused
		case errors.Is(err, annals.ErrConflict):
			within = r.o.ConflictTimeout
		case !errors.Is(err, annals.ErrUnknown) && !annals.SafeToRetry(err):
			return behavior.Result[R]{}, err
		}
		if time.Since(began) >= within {
			return behavior.Result[R]{}, err
		}
		if errors.Is(err, annals.ErrConflict) && !front {
			l := r.lines.join(k.pid, true)
			defer r.lines.leave(k.pid, l)
			patience, cancel := context.WithTimeout(ctx, r.o.ConflictTimeout)
			defer cancel()
			if front = l.toFront(patience); !front {
				return behavior.Result[R]{}, err
			}
			defer func() { <-l.front }()
		}
		if backoff.Wait(ctx, try) != nil {
			return behavior.Result[R]{}, err
		}
	}
}

// keyed executes k in the transaction that the caller is in.
func (r *Repository[C, S, R]) keyed(ctx context.Context, k *keyed[C]) (behavior.Result[R], error) {
	result, err := r.execute(ctx, k)
	switch {
	case k.done != nil:
		return r.repeat(ctx, k)
	case err != nil && k.written:
		contexts.FailTx(ctx, err) // what k decided must not be stored without its key, and the caller's function may return nil
	}
	return result, err
}

// execute executes k on the store of a transaction, and stores its key. k.done or k.refused is set when it is not executed.
func (r *Repository[C, S, R]) execute(ctx context.Context, k *keyed[C]) (result behavior.Result[R], err error) {
	list, revision, err := keys.Of(k.pid).Load(ctx, r.store)
	if err != nil {
		return result, err
	}
	if done, found := list.Find(k.key); found {
		k.done = &done
		return result, errExecuted
	}
	now := time.Now()
	if list = list.Since(now, r.o.KeyAge); len(list) >= r.o.KeepKeys {
		k.refused = &annals.Error{Op: host.OpAsk, ID: k.pid, Kind: annals.ErrOverloaded,
			Err: fmt.Errorf("%d commands with keys within Options.KeyAge of %v; Options.KeepKeys allows no more", len(list), r.o.KeyAge)}
		return result, k.refused
	}
	result, overtaken, err := r.once(ctx, nil, k.id, k.pid, k.c, host.AnyNumber, &k.execution)
	if err != nil {
		if !overtaken && !errors.Is(err, annals.ErrUnknown) {
			k.refused = err
		}
		return result, err
	}
	executed := keys.Executed{SeqNr: result.SeqNr}
	if r.sourced {
		executed.Events = int(result.SeqNr - k.before)
	}
	return result, keys.Of(k.pid).Save(ctx, r.store, revision, list.With(k.key, executed, now))
}

// repeat is the result of k, which was executed before.
func (r *Repository[C, S, R]) repeat(ctx context.Context, k *keyed[C]) (result behavior.Result[R], err error) {
	result.SeqNr = k.done.SeqNr
	result.Reply, err = r.model.Reply(ctx, k.id, k.pid, k.c, k.done.SeqNr, k.done.Events)
	return result, err
}
