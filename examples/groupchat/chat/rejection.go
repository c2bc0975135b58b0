package chat

// Rejection is why a command was refused. The variables below are all there are of threads; match them with errors.Is.
type Rejection struct {
	Code string // for programs, never changed
	Text string // for people
}

// Error is the text.
func (r *Rejection) Error() string { return r.Text }

// What makes a command wrong in itself.
var (
	ErrBadID   = &Rejection{"bad-id", "an id or account has 1 to 100 bytes of printable text"}
	ErrBadName = &Rejection{"bad-name", "a name has 1 to 100 bytes"}
	ErrBadText = &Rejection{"bad-text", "a message has 1 to 4,000 bytes"}
	ErrBadRole = &Rejection{"bad-role", "a role is member or admin"}
	ErrBadPage = &Rejection{"bad-page", "a page begins behind position 0 or later and has 1 message or more"}
)

// What the thread's history forbids.
var (
	ErrNoThread      = &Rejection{"no-thread", "there is no such thread"}
	ErrThreadExists  = &Rejection{"thread-exists", "the thread exists already"}
	ErrThreadDeleted = &Rejection{"thread-deleted", "the thread has been deleted"}

	ErrNotMember     = &Rejection{"not-member", "the executor is no member of the thread"}
	ErrNotAdmin      = &Rejection{"not-admin", "the executor is no administrator of the thread"}
	ErrSameName      = &Rejection{"same-name", "the thread has that name already"}
	ErrAlreadyMember = &Rejection{"already-member", "the account is a member already"}
	ErrNoMember      = &Rejection{"no-member", "the account is no member"}
	ErrLastAdmin     = &Rejection{"last-admin", "a thread keeps at least one administrator"}

	ErrMessageExists = &Rejection{"message-exists", "the id belongs to another message"}
	ErrNoMessage     = &Rejection{"no-message", "there is no such message"}
	ErrNotSender     = &Rejection{"not-sender", "the executor did not send the message"}
)
