package plantest

import (
	"archive/tar"
	"compress/bzip2"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Archive returns the files of an archive, by the last two parts of their paths. Its name ends with .tar.gz or .tar.bz2.
func Archive(t testing.TB, name string) map[[2]string][]byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var unpacked io.Reader
	if strings.HasSuffix(name, ".bz2") {
		unpacked = bzip2.NewReader(f)
	} else if unpacked, err = gzip.NewReader(f); err != nil {
		t.Fatal(err)
	}
	files := map[[2]string][]byte{}
	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[[2]string{path.Base(path.Dir(header.Name)), path.Base(header.Name)}] = data
	}
}

// Dump is a table as an archive has it, in DynamoDB JSON.
type Dump struct {
	Table struct{ TableName string }
	Items []Dumped
}

// Dumped is an item that is read from DynamoDB JSON.
type Dumped plan.Item

// UnmarshalJSON implements json.Unmarshaler.
func (d *Dumped) UnmarshalJSON(b []byte) error {
	var fields map[string]map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	it := plan.Item{}
	for name, typed := range fields {
		v, err := dumped(typed)
		if err != nil {
			return err
		}
		it[name] = v
	}
	*d = Dumped(it)
	return nil
}

// dumped returns the value of an attribute.
func dumped(typed map[string]any) (types.AttributeValue, error) {
	for kind, v := range typed {
		switch kind {
		case "S":
			return plan.S(v.(string)), nil
		case "N":
			return &types.AttributeValueMemberN{Value: v.(string)}, nil
		case "BOOL":
			return plan.Bool(v.(bool)), nil
		case "B":
			data, err := base64.StdEncoding.DecodeString(v.(string))
			return plan.B(data), err
		case "SS":
			set := &types.AttributeValueMemberSS{}
			for _, text := range v.([]any) {
				set.Value = append(set.Value, text.(string))
			}
			return set, nil
		case "L":
			list := &types.AttributeValueMemberL{}
			for _, e := range v.([]any) {
				of, err := dumped(e.(map[string]any))
				if err != nil {
					return nil, err
				}
				list.Value = append(list.Value, of)
			}
			return list, nil
		case "M":
			m := plan.Item{}
			for name, e := range v.(map[string]any) {
				of, err := dumped(e.(map[string]any))
				if err != nil {
					return nil, err
				}
				m[name] = of
			}
			return plan.M(m), nil
		}
		return nil, fmt.Errorf("no case for %s", kind)
	}
	return nil, errors.New("an attribute without a type")
}
