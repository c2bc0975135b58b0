package sealed_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/sealed"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/sqlitestore"
)

const adaKey annals.PersistenceID = "SubjectKey|7"

var ada = named{"7", "Ada"}

func state(t testing.TB, store annals.Store) annals.State {
	t.Helper()
	s, _, err := store.States().Get(t.Context(), adaKey)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Several processes seal the first payloads of a subject at once: one key wins.
func TestFirstWriters(t *testing.T) {
	t.Parallel()
	const writers = 8
	memory, m := memstore.New(), newMaster(t)
	var read sync.WaitGroup // all have seen that there is no key
	read.Add(writers)
	store := &faulty.Store{Store: memory, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		err := run()
		if s, ok := c.Result.(*annals.State); ok && s.Revision == 0 && err == nil {
			read.Done()
			read.Wait()
		}
		return err
	}}
	payloads := make([]annals.Payload, writers)
	var wg sync.WaitGroup
	for i := range payloads {
		c := newCodec(newKeys(t, store, m))
		wg.Go(func() {
			var err error
			if payloads[i], err = c.Encode(ada); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s := state(t, memory); s.Revision != 1 {
		t.Errorf("the state has revision %d", s.Revision)
	}
	c := newCodec(newKeys(t, memory, m))
	for _, p := range payloads {
		wantDecoded(t, c, p, ada)
	}
}

// Destroy beside codecs of several processes: what they sealed is forgotten, and none of it is an error.
func TestDestroyBesideCodecs(t *testing.T) {
	t.Parallel()
	store, m := memstore.New(), newMaster(t)
	first := encode(t, newCodec(newKeys(t, store, m)), ada)
	var (
		mu       sync.Mutex
		payloads []annals.Payload
		wg       sync.WaitGroup
	)
	for i := range 16 {
		keys := newKeys(t, store, m)
		c := newCodec(keys)
		wg.Go(func() {
			if i == 8 {
				if err := keys.Destroy(t.Context(), "7"); err != nil {
					t.Error(err)
				}
			}
			p, err := c.Encode(ada)
			switch {
			case err == nil && i != 8:
				mu.Lock()
				payloads = append(payloads, p)
				mu.Unlock()
			case !errors.Is(err, sealed.ErrForgotten):
				t.Errorf("encode: %v", err)
			}
			if v, err := c.Decode(first); err != nil || v != ada && v.Name != gone {
				t.Errorf("decode: %v, %v", v, err)
			}
		})
	}
	wg.Wait()
	c := newCodec(newKeys(t, store, m))
	for _, p := range append(payloads, first) {
		wantDecoded(t, c, p, named{"7", gone})
	}
}

// The first key of a subject meets one that another process has stored, and the store gives no time for another try.
func TestConflictAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &faulty.Store{Store: memstore.New(), Around: func(_ context.Context, c *faulty.Call, run func() error) error {
			if c.Writes {
				return &annals.Error{Op: c.Op, ID: c.ID, Kind: annals.ErrConflict}
			}
			return run()
		}}
		_, err := newCodec(newKeys(t, store, newMaster(t))).Encode(ada)
		if !errors.Is(err, annals.ErrUnavailable) || errors.Is(err, annals.ErrConflict) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
	})
}

func TestRotate(t *testing.T) {
	t.Parallel()
	store, m := memstore.New(), newMaster(t)
	keys := newKeys(t, store, m)
	c, other := newCodec(keys), newCodec(newKeys(t, store, m))
	payloads := []annals.Payload{encode(t, c, ada)}
	wantDecoded(t, other, payloads[0], ada)
	for range 3 {
		if err := keys.Rotate(t.Context(), "7"); err != nil {
			t.Fatal(err)
		}
		payloads = append(payloads, encode(t, c, ada))
	}
	for i, p := range payloads {
		if number := p.Data[2]; int(number) != i+1 { // after the version and the serializer id
			t.Errorf("payload %d has key %d", i, number)
		}
		wantDecoded(t, c, p, ada)
		wantDecoded(t, other, p, ada) // has the first key in memory
		wantDecoded(t, newCodec(newKeys(t, store, m)), p, ada)
	}
	if err := keys.Rotate(t.Context(), "8"); err != nil {
		t.Fatal(err)
	}
	wantDecoded(t, c, encode(t, c, named{"8", "Grace"}), named{"8", "Grace"})
	if err := keys.Destroy(t.Context(), "7"); err != nil {
		t.Fatal(err)
	}
	for _, p := range payloads {
		wantDecoded(t, c, p, named{"7", gone})
	}
}

