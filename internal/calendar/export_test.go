package calendar

import "time"

// SetClock makes c use another clock.
func SetClock(c *Calendar, now func() time.Time) { c.now = now }
