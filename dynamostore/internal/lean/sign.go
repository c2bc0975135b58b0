package lean

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go/encoding/httpbinding"
)

// signer makes the signatures of requests with one key on one day. They are those of the SDK's signer; what stays the same within the day is computed once.
type signer struct {
	*pattern
	key   key
	day   int64    // since 1970
	token []string // the values of a header; nil without a token

	// The text that is hashed has the length of the body, the time, the operation and the hash of the body between these.
	beforeLength, beforeTime, beforeOperation, beforeHash string
	beforeSignature                                       string // in the header Authorization
	scope                                                 string // day, region, service
	inner, outer                                          []byte // what HMAC puts before the text and before the hash of that, for the key of the day, region and service
	date                                                  atomic.Pointer[date]
}

// date is a second, and a header for it.
type date struct {
	second int64 // since 1970
	values []string
}

// key is what credentials have that requests depend on.
type key struct{ id, secret, token, account string }

const (
	algorithm = "AWS4-HMAC-SHA256"
	timeForm  = "20060102T150405Z"
	dayForm   = "20060102"
	day       = 24 * 60 * 60 // seconds
)

// signerOf returns the signer for credentials at a time.
func (c *Client) signerOf(ctx context.Context, credentials aws.Credentials, at time.Time) (*signer, error) {
	k := key{credentials.AccessKeyID, credentials.SecretAccessKey, credentials.SessionToken, credentials.AccountID}
	if s := c.signer.Load(); s != nil && s.key == k && s.day == at.Unix()/day {
		return s, nil
	}
	p, err := c.patternOf(ctx, k.account)
	if err != nil {
		return nil, err
	}
	const operation, body = "GetItem", "{}"
	hashed, where := sha256.Sum256([]byte(body)), *p.url // which the signer changes
	r := &http.Request{Method: http.MethodPost, URL: &where, Host: p.host, ContentLength: int64(len(body)),
		Header: http.Header{contentType: p.header[contentType], target: {p.target + operation}}}
	if err := c.options.HTTPSignerV4.SignHTTP(ctx, credentials, r, hex.EncodeToString(hashed[:]), p.service, p.region, at); err != nil {
		return nil, fmt.Errorf("sign http: %w", err)
	}
	s := newSigner(p, k, r.Header[securityToken], at)
	if s.sign(operation, []byte(body), at.UTC().Format(timeForm)) != r.Header.Get("Authorization") {
		return nil, errUnsigned
	}
	c.signer.Store(s)
	return s, nil
}

func newSigner(p *pattern, k key, token []string, at time.Time) *signer {
	today := at.UTC().Format(dayForm)
	s := &signer{pattern: p, key: k, day: at.Unix() / day, token: token, scope: today + "/" + p.region + "/" + p.service + "/aws4_request"}
	names, tokenLine := "content-length;content-type;host;x-amz-date;x-amz-target", ""
	if token != nil {
		names, tokenLine = "content-length;content-type;host;x-amz-date;x-amz-security-token;x-amz-target", "x-amz-security-token:"+token[0]+"\n"
	}
	s.beforeLength = http.MethodPost + "\n" + httpbinding.EscapePath(p.url.EscapedPath(), false) + "\n\ncontent-length:"
	s.beforeTime = "\ncontent-type:" + p.header.Get(contentType) + "\nhost:" + p.host + "\nx-amz-date:"
	s.beforeOperation = "\n" + tokenLine + "x-amz-target:" + p.target
	s.beforeHash = "\n\n" + names + "\n"
	s.beforeSignature = algorithm + " Credential=" + k.id + "/" + s.scope + ", SignedHeaders=" + names + ", Signature="
	mac := []byte("AWS4" + k.secret)
	for _, part := range []string{today, p.region, p.service, "aws4_request"} {
		hash := hmac.New(sha256.New, mac)
		_, _ = io.WriteString(hash, part)
		mac = hash.Sum(nil)
	}
	s.inner, s.outer = pad(mac, 0x36), pad(mac, 0x5c)
	return s
}

// pad is a key of HMAC, as it is hashed before a text.
func pad(key []byte, with byte) []byte {
	padded := make([]byte, sha256.BlockSize)
	copy(padded, key)
	for i := range padded {
		padded[i] ^= with
	}
	return padded
}

// dateOf returns the header X-Amz-Date for a time.
func (s *signer) dateOf(at time.Time) []string {
	d := s.date.Load()
	if second := at.Unix(); d == nil || d.second != second {
		d = &date{second, []string{at.UTC().Format(timeForm)}}
		s.date.Store(d)
	}
	return d.values
}

// sign returns the header Authorization of a request at a time.
func (s *signer) sign(operation string, body []byte, at string) string {
	hashed := sha256.Sum256(body)
	text := append(make([]byte, 0, 1024), s.beforeLength...) // on the stack
	text = strconv.AppendInt(text, int64(len(body)), 10)
	text = append(text, s.beforeTime...)
	text = append(text, at...)
	text = append(text, s.beforeOperation...)
	text = append(text, operation...)
	text = append(text, s.beforeHash...)
	text = hex.AppendEncode(text, hashed[:])
	hashed = sha256.Sum256(text)
	text = append(text[:0], s.inner...)
	text = append(text, algorithm...)
	text = append(text, '\n')
	text = append(text, at...)
	text = append(text, '\n')
	text = append(text, s.scope...)
	text = append(text, '\n')
	text = hex.AppendEncode(text, hashed[:])
	hashed = sha256.Sum256(text)
	text = append(append(text[:0], s.outer...), hashed[:]...)
	hashed = sha256.Sum256(text)
	text = hex.AppendEncode(append(text[:0], s.beforeSignature...), hashed[:])
	return string(text)
}