func TestRewrap(t *testing.T) {
	t.Parallel()
	store, before, after := memstore.New(), newMasterKey(), newMasterKey()
	keys := newKeys(t, store, newMaster(t, before))
	c := newCodec(keys)
	first := encode(t, c, ada)
	if err := keys.Rotate(t.Context(), "7"); err != nil {
		t.Fatal(err)
	}
	second := encode(t, c, ada)

	both := newKeys(t, store, newMaster(t, after, before))
	wantDecoded(t, newCodec(both), first, ada)
	grace := encode(t, newCodec(both), named{"8", "Grace"})
	only := func() codec.Codec[named] { return newCodec(newKeys(t, store, newMaster(t, after))) }
	if _, err := only().Decode(first); !errors.Is(err, annals.ErrUnavailable) || errors.Is(err, annals.ErrCorrupt) {
		t.Errorf("before the rewrap: %v, want ErrUnavailable", err)
	}
	if _, err := only().Encode(ada); !errors.Is(err, annals.ErrUnavailable) {
		t.Errorf("before the rewrap: %v, want ErrUnavailable", err)
	}
	wantDecoded(t, only(), grace, named{"8", "Grace"})
	for _, subject := range []string{"7", "8", "nobody"} {
		if err := both.Rewrap(t.Context(), subject); err != nil {
			t.Fatal(err)
		}
	}
	wantDecoded(t, only(), first, ada)
	wantDecoded(t, only(), second, ada)
	if _, err := newCodec(newKeys(t, store, newMaster(t, before))).Decode(first); !errors.Is(err, annals.ErrUnavailable) {
		t.Errorf("with the former master key: %v, want ErrUnavailable", err)
	}
	if err := newKeys(t, store, newMaster(t, before)).Rewrap(t.Context(), "7"); !errors.Is(err, annals.ErrUnavailable) {
		t.Errorf("a rewrap that cannot unwrap: %v", err)
	}
	if s, ok, err := store.States().Get(t.Context(), "SubjectKey|nobody"); ok || s.Revision != 0 || err != nil {
		t.Errorf("a subject without keys has got revision %d, %v", s.Revision, err)
	}
}

// Answers are lost, of requests that were carried out and of others; two writers do so at once.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, carriedOut := range []bool{true, false} {
		for _, idempotent := range []bool{true, false} {
			t.Run(fmt.Sprintf("carried out %v, write ids %v", carriedOut, idempotent), func(t *testing.T) {
				t.Parallel()
				memory, m := memstore.New(), newMaster(t)
				lost := 0
				store := &faulty.Store{Store: memory, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
					if w, ok := c.Arg.(*annals.StateWrite); ok && !idempotent {
						w.WriteID = annals.WriteID{}
					}
					if c.Writes {
						if lost++; lost%2 == 1 { // every other write
							if carriedOut {
								if err := run(); err != nil {
									return err
								}
							}
							return faulty.Lost(c)
						}
					}
					return run()
				}}
				keys := newKeys(t, store, m)
				c := newCodec(keys)
				step := func(revision annals.SeqNr, err error) {
					t.Helper()
					if s := state(t, memory); err != nil || s.Revision != revision {
						t.Fatalf("revision %d, %v, want %d", s.Revision, err, revision)
					}
					if carriedOut {
						lost = 0 // the first try has done it
					}
				}
				p := encode(t, c, ada)
				step(1, nil)
				step(2, keys.Rotate(t.Context(), "7"))
				wantDecoded(t, newCodec(newKeys(t, memory, m)), p, ada)
				wantDecoded(t, newCodec(newKeys(t, memory, m)), encode(t, c, ada), ada)
				if carriedOut {
					step(4, keys.Rewrap(t.Context(), "7")) // wraps twice
					step(5, keys.Destroy(t.Context(), "7"))
				} else {
					step(3, keys.Rewrap(t.Context(), "7"))
					step(4, keys.Destroy(t.Context(), "7"))
				}
				if s := state(t, memory); !s.Deleted {
					t.Error("the key is not destroyed")
				}
				wantDecoded(t, newCodec(newKeys(t, memory, m)), p, named{"7", gone})
			})
		}
	}
}

