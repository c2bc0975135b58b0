package sealed_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals/codec/sealed"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

// A process that has a key in memory uses it for a minute after it was read, and does not ask the store meanwhile.
func TestCache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory, m := memstore.New(), newMaster(t)
		reads := 0
		store := &faulty.Store{Store: memory, Around: func(_ context.Context, _ *faulty.Call, run func() error) error {
			reads++
			return run()
		}}
		p := encode(t, newCodec(newKeys(t, memory, m)), ada)
		c := newCodec(newKeys(t, store, m))
		wantDecoded(t, c, p, ada)
		time.Sleep(time.Minute - 2)
		if err := newKeys(t, memory, m).Destroy(t.Context(), "7"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Nanosecond)
		wantDecoded(t, c, p, ada)
		if reads != 1 {
			t.Errorf("%d reads of the key", reads)
		}
		time.Sleep(time.Nanosecond)
		for range 3 {
			wantDecoded(t, c, p, named{"7", gone})
		}
		if reads != 2 {
			t.Errorf("%d reads of the key, and that it is destroyed", reads)
		}
		time.Sleep(time.Minute)
		wantDecoded(t, c, p, named{"7", gone})
		if reads != 3 {
			t.Errorf("%d reads of the key, after another minute", reads)
		}
	})
}

// The answer to the read of a key arrives after the key was destroyed: the minute began before the read.
func TestCacheAfterSlowRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory, m := memstore.New(), newMaster(t)
		p := encode(t, newCodec(newKeys(t, memory, m)), ada)
		destroyed := false
		store := &faulty.Store{Store: memory, Around: func(ctx context.Context, _ *faulty.Call, run func() error) error {
			err := run()
			if !destroyed {
				destroyed = true
				if err := newKeys(t, memory, m).Destroy(ctx, "7"); err != nil {
					t.Error(err)
				}
				time.Sleep(4 * time.Second)
			}
			return err
		}}
		c := newCodec(newKeys(t, store, m))
		wantDecoded(t, c, p, ada)
		time.Sleep(56 * time.Second)
		wantDecoded(t, c, p, named{"7", gone})
	})
}

// A read that began before Destroy does not bring the keys back into the memory of the same process.
func TestDestroyDuringRead(t *testing.T) {
	t.Parallel()
	memory, m := memstore.New(), newMaster(t)
	p := encode(t, newCodec(newKeys(t, memory, m)), ada)
	var keys *sealed.Keys
	destroys := false
	keys = newKeys(t, &faulty.Store{Store: memory, Around: func(ctx context.Context, _ *faulty.Call, run func() error) error {
		err := run()
		if !destroys {
			destroys = true
			if err := keys.Destroy(ctx, "7"); err != nil {
				t.Error(err)
			}
		}
		return err
	}}, m)
	c := newCodec(keys)
	wantDecoded(t, c, p, ada)
	wantDecoded(t, c, p, named{"7", gone})
}

// A rotation that is overtaken by Destroy does not bring the keys back into memory, with the answer of a read that began before.
func TestDestroyDuringRotate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory, m := memstore.New(), newMaster(t)
		p := encode(t, newCodec(newKeys(t, memory, m)), ada)
		reading, rotated := make(chan struct{}), make(chan struct{})
		reads := 0
		var keys *sealed.Keys
		keys = newKeys(t, &faulty.Store{Store: memory, Around: func(ctx context.Context, _ *faulty.Call, run func() error) error {
			err := run()
			switch reads++; reads {
			case 1: // of Decode
				close(reading)
				<-rotated
			case 2: // of Rotate
				if err := keys.Destroy(ctx, "7"); err != nil {
					t.Error(err)
				}
			}
			return err
		}}, m)
		c := newCodec(keys)
		go func() {
			<-reading
			if err := keys.Rotate(t.Context(), "7"); !errors.Is(err, sealed.ErrForgotten) {
				t.Errorf("rotated: %v", err)
			}
			close(rotated)
		}()
		wantDecoded(t, c, p, ada)
		wantDecoded(t, c, p, named{"7", gone})
	})
}

// A Keys has no more subjects in memory than it says, and none after the time.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys := newKeys(t, memstore.New(), newMaster(t))
		for i := range sealed.MaxCached + 10 {
			if err := keys.Destroy(t.Context(), fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if n := sealed.Cached(keys); n != sealed.MaxCached {
			t.Errorf("%d subjects in memory", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := sealed.Cached(keys); n != 0 {
			t.Errorf("%d subjects in memory after a minute", n)
		}
	})
}
