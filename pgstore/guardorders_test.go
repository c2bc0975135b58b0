package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// guardOrders runs transactions that guard their reads, and a writer, in a given order of their steps. All of them have a store of their own, or a
// session.
type guardOrders struct {
	t      *testing.T
	states bool // they read and write states, not events
	url    string
	watch  *pgx.Conn
	lock   *pgx.Conn // holds transactions at their COMMIT
	stores map[string]*pgstore.Store
	plugin *pgx.Conn
	n      int
}

// The steps of a transaction: it reads both entities, writes one of them, locks and compares, and is held before it commits. The reader's is
// one step, and so is the writer's; a plugin's writer has two.
var (
	guardedSteps = []string{"reads", "writes", "compares", "commits"}
	one          = []string{"runs"}
	pluginSteps  = []string{"inserts", "commits"}
)

// newGuardOrders has stores on tables of its own.
func newGuardOrders(t *testing.T, states bool) *guardOrders {
	t.Helper()
	o := &guardOrders{t: t, states: states, url: postgres.Schema(t), stores: map[string]*pgstore.Store{}}
	o.watch, o.lock, o.plugin = session(t, o.url), session(t, o.url), session(t, with(t, o.url, "application_name="+o.session("plugin")))
	openAt(t, o.url, pgstore.Options{CreateTables: true})
	run(t, o.url, `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF right(current_setting('application_name'), 2) IN ('-1', '-2') THEN
				PERFORM pg_advisory_xact_lock_shared(7, hashtext(current_setting('application_name')));
			END IF;
			RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON event_journal DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold();
		CREATE CONSTRAINT TRIGGER hold AFTER INSERT OR UPDATE ON durable_state DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold()`)
	for _, name := range []string{"1", "2", "writer", "reader"} {
		o.stores[name] = openAt(t, with(t, o.url, "application_name="+o.session(name)), pgstore.Options{WriteTimeout: time.Minute})
	}
	return o
}

// session is the name of the sessions of one of the stores.
func (o *guardOrders) session(name string) string {
	return fmt.Sprintf("%s-%s", o.t.Name()[max(0, len(o.t.Name())-30):], name)
}

// process is one of those that run in an order.
type process struct {
	name  string
	steps []string
	run   func(p *process) error
	sent  int // steps
	done  int // steps
	begun bool
	next  chan struct{}
	moved chan struct{} // a step is done
	ended chan struct{}

	began, end int // places in the order
	read       map[annals.PersistenceID]annals.SeqNr
	wrote      annals.PersistenceID
	err        error
}

// step waits until the next step may begin.
func (p *process) step() {
	if p.begun {
		p.moved <- struct{}{}
	}
	p.begun = true
	<-p.next
}

// number reads what a transaction reads.
func (o *guardOrders) number(ctx context.Context, s annals.Store, id annals.PersistenceID) (annals.SeqNr, error) {
	if o.states {
		state, _, err := s.States().Get(ctx, id)
		return state.Revision, err
	}
	return s.Journal().LastSeqNr(ctx, id)
}

func (o *guardOrders) write(ctx context.Context, s annals.Store, id annals.PersistenceID, after annals.SeqNr) error {
	if o.states {
		_, err := s.States().Put(ctx, annals.StateWrite{ID: id, After: after, Payload: text("s")})
		return err
	}
	_, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: after, Events: []annals.NewEvent{{Payload: text("e")}}})
	return err
}

// transaction reads ids, and writes the entity wrote if there is one.
func (o *guardOrders) transaction(name string, steps []string, wrote annals.PersistenceID, ids ...annals.PersistenceID) *process {
	return &process{name: name, steps: steps, wrote: wrote, run: func(p *process) error {
		p.step()
		return o.stores[name].InTx(o.t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) (err error) {
			for _, id := range ids {
				if p.read[id], err = o.number(ctx, in, id); err != nil {
					return err
				}
			}
			if wrote == "" {
				return nil
			}
			p.step()
			if err := o.write(ctx, in, wrote, p.read[wrote]); err != nil {
				return err
			}
			p.step()
			return nil
		})
	}}
}