// A key that cannot be had now is not one that is destroyed.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory, m := memstore.New(), newMaster(t)
		p := encode(t, newCodec(newKeys(t, memory, m)), ada)
		var fault func(ctx context.Context, c *faulty.Call) error
		store := &faulty.Store{Store: memory, Around: func(ctx context.Context, c *faulty.Call, run func() error) error {
			if fault != nil {
				return fault(ctx, c)
			}
			return run()
		}}
		c := newCodec(newKeys(t, store, m))
		for name, f := range map[string]func(ctx context.Context, c *faulty.Call) error{
			"no answer": func(_ context.Context, c *faulty.Call) error { return faulty.Failed(c) },
			"lost":      func(_ context.Context, c *faulty.Call) error { return faulty.Lost(c) },
			"refused": func(_ context.Context, c *faulty.Call) error {
				return &annals.Error{Op: c.Op, Kind: annals.ErrInvalid, Err: errors.New("no right to read")}
			},
			"hangs": func(ctx context.Context, c *faulty.Call) error { <-ctx.Done(); return faulty.Failed(c) },
		} {
			fault = f
			began := time.Now()
			if v, err := c.Decode(p); !errors.Is(err, annals.ErrUnavailable) || errors.Is(err, annals.ErrCorrupt) || v != (named{}) {
				t.Errorf("%s: decode: %v, %v, want ErrUnavailable", name, v, err)
			}
			_, err := c.Encode(ada)
			if want := map[bool]error{true: annals.ErrInvalid, false: annals.ErrUnavailable}[name == "refused"]; !errors.Is(err, want) || errors.Is(err, annals.ErrUnknown) {
				t.Errorf("%s: encode: %v, want %v", name, err, want)
			}
			if waited := time.Since(began); name == "hangs" && waited != 10*time.Second || waited > 11*time.Second {
				t.Errorf("%s: two calls took %v", name, waited)
			}
			fault = nil
		}
		wantDecoded(t, c, p, ada)
	})
}

// failing is a master that fails, or gives back something else.
type failing struct {
	sealed.Master
	wrap   error
	unwrap func([]byte) ([]byte, error)
}

func (m failing) Wrap(ctx context.Context, key []byte) ([]byte, error) {
	if m.wrap != nil {
		return nil, m.wrap
	}
	return m.Master.Wrap(ctx, key)
}

func (m failing) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	key, err := m.Master.Unwrap(ctx, wrapped)
	if err == nil && m.unwrap != nil {
		return m.unwrap(key)
	}
	return key, err
}

func TestMasterFails(t *testing.T) {
	t.Parallel()
	store, m, down := memstore.New(), newMaster(t), errors.New("the service is down")
	keys := newKeys(t, store, failing{m, down, nil})
	if _, err := newCodec(keys).Encode(ada); !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, down) {
		t.Errorf("encode: %v", err)
	}
	if err := keys.Rotate(t.Context(), "7"); !errors.Is(err, annals.ErrUnavailable) {
		t.Errorf("rotate: %v", err)
	}
	if s := state(t, store); s.Revision != 0 {
		t.Errorf("something was stored: revision %d", s.Revision)
	}
	p := encode(t, newCodec(newKeys(t, store, m)), ada)
	if err := keys.Rewrap(t.Context(), "7"); !errors.Is(err, annals.ErrUnavailable) {
		t.Errorf("rewrap: %v", err)
	}
	for name, c := range map[string]struct {
		unwrap func([]byte) ([]byte, error)
		kind   error
	}{
		"fails":   {func([]byte) ([]byte, error) { return nil, down }, annals.ErrUnavailable},
		"short":   {func(key []byte) ([]byte, error) { return key[:32], nil }, annals.ErrCorrupt},
		"another": {func(key []byte) ([]byte, error) { return bytes.Repeat([]byte{1}, len(key)), nil }, annals.ErrCorrupt},
	} {
		if v, err := newCodec(newKeys(t, store, failing{m, nil, c.unwrap})).Decode(p); !errors.Is(err, c.kind) || v != (named{}) {
			t.Errorf("%s: %v, %v, want %v", name, v, err, c.kind)
		}
	}
}

