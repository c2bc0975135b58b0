package sealed

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
)

// Master encrypts the keys of subjects, so that what a store holds of them is worth nothing without it. It is a service that keeps its
// own key to itself (a KMS, an HSM), or AES. Its methods may be called concurrently, return when ctx ends, and keep neither their argument nor
// their result. The texts of their errors must not contain a key.
type Master interface {
	Wrap(ctx context.Context, key []byte) ([]byte, error)       // key has 64 bytes
	Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) // of what Wrap has returned, also under former keys of the Master
}

// AES returns a Master with keys of the program: AES-256-GCM with keys of 32 random bytes. The first one wraps, and each of them unwraps
// what it has wrapped. So a new key is put first, and an old one can be left out when all subjects have been rewrapped (Keys.Rewrap). It is
// an error when there is no key, or one of another length.
func AES(keys ...[]byte) (Master, error) {
	if len(keys) == 0 {
		return nil, errors.New("sealed: no master key")
	}
	var m aesMaster
	for i, key := range keys {
		if len(key) != keySize {
			return nil, fmt.Errorf("sealed: master key %d has %d bytes, not %d", i+1, len(key), keySize)
		}
		c, err := newCipher(key)
		if err != nil {
			return nil, err
		}
		m = append(m, c)
	}
	return m, nil
}

type aesMaster []cipher.AEAD

func (m aesMaster) Wrap(_ context.Context, key []byte) ([]byte, error) {
	return m[0].Seal(nil, nil, key, nil), nil
}

func (m aesMaster) Unwrap(_ context.Context, wrapped []byte) ([]byte, error) {
	for _, c := range m {
		if key, err := c.Open(nil, nil, wrapped, nil); err == nil {
			return key, nil
		}
	}
	return nil, fmt.Errorf("sealed: none of the %d master keys has wrapped this key", len(m))
}

const keySize = 32 // bytes of a key for AES-256

// newCipher is AES-256-GCM with a random nonce of 96 bits before each ciphertext.
func newCipher(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