// writer writes after 1, without a transaction.
func (o *guardOrders) writer(id annals.PersistenceID) *process {
	return &process{name: "writer", steps: one, wrote: id, run: func(p *process) error {
		p.step()
		p.read[id] = 1
		return o.write(o.t.Context(), o.stores["writer"], id, 1)
	}}
}

// pluginInsert is the statement of akka-persistence-r2dbc for an event.
const pluginInsert = `INSERT INTO event_journal
	(slice, entity_type, persistence_id, seq_nr, writer, adapter_manifest, event_ser_id, event_ser_manifest, event_payload, tags,
		meta_ser_id, meta_ser_manifest, meta_payload, db_timestamp)
	VALUES ($1, 'T', $2, 2, 'jvm', '', 1, '', '\x65', NULL, NULL, NULL, NULL, CURRENT_TIMESTAMP)`

// pluginWriter inserts event 2 in a transaction of its own.
func (o *guardOrders) pluginWriter(id annals.PersistenceID) *process {
	return &process{name: "plugin", steps: pluginSteps, wrote: id, run: func(p *process) error {
		p.step()
		p.read[id] = 1
		_, err := o.plugin.Exec(o.t.Context(), "BEGIN")
		if err == nil {
			_, err = o.plugin.Exec(o.t.Context(), pluginInsert, id.Slice(), string(id))
		}
		if err != nil {
			_, failed := o.plugin.Exec(o.t.Context(), "ROLLBACK")
			if strings.Contains(err.Error(), "23505") {
				err = annals.ErrConflict
			}
			return errors.Join(err, failed)
		}
		p.step()
		_, err = o.plugin.Exec(o.t.Context(), "COMMIT")
		return err
	}}
}

