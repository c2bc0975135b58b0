package operate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// variable is an environment variable in a URL.
var variable = regexp.MustCompile(`\$\{[^}]*\}`)

// named is the URL that address is, or that it names in the file of --config. No output shows its secrets.
func (k *call) named(address string) (string, error) {
	if !strings.Contains(address, ":") {
		file, stores, err := k.configFile()
		if err != nil {
			return "", usage("%v", err)
		}
		text, ok := stores[address]
		if !ok {
			return "", usage("%s has no store %s, but: %s", clean(file), name(address), name(strings.Join(slices.Sorted(maps.Keys(stores)), ", ")))
		}
		var unset error
		address = variable.ReplaceAllStringFunc(text, func(v string) string {
			value, ok := os.LookupEnv(v[2 : len(v)-1])
			if !ok {
				unset = usage("%s: the environment variable in %s is not set", clean(file), name(v))
			}
			if v == text {
				return value // the whole URL
			}
			return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
		})
		if unset != nil {
			return "", unset
		}
	}
	k.secrets = append(k.secrets, secrets(address)...)
	return address, nil
}

// configFile reads the file of --config.
func (k *call) configFile() (file string, stores map[string]string, err error) {
	file = k.config
	if file == "" {
		file = os.Getenv(configEnv)
	}
	if file == "" {
		folder, err := os.UserConfigDir()
		if err != nil {
			return "", nil, fmt.Errorf("--store is no URL, and there is no --config: %w", err)
		}
		file = filepath.Join(folder, "annals", "stores.json")
	}
	text, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return file, nil, fmt.Errorf("--store is no URL, and the file of --config cannot be read: %w", err)
	}
	stores, offset, err := parseConfig(text)
	if err != nil {
		err = fmt.Errorf("%s:%d: %w", file, 1+bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n")), err)
	}
	return file, stores, err
}

// parseConfig reads {"stores": {"name": "URL"}}. offset is that of an error.
func parseConfig(text []byte) (stores map[string]string, offset int64, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	for depth := 0; err == nil; {
		var token json.Token
		token, err = d.Token()
		switch begins := token == json.Delim('{'); {
		case err != nil:
		case depth == 0 && begins, token == json.Delim('}'):
			depth++
		case depth == 1 && token == "stores":
			offset = d.InputOffset()
			err = d.Decode(&stores)
		case depth == 1:
			err = fmt.Errorf("unknown member %q", token)
		default:
			err = errors.New("the file is not one object")
		}
		if errors.Is(err, io.EOF) && depth == 2 {
			return stores, 0, nil
		}
	}
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, s.Offset, err
	} else if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // its own text may quote the value
		return nil, offset + t.Offset, fmt.Errorf("a %s is not an object of URLs", t.Value)
	}
	return nil, d.InputOffset(), err
}
