package annals_test

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/memstore"
)

func TestOpeners(t *testing.T) {
	t.Parallel()
	stores := annals.Openers{"mem": memstore.Options{}.OpenURL}
	if s, err := stores.Open(t.Context(), "mem:"); err != nil || !s.Capabilities().Events {
		t.Errorf("mem: %v", err)
	}
	if _, err := stores.Open(t.Context(), "redis://u:secret@host"); !errors.Is(err, annals.ErrUnsupported) || !strings.Contains(err.Error(), "mem") {
		t.Errorf("an unknown scheme: %v, want not supported and what there is", err)
	}
	if _, err := stores.Open(t.Context(), "mem://u:secret@host:port"); !errors.Is(err, annals.ErrInvalid) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a broken URL: %v, want invalid and no secret", err)
	}
}

// nils is a Driver that claims nothing and has no contract.
type nils struct{ annals.Store }

func (nils) Journal() annals.Journal         { return nil }
func (nils) Snapshots() annals.SnapshotStore { return nil }
func (nils) States() annals.StateStore       { return nil }
func (nils) Query() annals.Query             { return nil }
func (nils) Offsets() annals.OffsetStore     { return nil }
func (nils) Fault(err error) error           { return err }

func TestUnsupportedRefusesEverything(t *testing.T) {
	t.Parallel()
	refusesEverything(t, driver.Unsupported())
	d := nils{driver.Unsupported()}
	s := driver.New(d, driver.Options{})
	refusesEverything(t, s)
	if err := driver.InTx(t.Context(), s, driver.Transaction{Driver: d}, func(_ context.Context, in *driver.Store) error {
		refusesEverything(t, in)
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func refusesEverything(t *testing.T, s annals.Store) {
	t.Helper()
	ctx := t.Context()
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	_, err := s.Journal().Append(ctx, annals.Commit{ID: "a"})
	add(err)
	for _, err := range s.Journal().Replay(ctx, "a", 1, 2) {
		add(err)
	}
	_, err = s.Journal().LastSeqNr(ctx, "a")
	add(err)
	add(s.Journal().DeleteTo(ctx, "a", 1))
	_, _, err = s.Snapshots().Latest(ctx, "a", annals.SnapshotCriteria{})
	add(err)
	add(s.Snapshots().Save(ctx, annals.Snapshot{ID: "a"}))
	add(s.Snapshots().Delete(ctx, "a", annals.SnapshotCriteria{}))
	_, _, err = s.States().Get(ctx, "a")
	add(err)
	_, err = s.States().Put(ctx, annals.StateWrite{ID: "a"})
	add(err)
	_, err = s.States().Delete(ctx, annals.StateWrite{ID: "a"})
	add(err)
	for _, err := range s.Query().Events(ctx, annals.Filter{}) {
		add(err)
	}
	for _, err := range s.Query().States(ctx, annals.Filter{}) {
		add(err)
	}
	for _, err := range s.Query().Snapshots(ctx, annals.Filter{}) {
		add(err)
	}
	for _, err := range s.Query().IDs(ctx, "", "") {
		add(err)
	}
	_, err = s.Query().Newest(ctx, annals.Filter{})
	add(err)
	_, err = s.Query().Watermark(ctx)
	add(err)
	_, err = s.Offsets().Load(ctx, "p", annals.SliceRange{})
	add(err)
	_, err = s.Offsets().Handled(ctx, "p", "a")
	add(err)
	add(s.Offsets().Save(ctx, annals.Progress{}))
	add(s.Offsets().Reset(ctx, "p", annals.SliceRange{}, annals.Offset{}))
	add(s.Offsets().Forget(ctx, "p", "a"))
	if len(errs) != 21 {
		t.Fatalf("%d answers, want 21", len(errs))
	}
	for i, err := range errs {
		if !errors.Is(err, annals.ErrUnsupported) {
			t.Errorf("%T: answer %d is %v", s, i, err)
		}
	}
	if s.Capabilities() != (annals.Capabilities{}) || s.Close() != nil {
		t.Errorf("%T claims something", s)
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	err := error(&annals.Error{Op: "append", ID: "Thing|1", After: 3, Last: 5, Kind: annals.ErrConflict, Err: io.ErrUnexpectedEOF})
	if want := `annals: append "Thing|1" after 3 (last is 5): conflict: unexpected EOF`; err.Error() != want {
		t.Errorf("got %s, want %s", err, want)
	}
	if !errors.Is(err, annals.ErrConflict) || !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, annals.ErrInvalid) {
		t.Error("Is does not find the kind and the cause")
	}
	for kind, want := range map[error]bool{annals.ErrUnknown: true, annals.ErrUnavailable: true, annals.ErrConflict: false, annals.ErrTooLarge: false} {
		if annals.SafeToRetry(&annals.Error{Kind: kind}) != want {
			t.Errorf("SafeToRetry(%v) is not %v", kind, want)
		}
	}
}

func TestOffsetOrder(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(5)
	ordered := []annals.Offset{{}, {Time: at}, {Time: at, ID: "a", SeqNr: 1}, {Time: at, ID: "b", SeqNr: 1}, {Time: at, ID: "a", SeqNr: 2}, {Time: at.Add(1)}}
	for i := 1; i < len(ordered); i++ {
		if ordered[i-1].Compare(ordered[i]) >= 0 || ordered[i].Compare(ordered[i-1]) <= 0 || ordered[i].Compare(ordered[i]) != 0 {
			t.Errorf("%v is not before %v", ordered[i-1], ordered[i])
		}
	}
}

// A transaction of the reference store: all or nothing, no way around it, dead afterwards.
func TestMemstoreTransaction(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), memstore.New()
	commit := func(id annals.PersistenceID) annals.Commit {
		return annals.Commit{ID: id, Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 4}}}}
	}
	var in annals.Store
	boom := errors.New("boom")
	err := s.InTx(ctx, func(ctx context.Context, _ memstore.Tx, tx annals.Store) error {
		in = tx
		if _, err := tx.Journal().Append(ctx, commit("a")); err != nil {
			t.Error(err)
		}
		if _, err := s.Journal().Append(ctx, commit("b")); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("the outer store inside a transaction: %v", err)
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("got %v, want the function's own error", err)
	}
	if n, err := s.Journal().LastSeqNr(ctx, "a"); n != 0 || err != nil {
		t.Errorf("rolled back, but the last number is %d, %v", n, err)
	}
	if _, err := in.Journal().Append(ctx, commit("a")); !errors.Is(err, annals.ErrClosed) {
		t.Errorf("after the transaction: %v", err)
	}
	err = s.InTx(ctx, func(ctx context.Context, _ memstore.Tx, tx annals.Store) error {
		_, err := tx.Journal().Append(ctx, commit("a"))
		return err
	})
	if n, _ := s.Journal().LastSeqNr(ctx, "a"); n != 1 || err != nil {
		t.Errorf("committed, but the last number is %d, %v", n, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Journal().LastSeqNr(ctx, "a"); !errors.Is(err, annals.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	_, err = (memstore.Options{}).OpenURL(ctx, &url.URL{Scheme: "mem"})
	if err != nil {
		t.Error(err)
	}
}
