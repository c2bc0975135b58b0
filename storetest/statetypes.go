package storetest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// StateTypes tells RunStateTypes how to open a store with state types, whose transaction is T. All functions are required.
type StateTypes[T any] struct {
	// Open returns an empty store, which the suite closes, with t as the state type "Thing". t has no Table; Open may
	// set one. It has two columns, which must be searchable: name, a text, and points, a whole number. Both may be NULL, and neither is unique.
	Open func(tb testing.TB, t annals.StateType[T]) annals.Store

	// Count adds 1 to a counter in a table of the caller's own, in a transaction. Counted reads the counter. A counter begins at 0.
	Count   func(ctx context.Context, tx T, counter string) error
	Counted func(tb testing.TB, s annals.Store, counter string) int

	// Refuse writes something in a transaction that violates a constraint of the caller's own. The error is that of Refuse, or of the end of
	// the transaction.
	Refuse func(ctx context.Context, tx T) error

	// Short and Except are as in Config.
	Short  bool
	Except map[string]string
}

// RunStateTypes checks what annals.StateType promises: columns, searches by column, and change handlers. The store is an ability.StateFinder and an
// ability.Transactor[T].
func RunStateTypes[T any](t *testing.T, c StateTypes[T]) {
	t.Helper()
	config, cases := c.suite()
	run(t, config, cases)
}

// suite makes the Config and the cases. Each store has its own hooks.
func (c StateTypes[T]) suite() (Config, []testCase) {
	hooks := &sync.Map{} // by store
	open := func(tb testing.TB) annals.Store {
		own := &hooksOf[T]{}
		s := c.Open(tb, annals.StateType[T]{Columns: []string{"name", "points"}, Bind: own.bindState, OnChange: own.change})
		hooks.Store(s, own)
		return s
	}
	return Config{Open: open, Short: c.Short, Except: c.Except}, stateTypeCases(func(h *harness) *typed[T] {
		own, _ := hooks.Load(h.store)
		return &typed[T]{h, c, own.(*hooksOf[T])}
	})
}

// typed runs one case about state types.
type typed[T any] struct {
	*harness
	types StateTypes[T]
	*hooksOf[T]
}

// hooksOf are the functions of the state type, set by the case before it writes. nil does nothing.
type hooksOf[T any] struct {
	bind     func(s annals.State) (annals.Columns, error)
	onChange func(ctx context.Context, tx T, s annals.State) error
}

func (o *hooksOf[T]) bindState(s annals.State) (annals.Columns, error) {
	if o.bind == nil {
		return nil, nil
	}
	return o.bind(s)
}

func (o *hooksOf[T]) change(ctx context.Context, tx T, s annals.State) error {
	if o.onChange == nil {
		return nil
	}
	return o.onChange(ctx, tx, s)
}