// Keys that were lost, damaged or exchanged in the store are no destroyed ones. A damaged one can be destroyed.
func TestDamagedKeys(t *testing.T) {
	t.Parallel()
	m := newMaster(t)
	seal := func() (*memstore.Store, annals.Payload) {
		store := memstore.New()
		return store, encode(t, newCodec(newKeys(t, store, m)), ada)
	}
	corrupt := func(name string, store annals.Store, p annals.Payload) {
		t.Helper()
		if v, err := newCodec(newKeys(t, store, m)).Decode(p); !errors.Is(err, annals.ErrCorrupt) || v != (named{}) {
			t.Errorf("%s: %v, %v, want ErrCorrupt", name, v, err)
		}
	}
	_, p := seal()
	corrupt("no state", memstore.New(), p)

	store, _ := seal()
	corrupt("another key of the subject", store, p)

	store, p = seal()
	if err := newKeys(t, store, m).Rotate(t.Context(), "7"); err != nil {
		t.Fatal(err)
	}
	second := encode(t, newCodec(newKeys(t, store, m)), ada)
	older, _ := seal()
	corrupt("an older state", older, second)

	encode(t, newCodec(newKeys(t, store, m)), named{"8", "Grace"})
	put := func(after annals.SeqNr, payload annals.Payload) {
		t.Helper()
		if _, err := store.States().Put(t.Context(), annals.StateWrite{ID: adaKey, After: after, Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	grace, _, err := store.States().Get(t.Context(), "SubjectKey|8")
	if err != nil {
		t.Fatal(err)
	}
	put(2, grace.Payload)
	corrupt("the state of another subject", store, p)
	if _, err := newCodec(newKeys(t, store, m)).Encode(ada); !errors.Is(err, annals.ErrCorrupt) {
		t.Errorf("encode with the key of another subject: %v", err)
	}
	for i, text := range []string{`{"keys":[]}`, `{`} {
		put(3+annals.SeqNr(i), annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "SubjectKey", Data: []byte(text)})
		corrupt(text, store, p)
		if _, err := newCodec(newKeys(t, store, m)).Encode(ada); !errors.Is(err, annals.ErrCorrupt) {
			t.Errorf("encode with %s: %v", text, err)
		}
		if err := newKeys(t, store, m).Rewrap(t.Context(), "7"); !errors.Is(err, annals.ErrCorrupt) {
			t.Errorf("rewrap with %s: %v", text, err)
		}
	}
	if err := newKeys(t, store, m).Destroy(t.Context(), "7"); err != nil {
		t.Fatal(err)
	}
	wantDecoded(t, newCodec(newKeys(t, store, m)), p, named{"7", gone})
}

// Errors have no value, no key and no part of them.
func TestErrorsTellNothing(t *testing.T) {
	t.Parallel()
	var key atomic.Value
	store, m := memstore.New(), newMaster(t)
	spy := failing{m, nil, func(k []byte) ([]byte, error) { key.Store(bytes.Clone(k)); return k, nil }}
	c := newCodec(newKeys(t, store, spy))
	p := encode(t, c, ada)
	changed := p
	changed.Data = bytes.Clone(p.Data)
	changed.Data[len(changed.Data)-1]++
	_, err := c.Decode(changed)
	if err == nil || strings.Contains(err.Error(), "Ada") || strings.Contains(err.Error(), string(key.Load().([]byte)[:32])) {
		t.Errorf("%v", err)
	}
}

// The first payload of a subject within a transaction of the store of the keys would wait for that transaction: it ends after the Timeout. Later
// ones need no write.
func TestInTransaction(t *testing.T) {
	t.Parallel()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "annals.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	keys, err := sealed.NewKeys(store, newMaster(t), sealed.Options{Timeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	m := newMaster(t)
	c := newCodec(keys)
	p := encode(t, newCodec(newKeys(t, store, m)), named{"8", "Grace"})
	err = store.InTx(t.Context(), func(ctx context.Context, _ *sql.Tx, _ annals.Store) error {
		if _, err := c.Encode(ada); !errors.Is(err, annals.ErrUnavailable) {
			t.Errorf("encode: %v, want ErrUnavailable", err)
		}
		other := newCodec(newKeys(t, store, m))
		wantDecoded(t, other, p, named{"8", "Grace"})
		wantDecoded(t, other, encode(t, other, named{"8", "Hopper"}), named{"8", "Hopper"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	after := newCodec(newKeys(t, store, m))
	wantDecoded(t, after, encode(t, after, ada), ada)
}
