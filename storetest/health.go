package storetest

import (
	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// healthCases are about ability.HealthChecker.
var healthCases = []testCase{
	{id: "HEALTH-1", about: "a healthy store has no error, and the check changes nothing", needs: needs(healthChecker), run: healthy},
}

func (h *harness) checkHealth() {
	h.Helper()
	if err := able[ability.HealthChecker](h).CheckHealth(h.ctx); err != nil {
		h.Errorf("check health: got error %v, want none", err)
	}
}

func healthy(h *harness) {
	h.checkHealth() // of an empty store
	id := h.id()
	if h.caps.Events {
		h.write(id, 0, 3)
	}
	if h.caps.States {
		h.put(id, 0)
	}
	for range 3 {
		h.checkHealth()
	}
	if h.caps.Events {
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, 3)
		h.wantLast(id, 3)
		h.write(id, 3, 1)
	}
	if h.caps.States {
		h.wantState(id, 1)
		h.put(id, 1)
	}
	if h.caps.IDQueries {
		h.wantIDs("", []annals.PersistenceID{id})
	}
	if h.caps.EventQueries {
		h.wantEvents("query events after checks of health", h.queryEvents(annals.Filter{}, 4), id, 1, 4)
	}
	if h.caps.StateQueries {
		if states := h.queryStates(annals.Filter{}, 1); len(states) != 1 || states[0].ID != id {
			h.Errorf("query states after checks of health: got %d, want that of %q", len(states), id)
		}
	}
}
