package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
	"github.com/annals-go/annals/internal/valid"
	"github.com/annals-go/annals/memstore"
)

// fault is what a typedStore does wrong.
type fault string

const (
	none          fault = ""
	countsAtOnce  fault = "what a handler writes is there at once"
	countsAgain   fault = "a write sent again is counted again"
	keepsFailed   fault = "a change stays though its handler failed"
	missesDeletes fault = "deletes are not handled"
	asksFirst     fault = "a write sent again asks the handler first"
	plainPanics   fault = "a panic is an error like any other"
	patient       fault = "the time of a handler does not matter"
	muddled       fault = "a constraint is a conflict"
	trusting      fault = "Bind may return anything"
	sticky        fault = "nil leaves a column alone"
	remembering   fault = "a deleted state is found"
	mixing        fault = "states of all types are found"
	searching     fault = "any column can be searched"
	eager         fault = "wrong writes are handled"
	outliving     fault = "what a handler writes outlives its transaction"
	exiting       fault = "runtime.Goexit in a handler ends the caller's goroutine"
)

func TestStateTypes(t *testing.T) {
	t.Parallel()
	RunStateTypes(t, typedStores(none))
}

// The suite finds stores whose state types break a promise.
func TestStateTypeMutants(t *testing.T) {
	t.Parallel()
	for wrong, caught := range map[fault][]string{
		countsAtOnce:  {"CHANGE-2", "CHANGE-4", "CHANGE-5", "CHANGE-10", "CHANGE-13"},
		countsAgain:   {"CHANGE-3"},
		keepsFailed:   {"CHANGE-4", "CHANGE-5", "CHANGE-11", "CHANGE-14"},
		missesDeletes: {"CHANGE-1", "CHANGE-2"},
		asksFirst:     {"CHANGE-3"},
		plainPanics:   {"CHANGE-5", "COLUMN-3"},
		patient:       {"CHANGE-6"},
		muddled:       {"CHANGE-7"},
		trusting:      {"COLUMN-3"},
		sticky:        {"COLUMN-1"},
		remembering:   {"COLUMN-2"},
		mixing:        {"COLUMN-6"},
		searching:     {"COLUMN-5"},
		eager:         {"CHANGE-12"},
		outliving:     {"CHANGE-10"},
		exiting:       {"CHANGE-15"},
	} {
		t.Run(string(wrong), func(t *testing.T) {
			t.Parallel()
			c := typedStores(wrong)
			c.Short = true
			config, all := c.suite()
			p := config.probe(t)
			for _, id := range caught {
				i := slices.IndexFunc(all, func(tc testCase) bool { return tc.id == id })
				if i < 0 || !fails(t, all[i], p) {
					t.Errorf("%s: passes or is no case, want it to fail", id)
				}
			}
		})
	}
}

func typedStores(wrong fault) StateTypes[*typedTx] {
	return StateTypes[*typedTx]{
		Open: func(_ testing.TB, st annals.StateType[*typedTx]) annals.Store {
			return &typedStore{Store: memstore.New(), wrong: wrong, st: st, counts: map[string]int{}, columns: map[annals.PersistenceID]annals.Columns{}}
		},
		Count: func(_ context.Context, tx *typedTx, counter string) error {
			tx.add(func(s *typedStore) { s.counts[counter]++ })
			return nil
		},
		Counted: func(_ testing.TB, s annals.Store, counter string) int {
			store := s.(*typedStore)
			store.mu.Lock()
			defer store.mu.Unlock()
			return store.counts[counter]
		},
		Refuse: func(_ context.Context, tx *typedTx) error {
			kind := annals.ErrConstraint
			if tx.s.wrong == muddled {
				kind = annals.ErrConflict
			}
			return &annals.Error{Op: "refuse", Kind: kind}
		},
	}
}

