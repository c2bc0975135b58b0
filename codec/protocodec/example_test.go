package protocodec_test

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/protocodec"
)

// Reminded is a domain type: no generated code.
type Reminded struct{ At time.Time }

// reminders stores a Reminded as the message google.protobuf.Timestamp.
var reminders = protocodec.Map("reminded",
	func(r Reminded) (*timestamppb.Timestamp, error) { return timestamppb.New(r.At), nil },
	func(m *timestamppb.Timestamp) (Reminded, error) {
		if !m.IsValid() {
			return Reminded{}, codec.Fault("the timestamp is not valid")
		}
		return Reminded{m.AsTime()}, nil
	})

func ExampleMap() {
	p, err := reminders.Encode(Reminded{time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC)})
	if err != nil {
		panic(err)
	}
	back, err := reminders.Decode(p)
	fmt.Println(p.Manifest, len(p.Data), back.At, err)
	// Output: reminded 6 2026-11-22 09:30:00 +0000 UTC <nil>
}
