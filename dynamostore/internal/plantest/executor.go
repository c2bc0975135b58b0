// Package plantest tests layouts without a server. It has an executor that records each request and answers it from tables in memory, and
// golden files with which the requests are compared.
package plantest

import (
	"cmp"
	"context"
	"fmt"
	"hash/crc32"
	"iter"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Executor is a plan.Executor without a server. Like the engine it refuses items that are too large, asks plan.Judge when conditions
// fail, and yields items in the order of the range key.
type Executor struct {
	Time time.Time // the next time that Now returns, less a second

	// Meanwhile, when not nil, is called once, after the next request. It does what another process would do.
	Meanwhile func()

	// Changed, when not nil, is called with the new image of each item that is put or updated, as the stream of its table has it. created
	// says that the item did not exist before.
	Changed func(table string, image plan.Item, created bool)

	// Tried, when not nil, is called before a write is executed. failed is what plan.Judge is told of each op.
	Tried func(ops []plan.Op, failed []plan.Item)

	mu       sync.Mutex
	tables   map[string]*memory
	log      strings.Builder
	requests int
}

// maxRequests is more than a test makes. A layout that repeats a request forever fails by it.
const maxRequests = 100_000

type memory struct {
	plan.Table
	items []plan.Item
}

// New returns an Executor with empty tables.
func New(tables []plan.Table) *Executor {
	e := &Executor{Time: time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC), tables: map[string]*memory{}}
	for _, t := range tables {
		e.tables[t.Name] = &memory{Table: t}
	}
	return e
}

// Note records a line of the test between the requests.
func (e *Executor) Note(format string, args ...any) {
	e.print("# "+format+"\n", args...)
}

// Items returns the items of a table, in the order of their keys.
func (e *Executor) Items(table string) []plan.Item { return slices.Clone(e.tables[table].items) }

// Clone returns an Executor with the same items.
func (e *Executor) Clone() *Executor {
	c := &Executor{Time: e.Time, tables: map[string]*memory{}}
	for name, t := range e.tables {
		c.tables[name] = &memory{Table: t.Table, items: slices.Clone(t.items)}
	}
	return c
}

// Without returns a copy of the tables without item i of Items.
func (e *Executor) Without(table string, i int) *Executor {
	c := e.Clone()
	c.tables[table].items = slices.Delete(c.tables[table].items, i, i+1)
	return c
}

// Log returns the requests since the last call of Log, with their answers.
func (e *Executor) Log() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.log.Reset()
	return e.log.String()
}

// Now is plan.Executor.
func (e *Executor) Now() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Time = e.Time.Add(time.Second)
	return e.Time
}

// Get is plan.Executor.
func (e *Executor) Get(_ context.Context, g plan.Get) (plan.Item, bool, error) {
	defer e.meanwhile()
	it := e.tables[g.Table].find(g.Key)
	e.print("get %s %s\n%s", g.Table, showKey(g.Key), answer(it))
	return it, it != nil, nil
}

// GetAll is plan.Executor.
func (e *Executor) GetAll(_ context.Context, table string, keys []plan.Item) ([]plan.Item, error) {
	return slices.DeleteFunc(e.each("get all", table, keys), func(it plan.Item) bool { return it == nil }), nil
}

// each reads the items of keys, nil where there is none, by one request.
func (e *Executor) each(what, table string, keys []plan.Item) []plan.Item {
	defer e.meanwhile()
	items := make([]plan.Item, len(keys))
	e.print("%s %s\n", what, table)
	for i, key := range keys {
		items[i] = e.tables[table].find(key)
		e.print("    %s\n%s", showKey(key), answer(items[i]))
	}
	return items
}

// GetMany is plan.Executor.
func (e *Executor) GetMany(_ context.Context, gets []plan.Get) ([]plan.Item, error) {
	return e.gets("get many", gets), nil
}

// GetTogether is plan.Executor.
func (e *Executor) GetTogether(_ context.Context, gets []plan.Get) ([]plan.Item, error) {
	return e.gets("get together", gets), nil
}

func (e *Executor) gets(what string, gets []plan.Get) []plan.Item {
	defer e.meanwhile()
	items := make([]plan.Item, len(gets))
	e.print("%s\n", what)
	for i, g := range gets {
		items[i] = e.tables[g.Table].find(g.Key)
		e.print("    %s %s\n%s", g.Table, showKey(g.Key), answer(items[i]))
	}
	return items
}

