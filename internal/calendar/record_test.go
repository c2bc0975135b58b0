package calendar

import (
	"testing"

	"github.com/annals-go/annals/internal/random"
)

// A slot begins at or before a timer is due, less than its length before it unless the timer is very far, and after now when the timer is due
// after now.
func TestSlotOf(t *testing.T) {
	t.Parallel()
	for r := range random.Rounds(t, 5000) {
		now := r.Int64N(1<<40) - 1<<39
		due := now + (r.Int64N(1<<40)-1<<39)>>r.IntN(40)
		s := slotOf(due, now)
		length, distance := int64(1)<<(bits*s.Level), max(due-now, now-due)
		switch {
		case s.Level < 0 || s.Level >= levels:
			t.Errorf("level %d", s.Level)
		case due > now && (s.start() > due || s.start() <= now), due <= now && distance < 1<<36 && s.start() > due, s.start() > max(due, now):
			t.Errorf("slot %+v begins at %d; now is %d, and the timer is due at %d", s, s.start(), now, due)
		case distance < 1<<36 && (due-s.start() >= length || s.Level > 0 && distance < length):
			t.Errorf("slot %+v begins at %d; now is %d, and the timer is due at %d", s, s.start(), now, due)
		}
	}
}