func stateTypeCases[T any](begin func(h *harness) *typed[T]) []testCase {
	c := func(id, about string, run func(t *typed[T]), n ...need) testCase {
		return testCase{id: id, about: about, needs: append(needs(states), n...), run: func(h *harness) { run(begin(h)) }}
	}
	return []testCase{
		c("COLUMN-1", "a column gets a value, keeps it when the key is absent, and loses it by nil", columnsBound[T]),
		c("COLUMN-2", "a deleted state is not found by its columns, and is found again after a put", columnsOfDeleted[T], deletesStates),
		c("COLUMN-3", "wrong columns of Bind are refused, and its error or panic is returned", columnsRefused[T]),
		c("COLUMN-4", "many states are found, all of them and no others", columnsOfMany[T]),
		c("COLUMN-5", "columns that the type does not have cannot be searched", columnsUnknown[T]),
		c("COLUMN-6", "states of other types are not found", columnsOfOthers[T]),
		c("COLUMN-7", "when columns are kept, the rest of the state is replaced as a whole", columnsBesideStates[T], tags),
		c("COLUMN-8", "a search of a closed store, or one whose body closes the store, ends with ErrClosed", columnsOfClosed[T]),
		c("CHANGE-1", "the handler is given each change as it is stored", changesSeen[T], deletesStates),
		c("CHANGE-2", "writes of the handler are done once for each change, and never for a conflict", changesCounted[T], deletesStates),
		c("CHANGE-3", "a write that is sent again is recognised without the handler", changesRepeated[T], idempotentState, deletesStates),
		c("CHANGE-4", "an error of the handler is returned and undoes the change", handlerFails[T], deletesStates),
		c("CHANGE-5", "a panic in the handler is ErrPanic and undoes the change", handlerPanics[T], deletesStates),
		c("CHANGE-6", "a change whose context ends in the handler is undone, whether the handler returns an error or not", handlerOverTime[T]),
		c("CHANGE-7", "a violated constraint of the caller's own is ErrConstraint", handlerRefused[T]),
		c("CHANGE-8", "changes of one entity are handled one at a time", handlersTakeTurns[T]),
		c("CHANGE-9", "a write to the outer store from a handler is ErrInvalid", handlerOutside[T], events),
		c("CHANGE-10", "within a transaction the handler writes in that transaction", handlerInTx[T]),
		c("CHANGE-11", "a handler that fails within a transaction undoes only its change", handlerFailsInTx[T]),
		c("CHANGE-12", "an invalid write does not call the handler", handlerSpared[T]),
		c("CHANGE-13", "many writers on few entities: each change calls the handler once", changesRace[T], deletesStates),
		c("CHANGE-14", "a change that is undone leaves no event", handlerFailsWithEvent[T], stateEvents, events),
		c("CHANGE-15", "runtime.Goexit in the handler or in Bind is ErrPanic and undoes the change", handlerExits[T], deletesStates),
	}
}

// thing is an id of the state type.
func (t *typed[T]) thing() annals.PersistenceID { return t.idOf("Thing") }

func columnsOfClosed[T any](t *typed[T]) {
	for range 3 {
		t.bind = bindText
		t.set(t.thing(), 0, "name=ann points=3")
	}
	find := func(body func() bool) error {
		return forEach(able[ability.StateFinder](t.harness).FindStates(t.ctx, "Thing", "name", "ann"), body)
	}
	items, op := 0, operation{name: "find states"}
	err := find(func() bool {
		if items++; items == 1 {
			t.closeWithin("the body of a search")
		}
		return true
	})
	if t.wantNamed(err, annals.ErrClosed, op, "whose body closes the store"); items != 1 {
		t.Errorf("search whose body closes the store: got %d states, want 1", items)
	}
	t.wantNamed(find(func() bool { return true }), annals.ErrClosed, op, "of a closed store")
}

// set puts a state whose payload is text. The case ends when that fails.
func (t *typed[T]) set(id annals.PersistenceID, after annals.SeqNr, text string) annals.Receipt {
	t.Helper()
	return t.putState(textState(id, after, text))
}

func textState(id annals.PersistenceID, after annals.SeqNr, text string) annals.StateWrite {
	w := stateWrite(id, after)
	w.Data = []byte(text)
	return w
}

func (t *typed[T]) counts(ctx context.Context, tx T) error { return t.types.Count(ctx, tx, "changes") }

func (t *typed[T]) wantCounted(want int) {
	t.Helper()
	if got := t.types.Counted(t, t.store, "changes"); got != want {
		t.Errorf("what handlers counted: got %d, want %d", got, want)
	}
}

func (t *typed[T]) find(column string, value any) ([]annals.State, error) {
	t.Helper()
	return collect(able[ability.StateFinder](t.harness).FindStates(t.ctx, "Thing", column, value))
}

// wantFound checks that a search finds the states with these payloads, in any order.
func (t *typed[T]) wantFound(column string, value any, want ...string) {
	t.Helper()
	found, err := t.find(column, value)
	if err != nil {
		t.Errorf("states with %s = %v: got error %v, want none", column, value, err)
	}
	var got []string
	for _, s := range found {
		if stored, ok, err := t.store.States().Get(t.ctx, s.ID); err != nil || !ok || !equal(s, stored) {
			t.Errorf("states with %s = %v: got %+v, want %+v (%v), error %v", column, value, s, stored, ok, err)
		}
		got = append(got, string(s.Data))
	}
	if !sameTags(got, want) || len(got) != len(want) {
		t.Errorf("states with %s = %v: got %q, want %q", column, value, got, want)
	}
}