// GetEach is plan.Executor: it reads up to 100 keys at a time, and none ahead.
func (e *Executor) GetEach(_ context.Context, table string, keys iter.Seq[plan.Item], _ int) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		for chunk := range plan.Chunks(keys, 100) {
			for _, it := range e.each("get each", table, chunk) {
				if !yield(it, nil) {
					return
				}
			}
		}
	}
}

// Series is plan.Executor: each query has one page, and none is read ahead.
func (e *Executor) Series(ctx context.Context, queries iter.Seq[plan.Query], _ int) iter.Seq2[plan.Page, error] {
	return func(yield func(plan.Page, error) bool) {
		place := 0
		for q := range queries {
			p := plan.Page{Query: place, Last: true}
			var failed error
			for it, err := range e.Query(ctx, q) {
				p.Items, failed = append(p.Items, it), err
			}
			if place++; !yield(p, failed) {
				return
			}
		}
	}
}

// Query is plan.Executor.
func (e *Executor) Query(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	return e.Merge(ctx, []plan.Query{q}, "")
}

// Merge is plan.Executor.
func (e *Executor) Merge(_ context.Context, queries []plan.Query, order string) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		var found []plan.Item
		e.print("%s", showQueries(queries))
		for _, q := range queries {
			found = append(found, e.tables[q.Table].query(q)...)
		}
		if order != "" {
			slices.SortStableFunc(found, func(a, b plan.Item) int {
				x, _ := plan.Number(a, order)
				y, _ := plan.Number(b, order)
				if queries[0].Backward {
					x, y = y, x
				}
				return cmp.Compare(x, y)
			})
		}
		read := 0
		defer func() {
			rest := ""
			if read < len(found) {
				rest = fmt.Sprintf(" of %d", len(found))
			}
			e.print("    = %d%s\n", read, rest)
			e.meanwhile()
		}()
		for _, it := range found {
			if read++; !yield(it, nil) {
				return
			}
		}
	}
}

// Scan is plan.Executor.
func (e *Executor) Scan(_ context.Context, table string, limit int) ([]plan.Item, error) {
	defer e.meanwhile()
	items := e.tables[table].items
	items = slices.Clone(items[:min(limit, len(items))])
	e.print("scan %s limit %d\n    = %d\n", table, limit, len(items))
	return items, nil
}

// ScanAll is plan.Executor. An item is in the part that the checksum of its hash key names.
func (e *Executor) ScanAll(_ context.Context, table string, fields []string, p plan.Part) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		defer e.meanwhile()
		var found []plan.Item
		t, part := e.tables[table], ""
		if p.Of > 1 {
			part = fmt.Sprintf(" part %d of %d", p.N, p.Of)
		}
		for _, it := range t.items {
			if p.Of <= 1 || crc32.ChecksumIEEE([]byte(plan.KeyText(it[t.Hash.Name])))%uint32(p.Of) == uint32(p.N) {
				found = append(found, projected(it, fields))
			}
		}
		e.print("scan all %s%s\n    fields %s\n    = %d\n", table, part, strings.Join(fields, ", "), len(found))
		for _, it := range found {
			if !yield(it, nil) {
				return
			}
		}
	}
}

// Write is plan.Executor.
func (e *Executor) Write(_ context.Context, w plan.Write) (plan.Outcome, error) {
	for _, op := range w.Ops {
		if op.Stamp != nil {
			op.Stamp(e.Now())
		}
		if err := plan.Fits(op.Put); err != nil {
			e.print("refused: too large\n")
			return plan.Outcome{}, err
		}
	}
	defer e.meanwhile()
	old, stored := e.try(w.Ops, w.Token)
	if !stored {
		outcomes, err := plan.Judge([]plan.Write{w}, old, false, false, nil)
		if err != nil {
			return plan.Outcome{}, err
		}
		return outcomes[0], nil
	}
	return plan.Outcome{Old: old}, nil
}

// try executes ops together. When conditions fail, nothing is stored, and old has what plan.Judge is told of each op.
func (e *Executor) try(ops []plan.Op, token string) (old []plan.Item, stored bool) {
	if len(ops) > 1 || token != "" {
		e.print("transaction\n")
	}
	old, failed := make([]plan.Item, len(ops)), false
	for i, op := range ops {
		t := e.tables[op.Table]
		stands := t.find(t.KeyOf(op.Item()))
		ok := holds(op.Condition, op.Names, op.Values, stands)
		e.print("%s", showOp(op))
		if !ok {
			if failed, old[i] = true, stands; stands == nil {
				old[i] = plan.Item{}
			}
			e.print("    = the condition fails\n")
		}
	}
	if e.Tried != nil {
		e.Tried(ops, old)
	}
	if failed {
		return old, false
	}
	for _, op := range ops {
		t := e.tables[op.Table]
		stands := t.find(t.KeyOf(op.Item()))
		if image := t.apply(op, stands); image != nil && e.Changed != nil {
			e.Changed(op.Table, image, stands == nil)
		}
	}
	return old, true
}

