package outlet

import (
	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
)

// AsStored is the codec of a source whose events are published without being decoded.
var AsStored codec.Codec[annals.Payload] = asStored{}

type asStored struct{}

func (asStored) Encode(p annals.Payload) (annals.Payload, error) { return p, nil }
func (asStored) Decode(p annals.Payload) (annals.Payload, error) { return p, nil }
