package sealed

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/claims"
	"github.com/annals-go/annals/internal/valid"
)

// ErrForgotten is the error when something is to be sealed for a subject whose key is destroyed. The error around it is annals.ErrInvalid.
var ErrForgotten = errors.New("the key of the subject is destroyed")

// Options are optional.
type Options struct {
	// Type is the entity type of the durable states with the keys. "" is SubjectKey.
	Type string
	// Cache is how long a key, or that it is destroyed, is kept in memory, counted from before it was read; 0 is one minute. A process that
	// has the key of a subject in memory reads and writes payloads of the subject for at most so long after Destroy. A Keys keeps at most
	// 10,000 subjects.
	Cache time.Duration
	// Timeout is how long a codec, whose methods have no context, waits for a key that is not in memory; 0 is five seconds.
	Timeout time.Duration
}

// Keys are the keys of all subjects in a store. Its methods may be called concurrently. A subject is the entity id of a durable state, so it is
// valid UTF-8 without U+0000, and within the store's limits of ids.
//
// A subject gets its key when the first payload of it is sealed. When several processes do this at once, one key wins, and all use it.
//
// The errors are those of the store. They are annals.ErrUnavailable when the Master fails, whatever the reason, because no payload is to blame
// for it; and annals.ErrCorrupt when a key is damaged, or is that of another subject.
type Keys struct {
	states annals.StateStore
	master Master
	o      Options
	cache  cache
}

// NewKeys returns the keys in store. It reads nothing yet. The store must claim States and DeletesStates (otherwise annals.ErrUnsupported).
// annals.ErrInvalid reports all faults of the arguments at once.
func NewKeys(store annals.Store, master Master, o Options) (*Keys, error) {
	const op = "sealed.NewKeys"
	var faults, unsupported error
	fault := func(text string, is bool) {
		if is {
			faults = errors.Join(faults, errors.New(text))
		}
	}
	fault("the store is nil", store == nil)
	fault("the master is nil", master == nil)
	fault("a negative Cache", o.Cache < 0)
	fault("a negative Timeout", o.Timeout < 0)
	o = Options{cmp.Or(o.Type, "SubjectKey"), cmp.Or(o.Cache, time.Minute), cmp.Or(o.Timeout, 5*time.Second)}
	faults = errors.Join(faults, valid.OwnType(o.Type))
	if faults != nil {
		faults = &annals.Error{Op: op, Kind: annals.ErrInvalid, Err: faults}
	}
	if store != nil {
		unsupported = claims.Refusal(op, store.Capabilities(), claims.SubjectKeys)
	}
	if err := errors.Join(faults, unsupported); err != nil {
		return nil, err
	}
	return &Keys{states: store.States(), master: master, o: o}, nil
}

// Destroy destroys the keys of subject for good: what is sealed with them is forgotten. It deletes the state of subject; the tombstone
// stays, so that the subject never gets a key again. It also works for a subject that has no key yet, and when it is repeated. Other processes
// may know the keys for as long as Options.Cache.
func (k *Keys) Destroy(ctx context.Context, subject string) error {
	return k.change(ctx, subject, func(s annals.State) error {
		if !s.Deleted {
			w := annals.StateWrite{ID: s.ID, After: s.Revision, WriteID: annals.NewWriteID(), FirstTry: true}
			if _, err := k.states.Delete(ctx, w); err != nil {
				return err
			}
		}
		k.cache.put(subject, newRing(nil), time.Now().Add(k.o.Cache))
		return nil
	})
}

// Count returns how many keys subject has, 0 where nothing has been sealed for it. The error is ErrForgotten when they are destroyed.
func (k *Keys) Count(ctx context.Context, subject string) (n int, err error) {
	err = k.change(ctx, subject, func(s annals.State) error {
		wrapped, err := k.wrapped(s)
		n = len(wrapped)
		return err
	})
	return n, err
}

// Rotate gives subject a new key, with which new payloads are sealed. What is sealed with the former keys stays readable. Processes that have
// the former key in memory use it for as long as Options.Cache. A key is safe for 2³² payloads: then it must be rotated. The
// error is ErrForgotten when the keys of subject are destroyed.
func (k *Keys) Rotate(ctx context.Context, subject string) error {
	var added []byte
	return k.change(ctx, subject, func(s annals.State) error {
		wrapped, err := k.wrapped(s)
		if err != nil || added != nil && slices.ContainsFunc(wrapped, func(w []byte) bool { return bytes.Equal(w, added) }) {
			return err // nil: an earlier try was stored, and its answer was lost
		}
		if added == nil {
			if added, err = k.create(ctx, s.ID, subject); err != nil {
				return err
			}
		}
		err = k.put(ctx, s, append(wrapped, added))
		k.cache.drop(subject)
		return err
	})
}

