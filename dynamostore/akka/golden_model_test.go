package akka_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/annals-go/annals"
)

// model is what a scenario's calls leave of an entity: the events that were acknowledged, and neither deleted nor lost nor replaced.
type model struct {
	events map[annals.SeqNr]stored
	low    annals.SeqNr // what is below has been deleted
}

type stored struct {
	payload
	first, last annals.SeqNr // of its batch
	writer      string
}

// models replays the calls of a scenario. Those of by are left out when by is not "".
func (s *scenario) models(by string) map[annals.PersistenceID]*model {
	all := map[annals.PersistenceID]*model{}
	of := func(id annals.PersistenceID) *model {
		if all[id] == nil {
			all[id] = &model{events: map[annals.SeqNr]stored{}}
		}
		return all[id]
	}
	for _, step := range s.inputs.Steps {
		if by != "" && step.By == by {
			continue
		}
		switch m := of(step.PID); step.Op {
		case "persist":
			for i, e := range step.Events {
				if !step.acknowledged(i) {
					continue
				}
				kept := stored{e, e.SeqNr, e.SeqNr, step.WriterUUID}
				if step.Atomic {
					kept.first, kept.last = step.Events[0].SeqNr, step.Events[len(step.Events)-1].SeqNr
				}
				m.events[e.SeqNr] = kept
			}
		case "deleteTo":
			m.low = max(m.low, min(step.To, m.last())+1)
			maps.DeleteFunc(m.events, func(n annals.SeqNr, _ stored) bool { return n < m.low })
		case "purge":
			delete(all, step.PID)
		case "loseItem":
			kind, id, group := parse(step.Par)
			switch m := of(id); kind {
			case "P":
				delete(m.events, group*100+annals.SeqNr(step.Num))
			case "SL":
				m.low = 0
			}
		}
	}
	return all
}

// acknowledged reports whether event i was stored: the plugin has not rejected it.
func (s step) acknowledged(i int) bool {
	var results []string
	if json.Unmarshal(s.Result, &results) != nil {
		return true
	}
	return results[i] == "ok"
}

// parse returns the parts of a partition key of the journal named journal.
func parse(par string) (kind string, id annals.PersistenceID, group annals.SeqNr) {
	rest := strings.TrimPrefix(par, "journal-")
	kind, rest, _ = strings.Cut(rest, "-")
	at := strings.LastIndexByte(rest, '-')
	_, _ = fmt.Sscan(rest[at+1:], &group)
	return kind, annals.PersistenceID(rest[:at]), group
}

func (m *model) last() annals.SeqNr {
	last := m.low - 1
	for n := range m.events {
		last = max(last, n)
	}
	return max(last, 0)
}

// replay returns the events within bounds. Those of a batch that is not complete are left out.
func (m *model) replay(from, to, most annals.SeqNr) (events []stored) {
	for _, n := range slices.Sorted(maps.Keys(m.events)) {
		e := m.events[n]
		complete := true
		for k := e.first; k <= e.last; k++ {
			other, ok := m.events[k]
			complete = complete && (k < m.low || ok && other.first == e.first && other.writer == e.writer)
		}
		if complete && n >= from && n <= to && annals.SeqNr(len(events)) < most {
			events = append(events, e)
		}
	}
	return events
}

// newest returns the snapshot with the highest number that was saved and not deleted, and fits c.
func (s *scenario) newest(id annals.PersistenceID, c criteria) (newest payload, ok bool) {
	all := map[annals.SeqNr]payload{}
	for _, step := range s.inputs.Steps {
		if step.PID != id {
			continue
		}
		switch step.Op {
		case "saveSnapshot":
			step.payload.Timestamp = step.Timestamp
			all[step.SeqNr] = step.payload
		case "deleteSnapshot":
			delete(all, step.SeqNr)
		case "deleteSnapshots":
			maps.DeleteFunc(all, func(_ annals.SeqNr, p payload) bool { return step.criteria.fits(p) })
		}
	}
	for _, n := range slices.Sorted(maps.Keys(all)) {
		if c.fits(all[n]) && n <= c.To {
			newest, ok = all[n], true
		}
	}
	return newest, ok
}

func (c criteria) fits(p payload) bool {
	return c.MinSeqNr <= p.SeqNr && p.SeqNr <= c.MaxSeqNr && c.MinTimestamp <= p.Timestamp && p.Timestamp <= c.MaxTimestamp
}
