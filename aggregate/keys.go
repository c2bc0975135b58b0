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
	_, err = ability.Of[ability.Atomic](r.store)
	if k.within = errors.Is(err, contexts.ErrWithin) && contexts.InTx(ctx, nil); !k.within && err != nil {
		return result, err
	}
	return r.keyed(ctx, &k)
}

// keyed is a command with a key.
type keyed[C any] struct {
	key, id string
	pid     annals.PersistenceID
	c       C
	within  bool // the transaction that the caller is in
}

// keyed executes k until it is stored or refused; within a transaction once. From the first conflict on, the commands of this Repository to the
// entity wait for each other.
func (r *Repository[C, S, R]) keyed(ctx context.Context, k *keyed[C]) (result behavior.Result[R], err error) {
	began, front := time.Now(), false
	for try := 0; ; try++ {
		result, sent, err := r.execute(ctx, k)
		conflict, within := errors.Is(err, annals.ErrConflict), r.o.WriteTimeout
		if conflict {
			within = r.o.ConflictTimeout
		}
		if err == nil || !sent || k.within || !conflict && !annals.SafeToRetry(err) || time.Since(began) >= within {
			return result, err
		}
		if conflict && !front {
			l := r.lines.join(k.pid, true)
			defer r.lines.leave(k.pid, l)
			patience, cancel := context.WithTimeout(ctx, r.o.ConflictTimeout)
			defer cancel()
			if front = l.toFront(patience); !front {
				return result, err
			}
			defer func() { <-l.front }()
		}
		if backoff.Wait(ctx, try) != nil {
			return result, err
		}
	}
}

// execute executes k, and stores its key with what k decides. It reports whether it came so far.
func (r *Repository[C, S, R]) execute(ctx context.Context, k *keyed[C]) (result behavior.Result[R], sent bool, err error) {
	list, revision, err := keys.Of(k.pid).Load(ctx, r.store)
	if err != nil {
		return result, annals.SafeToRetry(err), err
	}
	if done, found := list.Find(k.key); found {
		return r.repeat(ctx, k, done)
	}
	now := time.Now()
	if list = list.Since(now, r.o.KeyAge); len(list) >= r.o.KeepKeys {
		return result, false, &annals.Error{Op: host.OpAsk, ID: k.pid, Kind: annals.ErrOverloaded,
			Err: fmt.Errorf("%d commands with keys within Options.KeyAge of %v; Options.KeepKeys allows no more", len(list), r.o.KeyAge)}
	}
	save := func(ctx context.Context, s annals.Store, x keys.Executed) error {
		err := keys.Of(k.pid).Save(ctx, s, revision, list.With(k.key, x, now))
		if err != nil && k.within {
			contexts.FailTx(ctx, err) // what k decided must not be stored without its key, and the caller's function may return nil
		}
		return err
	}
	result, _, err = r.once(ctx, nil, k.id, k.pid, k.c, host.AnyNumber, func(ctx context.Context, w *host.Write) (receipt annals.Receipt, err error) {
		sent = true
		ctx, cancel := context.WithTimeout(ctx, r.o.WriteTimeout)
		defer cancel()
		both := func(ctx context.Context, in annals.Store) (err error) {
			m := r.model
			if !k.within {
				m = m.On(in)
			}
			if receipt, err = m.Write(ctx, w); err != nil {
				return err
			}
			events := len(w.Commit.Events)
			return save(ctx, in, keys.Executed{SeqNr: w.After() + annals.SeqNr(max(1, events)), Events: events})
		}
		if k.within {
			err = both(ctx, r.store)
		} else {
			err = ability.Atomically(ctx, r.store, both)
		}
		return receipt, err
	})
	switch {
	case sent:
	case err == nil:
		ctx, cancel := context.WithTimeout(ctx, r.o.WriteTimeout)
		defer cancel()
		sent, err = true, save(ctx, r.store, keys.Executed{SeqNr: result.SeqNr})
	default: // k may have been executed after the keys were read, and be rejected because of its own effect
		list, _, unread := keys.Of(k.pid).Load(ctx, r.store)
		if unread != nil {
			return result, annals.SafeToRetry(unread), unread
		}
		if done, found := list.Find(k.key); found {
			return r.repeat(ctx, k, done)
		}
	}
	if err != nil {
		return behavior.Result[R]{}, sent, err
	}
	return result, sent, nil
}

// repeat is the result of k, which was executed before.
func (r *Repository[C, S, R]) repeat(ctx context.Context, k *keyed[C], done keys.Executed) (result behavior.Result[R], sent bool, err error) {
	result.SeqNr = done.SeqNr
	result.Reply, err = r.model.Reply(ctx, k.id, k.pid, k.c, done.SeqNr, done.Events)
	return result, false, err
}