// typedStore is a store in memory whose type "Thing" has columns and a change handler.
type typedStore struct {
	*memstore.Store
	wrong fault
	st    annals.StateType[*typedTx]

	mu      sync.Mutex
	counts  map[string]int
	columns map[annals.PersistenceID]annals.Columns
}

// typedTx collects what is to be done when the transaction commits.
type typedTx struct {
	s    *typedStore
	todo []func(s *typedStore)
}

func (tx *typedTx) add(do func(s *typedStore)) {
	if tx.s.wrong == countsAtOnce {
		tx.s.do(do)
		return
	}
	tx.todo = append(tx.todo, do)
}

func (s *typedStore) do(todo ...func(s *typedStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, do := range todo {
		do(s)
	}
}

func (s *typedStore) InTx(ctx context.Context, fn func(ctx context.Context, tx *typedTx, in annals.Store) error) error {
	tx := &typedTx{s: s}
	err := s.Store.InTx(ctx, func(ctx context.Context, _ memstore.Tx, in annals.Store) error {
		return fn(ctx, tx, typedInside{in, tx})
	})
	if err == nil || s.wrong == outliving {
		s.do(tx.todo...)
	}
	return err
}

func (s *typedStore) Atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	return s.InTx(ctx, func(ctx context.Context, _ *typedTx, in annals.Store) error { return fn(ctx, in) })
}

func (s *typedStore) States() annals.StateStore { return typedStates{s.Store.States(), s, nil} }

// typedInside is the store within a transaction.
type typedInside struct {
	annals.Store
	tx *typedTx
}

func (in typedInside) States() annals.StateStore {
	return typedStates{in.Store.States(), in.tx.s, in.tx}
}

type typedStates struct {
	annals.StateStore
	s  *typedStore
	tx *typedTx // nil outside
}

func (v typedStates) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return v.write(ctx, "put state", w, annals.StateStore.Put)
}

func (v typedStates) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	w.Payload = annals.Payload{}
	return v.write(ctx, "delete state", w, annals.StateStore.Delete)
}

type storeState = func(s annals.StateStore, ctx context.Context, w annals.StateWrite) (annals.Receipt, error)

func (v typedStates) write(ctx context.Context, op string, w annals.StateWrite, store storeState) (r annals.Receipt, err error) {
	if w.ID.Type() != "Thing" {
		return store(v.StateStore, ctx, w)
	}
	if v.s.wrong != eager {
		if err := valid.StateWrite(op, w, v.s.Capabilities().Limits); err != nil {
			return r, err
		}
	}
	if v.tx != nil {
		return v.change(ctx, op, w, store)
	}
	var own error
	err = v.s.InTx(ctx, func(ctx context.Context, tx *typedTx, in annals.Store) error {
		r, own = typedStates{in.(typedInside).Store.States(), v.s, tx}.change(ctx, op, w, store)
		if v.s.wrong == keepsFailed {
			return nil
		}
		return own
	})
	if own != nil {
		err = own
	}
	return r, err
}

// change calls the handler before it stores the write, so that the write can be left out.
func (v typedStates) change(ctx context.Context, op string, w annals.StateWrite, store storeState) (annals.Receipt, error) {
	deleted := op == "delete state"
	st := annals.State{ID: w.ID, Revision: w.After + 1, Time: time.Now(), Payload: w.Payload, Tags: w.Tags, Metadata: w.Metadata, Deleted: deleted}
	own := &typedTx{s: v.s}
	failed := v.handle(ctx, op, st, own)
	if failed != nil && v.s.wrong == asksFirst {
		return annals.Receipt{}, failed
	}
	if failed != nil && v.s.wrong != keepsFailed {
		if last, _, err := v.Get(ctx, w.ID); err != nil || last.Revision == w.After {
			return annals.Receipt{}, failed
		}
		failed = nil // the write is a conflict or repeated: the handler's answer does not count
	}
	r, err := store(v.StateStore, ctx, w)
	if err == nil && (!r.Repeated || v.s.wrong == countsAgain) {
		v.tx.todo = append(v.tx.todo, own.todo...)
	}
	return r, errors.Join(err, failed)
}