// DeleteAll is plan.Executor.
func (e *Executor) DeleteAll(_ context.Context, table string, keys []plan.Item) error {
	defer e.meanwhile()
	e.print("delete all %s\n", table)
	for _, key := range keys {
		e.print("    %s\n", showKey(key))
		e.tables[table].remove(key)
	}
	return nil
}

// Then is plan.Executor.
func (e *Executor) Then(ctx context.Context, do func(ctx context.Context, x plan.Executor) error) error {
	return do(ctx, e)
}

func (e *Executor) meanwhile() {
	e.mu.Lock()
	e.requests++
	endless := e.requests > maxRequests
	e.mu.Unlock()
	if endless {
		panic(fmt.Sprintf("plantest: a layout has made more than %d requests", maxRequests))
	}
	if do := e.Meanwhile; do != nil {
		e.Meanwhile = nil
		do()
	}
}

func (e *Executor) print(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fmt.Fprintf(&e.log, format, args...)
}

func (m *memory) place(key plan.Item) (int, bool) {
	return slices.BinarySearchFunc(m.items, key, func(a, b plan.Item) int {
		if by := compare(a[m.Hash.Name], b[m.Hash.Name]); by != 0 {
			return by
		}
		return compare(a[m.Range.Name], b[m.Range.Name])
	})
}

func (m *memory) find(key plan.Item) plan.Item {
	if i, ok := m.place(key); ok {
		return m.items[i]
	}
	return nil
}

func (m *memory) remove(key plan.Item) {
	if i, ok := m.place(key); ok {
		m.items = slices.Delete(m.items, i, i+1)
	}
}

// apply executes op and returns the new image of the item; nil when there is none.
func (m *memory) apply(op plan.Op, stands plan.Item) (it plan.Item) {
	switch {
	case op.Put != nil:
		it = op.Put
	case op.Update != "":
		it = updated(op, stands)
	case op.Delete:
		m.remove(op.Key)
		return nil
	default:
		return nil // a check
	}
	i, ok := m.place(it)
	if ok {
		m.items[i] = it
	} else {
		m.items = slices.Insert(m.items, i, it)
	}
	return it
}

func (m *memory) query(q plan.Query) (found []plan.Item) {
	hash, sort := m.Keys(q.Index)
	partition := hash.Value(q.Hash)
	for _, it := range m.items {
		at := it[sort.Name]
		if it[hash.Name] == nil || at == nil && sort.Name != "" || compare(it[hash.Name], partition) != 0 || q.From != nil && compare(at, q.From) < 0 || q.To != nil && compare(at, q.To) > 0 {
			continue
		}
		if holds(q.Filter, q.Names, q.Values, it) {
			found = append(found, projected(it, q.Fields))
		}
	}
	slices.SortStableFunc(found, func(a, b plan.Item) int { return compare(a[sort.Name], b[sort.Name]) })
	if q.Backward {
		slices.Reverse(found)
	}
	return found
}

func projected(it plan.Item, fields []string) plan.Item {
	if fields == nil {
		return it
	}
	some := plan.Item{}
	for _, name := range fields {
		if v, ok := it[name]; ok {
			some[name] = v
		}
	}
	return some
}

// compare returns the order of two values of a key. For other values only 0, for equal ones, has a meaning.
func compare(a, b types.AttributeValue) int {
	if x, ok := a.(*types.AttributeValueMemberN); ok {
		if y, ok := b.(*types.AttributeValueMemberN); ok {
			if n, err := strconv.ParseInt(x.Value, 10, 64); err == nil {
				if m, err := strconv.ParseInt(y.Value, 10, 64); err == nil {
					return cmp.Compare(n, m)
				}
			}
			n, _ := new(big.Rat).SetString(x.Value)
			m, _ := new(big.Rat).SetString(y.Value)
			return n.Cmp(m)
		}
	}
	if x, ok := a.(*types.AttributeValueMemberS); ok {
		if y, ok := b.(*types.AttributeValueMemberS); ok {
			return strings.Compare(x.Value, y.Value)
		}
	}
	return strings.Compare(show(a), show(b))
}