// Rewrap has the Master unwrap and wrap the keys of subject again: after that the former key of the Master is not needed for this subject, and by
// processes that have read its keys before not after Options.Cache. It does nothing for a subject that has no keys, or whose keys are destroyed.
func (k *Keys) Rewrap(ctx context.Context, subject string) error {
	return k.change(ctx, subject, func(s annals.State) error {
		if s.Deleted || s.Revision == 0 {
			return nil
		}
		wrapped, err := k.wrapped(s)
		if err != nil {
			return err
		}
		for i := range wrapped {
			key, err := k.unwrap(ctx, s.ID, subject, wrapped[i])
			if err != nil {
				return err
			}
			if wrapped[i], err = k.wrap(ctx, s.ID, key); err != nil {
				return err
			}
		}
		return k.put(ctx, s, wrapped)
	})
}

// change calls fn with the state of subject, and again with what is stored then when fn returns a conflict, or an answer is lost. A write
// whose answer is lost either is in what the next call gets, or is too late for its revision: it is not stored beside that of the next call.
func (k *Keys) change(ctx context.Context, subject string, fn func(s annals.State) error) error {
	id := k.id(subject)
	for try := 0; ; try++ {
		s, _, err := k.states.Get(ctx, id)
		if err == nil {
			s.ID = id
			err = fn(s)
		}
		if !errors.Is(err, annals.ErrConflict) && !errors.Is(err, annals.ErrUnknown) || backoff.Wait(ctx, try) != nil {
			return err
		}
	}
}

func (k *Keys) id(subject string) annals.PersistenceID {
	return annals.NewPersistenceID(k.o.Type, subject)
}

// stored is the payload of a state: the wrapped keys in the order of their numbers, which begin with 1.
type stored struct {
	Keys [][]byte `json:"keys"`
}

var format = codec.JSON[stored]("SubjectKey")

// wrapped returns the keys in s; none when nothing has been stored. The error is ErrForgotten when they are destroyed.
func (k *Keys) wrapped(s annals.State) ([][]byte, error) {
	switch {
	case s.Deleted:
		return nil, forgotten(s.ID)
	case s.Revision == 0:
		return nil, nil
	}
	v, err := format.Decode(s.Payload)
	if err == nil && len(v.Keys) == 0 {
		err = errors.New("there is no key in it")
	}
	if err != nil {
		return nil, corrupt(s.ID, err)
	}
	return v.Keys, nil
}

func (k *Keys) put(ctx context.Context, s annals.State, wrapped [][]byte) error {
	p, err := format.Encode(stored{wrapped})
	if err != nil {
		return err
	}
	_, err = k.states.Put(ctx, annals.StateWrite{ID: s.ID, After: s.Revision, Payload: p, WriteID: annals.NewWriteID(), FirstTry: true})
	return err
}

// create returns a new key, wrapped. The hash of the subject is wrapped with it, so that a key in the state of another subject is noticed.
func (k *Keys) create(ctx context.Context, id annals.PersistenceID, subject string) ([]byte, error) {
	key := make([]byte, keySize, keySize+sha256.Size)
	_, _ = rand.Read(key) // never fails, as crypto/rand documents
	sum := sha256.Sum256([]byte(subject))
	return k.wrap(ctx, id, append(key, sum[:]...))
}

func (k *Keys) wrap(ctx context.Context, id annals.PersistenceID, key []byte) ([]byte, error) {
	defer clear(key)
	wrapped, err := k.master.Wrap(ctx, key)
	if err != nil {
		return nil, &annals.Error{Op: "wrap a key", ID: id, Kind: annals.ErrUnavailable, Err: err}
	}
	return wrapped, nil
}

// unwrap returns a key with the hash of the subject after it.
func (k *Keys) unwrap(ctx context.Context, id annals.PersistenceID, subject string, wrapped []byte) ([]byte, error) {
	key, err := k.master.Unwrap(ctx, wrapped)
	if err != nil {
		return nil, &annals.Error{Op: "unwrap a key", ID: id, Kind: annals.ErrUnavailable, Err: err}
	}
	if sum := sha256.Sum256([]byte(subject)); len(key) != keySize+len(sum) || !bytes.Equal(key[keySize:], sum[:]) {
		return nil, corrupt(id, errors.New("it is not a key of this subject"))
	}
	return key, nil
}

func forgotten(id annals.PersistenceID) error {
	return &annals.Error{Op: "seal", ID: id, Kind: annals.ErrInvalid, Err: ErrForgotten}
}

func corrupt(id annals.PersistenceID, err error) error {
	return &annals.Error{Op: "read a key", ID: id, Kind: annals.ErrCorrupt, Err: fmt.Errorf("sealed: %w", err)}
}