// wantUndone checks that the state is still revision 1, and that the next change is stored.
func (t *typed[T]) wantUndone(id annals.PersistenceID, counted int) {
	t.Helper()
	s, ok, err := t.store.States().Get(t.ctx, id)
	if err != nil || !ok || s.Revision != 1 || string(s.Data) != "fine" {
		t.Errorf("state after a change that failed: got %v, revision %d with %s, error %v, want revision 1 as it was", ok, s.Revision, show(s.Payload), err)
	}
	t.wantCounted(counted)
	t.set(id, 1, "fine")
	t.wantCounted(counted + 1)
}

// failing makes the handler count, and then call fail unless the state is "fine".
func (t *typed[T]) failing(fail func(ctx context.Context, tx T) error) {
	t.onChange = func(ctx context.Context, tx T, s annals.State) error {
		if err := t.counts(ctx, tx); err != nil {
			return err
		}
		if string(s.Data) == "fine" {
			return nil
		}
		return fail(ctx, tx)
	}
}

// bindText makes columns of a payload: "name=ann points=3", "points=nil" or nothing.
func bindText(s annals.State) (annals.Columns, error) {
	columns := annals.Columns{}
	for word := range strings.FieldsSeq(string(s.Data)) {
		name, text, _ := strings.Cut(word, "=")
		switch n, err := strconv.ParseInt(text, 10, 64); {
		case name != "name" && name != "points": // of the text only
		case text == "nil":
			columns[name] = nil
		case err == nil:
			columns[name] = n
		default:
			columns[name] = text
		}
	}
	return columns, nil
}

func columnsBound[T any](t *typed[T]) {
	t.bind = bindText
	id := t.thing()
	t.set(id, 0, "name=ann points=3")
	t.wantFound("name", "ann", "name=ann points=3")
	t.wantFound("points", int64(3), "name=ann points=3")
	t.set(id, 1, "points=4")
	t.wantFound("name", "ann", "points=4")
	t.wantFound("points", int64(3))
	t.set(id, 2, "name=nil")
	t.wantFound("name", "ann")
	t.wantFound("points", int64(4), "name=nil")
	t.set(id, 3, "name=日本 points=nil")
	t.wantFound("name", "日本", "name=日本 points=nil")
	t.wantFound("points", int64(4))
}

func columnsOfDeleted[T any](t *typed[T]) {
	t.bind = bindText
	id := t.thing()
	t.set(id, 0, "name=ann points=3")
	t.deleteState(id, 1)
	t.wantFound("name", "ann")
	t.wantFound("points", int64(3))
	t.set(id, 2, "name=ann points=5")
	t.wantFound("name", "ann", "name=ann points=5")
	t.wantFound("points", int64(3))
}

func columnsRefused[T any](t *typed[T]) {
	mine := errors.New("mine")
	t.onChange = func(ctx context.Context, tx T, _ annals.State) error { return t.counts(ctx, tx) }
	id := t.thing()
	for what, c := range map[string]struct {
		kind error
		bind func(annals.State) (annals.Columns, error)
	}{
		"a column it does not name": {annals.ErrInvalid, func(annals.State) (annals.Columns, error) { return annals.Columns{"revision": int64(7)}, nil }},
		"an int":                    {annals.ErrInvalid, func(annals.State) (annals.Columns, error) { return annals.Columns{"points": 7}, nil }},
		"a slice of strings":        {annals.ErrInvalid, func(annals.State) (annals.Columns, error) { return annals.Columns{"name": []string{"a"}}, nil }},
		"its own error":             {mine, func(annals.State) (annals.Columns, error) { return nil, mine }},
		"a panic":                   {annals.ErrPanic, func(annals.State) (annals.Columns, error) { panic("of the suite") }},
	} {
		t.bind = c.bind
		_, err := t.store.States().Put(t.ctx, stateWrite(id, 0))
		t.wantKind(err, c.kind, "put state when Bind returns %s", what)
	}
	t.wantNoState(id, 0)
	t.wantCounted(0)
	t.bind = bindText
	t.set(id, 0, "name=ann")
	t.wantFound("name", "ann", "name=ann")
}

