package plan

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// Compress returns data in the format of gzip.
func Compress(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data) // writing to a buffer does not fail
	_ = w.Close()
	return b.Bytes()
}

// Decompress is the reverse of Compress. It returns an error beyond most bytes: a few kilobytes can decompress to gigabytes.
func Decompress(data []byte, most int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	all, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(all) > most {
		err = fmt.Errorf("the data has more than %d bytes when decompressed", most)
	}
	return all, err
}
