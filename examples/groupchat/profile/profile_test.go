package profile_test

import (
	"errors"
	"testing"

	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/examples/groupchat/profile"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	none, ann := profile.Profile{}, profile.Profile{Name: "ann", Status: profile.Away}
	for _, c := range []struct {
		before  profile.Profile
		command profile.Command
		after   profile.Profile
		saves   bool
		deletes bool
		err     error
	}{
		{none, profile.SetName{Name: "ann"}, profile.Profile{Name: "ann", Status: profile.Active}, true, false, nil},
		{ann, profile.SetName{Name: "bob"}, profile.Profile{Name: "bob", Status: profile.Away}, true, false, nil},
		{ann, profile.SetName{Name: "ann"}, none, false, false, nil},
		{ann, profile.SetName{Name: " "}, none, false, false, chat.ErrBadName},
		{ann, profile.SetStatus{Status: profile.Left}, profile.Profile{Name: "ann", Status: profile.Left}, true, false, nil},
		{ann, profile.SetStatus{Status: profile.Away}, none, false, false, nil},
		{ann, profile.SetStatus{Status: "asleep"}, none, false, false, profile.ErrBadStatus},
		{none, profile.SetStatus{Status: profile.Left}, none, false, false, profile.ErrNoProfile},
		{ann, profile.Remove{}, none, false, true, nil},
		{none, profile.Remove{}, none, false, false, profile.ErrNoProfile},
		{ann, profile.Show{}, none, false, false, nil},
		{none, profile.Show{}, none, false, false, profile.ErrNoProfile},
	} {
		effect, err := profile.Behavior.Decide(c.before, c.command)
		after, saves, deletes := effect.Outcome()
		if after != c.after || saves != c.saves || deletes != c.deletes || !errors.Is(err, c.err) {
			t.Errorf("%+v, %#v: %+v, saves %v, deletes %v, %v", c.before, c.command, after, saves, deletes, err)
		}
	}
}