func columnsOfMany[T any](t *typed[T]) {
	t.bind = bindText
	n, want := t.volume(250, 120), []string(nil)
	together(n, func(i int) {
		w := textState(annals.NewPersistenceID("Thing", strconv.Itoa(i)), 0, "points="+strconv.Itoa(i%2)+" number="+strconv.Itoa(i))
		if _, err := t.store.States().Put(t.ctx, w); err != nil {
			t.Errorf("put state: got error %v, want none", err)
		}
	})
	for i := range n {
		if i%2 == 1 {
			want = append(want, "points=1 number="+strconv.Itoa(i))
		}
	}
	t.wantFound("points", int64(1), want...)
	for s, err := range able[ability.StateFinder](t.harness).FindStates(t.ctx, "Thing", "points", int64(0)) {
		if err != nil || !strings.HasPrefix(string(s.Data), "points=0") {
			t.Errorf("the first state that is found: got %s, error %v, want one with points=0", show(s.Payload), err)
		}
		break
	}
}

func columnsUnknown[T any](t *typed[T]) {
	f := able[ability.StateFinder](t.harness)
	for _, c := range []struct {
		entityType, column string
		value              any
	}{{"Thing", "revision", int64(1)}, {"Thing", "", "x"}, {"Other", "name", "ann"}, {"Thing", "name", []string{"ann"}}} {
		_, err := collect(f.FindStates(t.ctx, c.entityType, c.column, c.value))
		t.wantKind(err, annals.ErrInvalid, "states of type %q with %q = %v", c.entityType, c.column, c.value)
	}
}

func columnsOfOthers[T any](t *typed[T]) {
	t.bind = bindText
	t.set(annals.NewPersistenceID("Thing", "1"), 0, "name=ann")
	t.set(annals.NewPersistenceID("Other", "1"), 0, "name=ann of another type")
	t.set("1", 0, "name=ann of no type")
	t.wantFound("name", "ann", "name=ann")
	for id, want := range map[annals.PersistenceID]string{"Thing|1": "name=ann", "Other|1": "name=ann of another type", "1": "name=ann of no type"} {
		if s, ok, err := t.store.States().Get(t.ctx, id); err != nil || !ok || string(s.Data) != want {
			t.Errorf("state of %q: got %v with %s, error %v, want %q", id, ok, show(s.Payload), err, want)
		}
	}
}

func columnsBesideStates[T any](t *typed[T]) {
	t.bind = bindText
	w := textState(t.thing(), 0, "name=ann")
	w.Tags = []string{"green"}
	t.putState(w)
	for after, p := range []annals.Payload{{SerializerID: 5, Data: []byte("points=1")}, {SerializerID: 4, Manifest: "S", Data: []byte{}}} {
		w := annals.StateWrite{ID: w.ID, After: annals.SeqNr(after + 1), Payload: p, WriteID: annals.NewWriteID()}
		t.putState(w)
		s, ok, err := t.store.States().Get(t.ctx, w.ID)
		if err != nil || !ok || s.Revision != w.After+1 || !equal(s.Payload, p) || len(s.Tags) > 0 {
			t.Errorf("state of revision %d: got %v, revision %d with %s and tags %q, error %v, want %s without tags", w.After+1, ok, s.Revision, show(s.Payload), s.Tags, err, show(p))
		}
	}
	t.wantFound("name", "ann", "")
}

// handlerOverTime gives changes a deadline that ends in the handler.
func handlerOverTime[T any](t *typed[T]) {
	id := t.thing()
	var over error
	t.failing(func(ctx context.Context, _ T) error {
		<-ctx.Done()
		return over
	})
	t.set(id, 0, "fine")
	for _, over = range []error{nil, context.DeadlineExceeded} {
		ctx, cancel := context.WithTimeout(t.ctx, 200*time.Millisecond)
		_, err := t.store.States().Put(ctx, textState(id, 1, "slow"))
		cancel()
		t.wantKind(err, annals.ErrUnavailable, "put state when the handler returns %v late", over)
		t.wantKind(err, context.DeadlineExceeded, "put state when the handler returns %v late", over)
	}
	t.wantUndone(id, 1)
}