// processes are those of a case, about two new entities with number 1: two transactions that read both and write one each, a writer and, where
// reader is set, a transaction that only reads.
func (o *guardOrders) processes(plugin, reader bool) (ids []annals.PersistenceID, all []*process) {
	o.t.Helper()
	o.n++
	for _, name := range []string{"a", "b"} {
		id := annals.PersistenceID(fmt.Sprintf("T|%s %d", name, o.n))
		if err := o.write(o.t.Context(), o.stores["writer"], id, 0); err != nil {
			o.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	all = append(all, o.transaction("1", guardedSteps, ids[0], ids...), o.transaction("2", guardedSteps, ids[1], ids[1], ids[0]))
	if plugin {
		all = append(all, o.pluginWriter(ids[0]))
	} else {
		all = append(all, o.writer(ids[0]))
	}
	if reader {
		all = append(all, o.transaction("reader", one, "", ids...))
	}
	return ids, all
}

// stepOrders are all orders of so many steps of each process.
func stepOrders(steps ...int) (all [][]int) {
	var extend func(order []int)
	extend = func(order []int) {
		whole := true
		for i := range steps {
			if steps[i] == 0 {
				continue
			}
			whole = false
			steps[i]--
			extend(append(slices.Clone(order), i))
			steps[i]++
		}
		if whole {
			all = append(all, order)
		}
	}
	extend(nil)
	return all
}

// run runs the processes in an order of their steps. It returns what is wrong with the outcome; "" when nothing is.
func (o *guardOrders) run(order []int, ids []annals.PersistenceID, all []*process) string {
	o.t.Helper()
	for _, p := range all {
		p.next, p.moved, p.ended = make(chan struct{}, len(p.steps)), make(chan struct{}, len(p.steps)), make(chan struct{})
		p.read = map[annals.PersistenceID]annals.SeqNr{}
		go func() {
			defer close(p.ended)
			p.err = p.run(p)
		}()
		if len(p.steps) == len(guardedSteps) {
			o.exec("SELECT pg_advisory_lock(7, hashtext($1))", o.session(p.name))
		}
	}
	var names []string
	for place, i := range order {
		p := all[i]
		if p.sent == 0 {
			p.began = place
		}
		step := p.steps[p.sent]
		names = append(names, p.name+" "+step)
		p.sent++
		if step == "commits" && len(p.steps) == len(guardedSteps) {
			o.exec("SELECT pg_advisory_unlock(7, hashtext($1))", o.session(p.name))
		}
		p.next <- struct{}{}
		o.settle(p, step == "commits")
		o.ends(all, place)
	}
	for _, p := range all {
		<-p.ended
	}
	o.ends(all, len(order))
	return o.wrong(strings.Join(names, ", "), ids, all)
}

// settle returns when p has done its step, has ended, or waits for a lock; with free, one that is not the test's.
func (o *guardOrders) settle(p *process, free bool) {
	o.t.Helper()
	for waits := false; p.done < p.sent && !waits; {
		select {
		case <-p.ended:
			return
		case <-p.moved:
			p.done++
			continue
		case <-time.After(2 * time.Millisecond): // most steps take less, and each look at the locks takes the server as long as a step
		}
		err := o.watch.QueryRow(o.t.Context(), `SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE a.application_name = $1 AND NOT l.granted AND NOT ($2 AND l.locktype = 'advisory' AND l.classid = 7 AND l.objsubid = 2))`,
			o.session(p.name), free).Scan(&waits)
		if err != nil {
			o.t.Fatal(err)
		}
	}
}

// ends notes the place at which processes were seen to have ended.
func (o *guardOrders) ends(all []*process, place int) {
	for _, p := range all {
		select {
		case <-p.ended:
			if p.end == 0 {
				p.end = place + 1
			}
		default:
		}
	}
}

func (o *guardOrders) exec(sql, parameter string) {
	o.t.Helper()
	if _, err := o.lock.Exec(o.t.Context(), sql, parameter); err != nil {
		o.t.Fatal(err)
	}
}

// wrong says why no order, one after the other, of the processes that were stored explains what they have read and what is stored.
func (o *guardOrders) wrong(order string, ids []annals.PersistenceID, all []*process) string {
	o.t.Helper()
	var stored []*process
	outcome := order + ":"
	for _, p := range all {
		outcome += fmt.Sprintf("\n%s at %d … %d read %v, wrote %s: %v", p.name, p.began, p.end, p.read, p.wrote, p.err)
		if p.err == nil {
			stored = append(stored, p)
		} else if !errors.Is(p.err, annals.ErrConflict) {
			return outcome + "\nwant a conflict"
		}
		alone := !slices.ContainsFunc(all, func(q *process) bool { return q != p && q.began < p.end && p.began < q.end })
		if alone && p.err != nil && len(p.steps) == len(guardedSteps) {
			return outcome + "\na conflict with nobody"
		}
	}
	last := map[annals.PersistenceID]annals.SeqNr{}
	for _, id := range ids {
		n, err := o.number(o.t.Context(), o.stores["reader"], id)
		if err != nil {
			o.t.Fatal(err)
		}
		last[id] = n
	}
	if !slices.ContainsFunc(permutations(len(stored)), func(order []int) bool { return explains(order, stored, ids, last) }) {
		return fmt.Sprintf("%s\nstored: %v, which no order explains", outcome, last)
	}
	return ""
}

// explains reports whether the processes, one after the other in this order, would have read and stored the same. Who ended before another one
// began comes first.
func explains(order []int, all []*process, ids []annals.PersistenceID, last map[annals.PersistenceID]annals.SeqNr) bool {
	now := map[annals.PersistenceID]annals.SeqNr{}
	for _, id := range ids {
		now[id] = 1
	}
	for place, i := range order {
		p := all[i]
		for _, before := range order[:place] {
			if p.end <= all[before].began {
				return false
			}
		}
		for id, n := range p.read {
			if now[id] != n {
				return false
			}
		}
		if p.wrote != "" {
			now[p.wrote]++
		}
	}
	for id, n := range last {
		if now[id] != n {
			return false
		}
	}
	return true
}