func (v typedStates) handle(ctx context.Context, op string, st annals.State, tx *typedTx) error {
	columns := annals.Columns{}
	if !st.Deleted {
		err := v.contained(op, st.ID, func() (err error) { columns, err = v.s.st.Bind(st); return err })
		if err != nil {
			return err
		}
		if err := v.check(op, st.ID, columns); err != nil {
			return err
		}
	}
	tx.todo = append(tx.todo, func(s *typedStore) { s.bind(st, columns) })
	if st.Deleted && v.s.wrong == missesDeletes {
		return nil
	}
	err := v.contained(op, st.ID, func() error { return v.s.st.OnChange(ctx, tx, st) })
	if ended := ctx.Err(); ended != nil && v.s.wrong != patient {
		return &annals.Error{Op: op, ID: st.ID, Kind: annals.ErrUnavailable, Err: ended}
	}
	return err
}

func (v typedStates) check(op string, id annals.PersistenceID, columns annals.Columns) error {
	for name, value := range columns {
		switch value.(type) {
		case nil, string, int64:
			if slices.Contains(v.s.st.Columns, name) {
				continue
			}
		}
		if v.s.wrong != trusting {
			return &annals.Error{Op: op, ID: id, Kind: annals.ErrInvalid, Err: fmt.Errorf("column %q of type %T", name, value)}
		}
	}
	return nil
}

func (v typedStates) contained(op string, id annals.PersistenceID, fn func() error) error {
	contain := panics.Contain
	switch v.s.wrong {
	case plainPanics:
		contain = recovering(nil)
	case exiting:
		contain = recovering(annals.ErrPanic)
	}
	return contain(op, id, func() error {
		err := fn()
		if err == nil {
			return nil
		}
		e := &annals.Error{Op: op, ID: id, Err: err}
		if own := (*annals.Error)(nil); errors.As(err, &own) {
			e.Kind = own.Kind
		}
		return e
	})
}

// recovering is panics.Contain on the caller's own goroutine, with another kind of error.
func recovering(kind error) func(string, annals.PersistenceID, func() error) error {
	return func(op string, id annals.PersistenceID, fn func() error) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = &annals.Error{Op: op, ID: id, Kind: kind, Err: fmt.Errorf("%v", p)}
			}
		}()
		return fn()
	}
}

// bind keeps the columns of st.
func (s *typedStore) bind(st annals.State, columns annals.Columns) {
	kept := s.columns[st.ID]
	if kept == nil {
		kept = annals.Columns{}
		s.columns[st.ID] = kept
	}
	for name, value := range columns {
		if value != nil || s.wrong != sticky {
			kept[name] = value
		}
	}
}

func (s *typedStore) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	return func(yield func(annals.State, error) bool) {
		_, slice := value.([]string)
		if (entityType != "Thing" || slice || !slices.Contains(s.st.Columns, column)) && s.wrong != searching {
			yield(annals.State{}, &annals.Error{Op: "find states", Kind: annals.ErrInvalid})
			return
		}
		s.mu.Lock()
		var ids []annals.PersistenceID
		for id, columns := range s.columns {
			if have, ok := columns[column]; ok && have == value {
				ids = append(ids, id)
			}
		}
		s.mu.Unlock()
		if s.wrong == mixing {
			ids = append(ids, "Other|1")
		}
		for _, id := range ids {
			st, ok, err := s.Store.States().Get(ctx, id)
			if e := (*annals.Error)(nil); errors.As(err, &e) {
				err = &annals.Error{Op: "find states", Kind: e.Kind, Err: e.Err}
			}
			if (ok || err != nil || s.wrong == remembering) && !yield(st, err) {
				return
			}
		}
	}
}
