package progress

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/annals-go/annals"
)

// Internal reports whether id is that of a durable state in which a projection keeps its own data. The runners write one every few seconds. No
// behavior has such a type.
func Internal(id annals.PersistenceID) bool { return strings.HasPrefix(id.Type(), "annals.") }

// ParkedID is the id of the durable state with the parked entities of a projection in one slice: JSON, an object by entity, whose "from" is
// the number of the first event that waits.
func ParkedID(projection string, slice int) annals.PersistenceID {
	return annals.NewPersistenceID("annals.parked", strconv.Itoa(slice)+"/"+projection)
}

// parkedFrom returns the number of the first event of id that waits because the entity is parked; 0 when it is not.
func parkedFrom(ctx context.Context, s annals.Store, projection string, id annals.PersistenceID) (annals.SeqNr, error) {
	if !s.Capabilities().States {
		return 0, nil
	}
	at := ParkedID(projection, id.Slice())
	state, ok, err := s.States().Get(ctx, at)
	if err != nil || !ok {
		return 0, err
	}
	var parked map[annals.PersistenceID]struct {
		From annals.SeqNr `json:"from"`
	}
	if json.Unmarshal(state.Data, &parked) != nil {
		return 0, &annals.Error{Op: "read parked entities", ID: at, Kind: annals.ErrCorrupt, Err: errors.New("it is not the JSON of package projection")}
	}
	return parked[id].From, nil
}
