// Package chat is the domain of group chats. A thread has members, some of them administrators, and messages. The package
// contains the commands (Command), the events (Event), the rejections (Rejection) and the Behavior that decides. It knows no store and no
// transport.
package chat

// Role is what a member of a thread may do.
type Role string

// Members post, administrators rename and delete the thread and choose its members.
const (
	Member Role = "member"
	Admin  Role = "admin"
)

// Command is one of the types below. Every command has an Executor, the account that sends it.
type Command interface{ executor() string }

type (
	// Create makes Executor the first member and administrator of a new thread.
	Create struct{ Executor, Name string }
	// Rename changes the name of the thread.
	Rename struct{ Executor, Name string }
	// Delete ends the thread: no later command is accepted.
	Delete struct{ Executor string }

	// AddMember makes Account a member.
	AddMember struct {
		Executor, Account string
		Role              Role
	}
	// RemoveMember ends the membership of Account. Its messages stay.
	RemoveMember struct{ Executor, Account string }

	// Post may be repeated: ID is chosen by the sender, and the same message is stored once.
	Post struct{ Executor, ID, Text string }
	// Edit replaces the text of a message of Executor's own.
	Edit struct{ Executor, ID, Text string }
	// DeleteMessage deletes a message of Executor's own. Its id is never used again.
	DeleteMessage struct{ Executor, ID string }

	// MarkRead says that Executor has read the messages up to and including Position. An earlier position than before changes nothing.
	MarkRead struct {
		Executor string
		Position int
	}

	// Show reads the members.
	Show struct{ Executor string }
	// List reads the messages after position After: at most Limit of them, and at most MaxPage.
	List struct {
		Executor     string
		After, Limit int
	}
)

func (c Create) executor() string        { return c.Executor }
func (c Rename) executor() string        { return c.Executor }
func (c Delete) executor() string        { return c.Executor }
func (c AddMember) executor() string     { return c.Executor }
func (c RemoveMember) executor() string  { return c.Executor }
func (c Post) executor() string          { return c.Executor }
func (c Edit) executor() string          { return c.Executor }
func (c DeleteMessage) executor() string { return c.Executor }
func (c MarkRead) executor() string      { return c.Executor }
func (c Show) executor() string          { return c.Executor }
func (c List) executor() string          { return c.Executor }
