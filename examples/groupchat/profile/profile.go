// Package profile is the domain of users' profiles: an account may have a profile with a name and a status. A profile is a durable
// state: only the newest one is stored. The package knows no store. That no two users have the same name is a rule between entities,
// which an entity cannot check: the database does. See the file of each store in the program.
package profile

import (
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/examples/groupchat/chat"
)

// Profile describes a user. The zero Profile means that there is none.
type Profile struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
}

// Status is what a user is doing.
type Status string

// A new profile is Active.
const (
	Active Status = "active"
	Away   Status = "away"
	Left   Status = "left"
)

// Statuses are all statuses.
var Statuses = []Status{Active, Away, Left}

// The rejections, in addition to chat.ErrBadID and chat.ErrBadName.
var (
	ErrBadStatus = &chat.Rejection{Code: "bad-status", Text: "a status is active, away or left"}
	ErrNoProfile = &chat.Rejection{Code: "no-profile", Text: "the user has no profile"}
)

// Command is a SetName, SetStatus, Remove or Show.
type Command interface{ command() }

type (
	// SetName changes the name of the profile, or creates the profile.
	SetName struct{ Name string }
	// SetStatus changes the status of the profile.
	SetStatus struct{ Status Status }
	// Remove deletes the profile. Its name becomes free.
	Remove struct{}
	// Show only reads.
	Show struct{}
)

func (SetName) command()   {}
func (SetStatus) command() {}
func (Remove) command()    {}
func (Show) command()      {}

// Check returns what is wrong with c for any profile: nil or a chat.Rejection.
func Check(c Command) error {
	switch c := c.(type) {
	case SetName:
		if !chat.ValidID(c.Name) {
			return chat.ErrBadName
		}
	case SetStatus:
		switch c.Status {
		case Active, Away, Left:
		default:
			return ErrBadStatus
		}
	}
	return nil
}

// States is the codec of profiles.
var States = codec.JSON[Profile]("profile")

// Behavior is the profile as an entity. The reply is the profile after the command.
var Behavior = behavior.DurableState[Command, Profile, Profile]{
	Type:   "User",
	Decide: decide,
	Reply:  func(p Profile, _ Command) Profile { return p },
	States: States,
}

func decide(p Profile, c Command) (keep behavior.Effect[Profile], err error) {
	if err := Check(c); err != nil {
		return keep, err
	}
	before := p
	switch c := c.(type) {
	case SetName:
		if p.Name = c.Name; p.Status == "" {
			p.Status = Active
		}
		return save(before, p), nil
	case SetStatus:
		if p.Name != "" {
			p.Status = c.Status
			return save(before, p), nil
		}
	case Remove:
		if p.Name != "" {
			return behavior.Delete[Profile](), nil
		}
	case Show:
		if p.Name != "" {
			return keep, nil
		}
	default:
		panic(fmt.Sprintf("profile: no case for %T", c))
	}
	return keep, ErrNoProfile
}

// save stores nothing if nothing has changed.
func save(before, p Profile) (keep behavior.Effect[Profile]) {
	if p == before {
		return keep
	}
	return behavior.Save(p)
}

// NameColumn is the column by which a profile is found. It must be unique.
const NameColumn = "name"

// Columns are the values of NameColumn, on any store.
var Columns = codec.Columns(States, func(p Profile) annals.Columns { return annals.Columns{NameColumn: p.Name} })
