package chat

// Rejection says why a command was rejected. The variables below are all rejections of threads; match them with errors.Is.
type Rejection struct {
	Code string // for programs, never changed
	Text string // for people
}

// Error is the text.
func (r *Rejection) Error() string { return r.Text }

// Rejections of commands that no thread could accept.
var (
	ErrBadID   = &Rejection{"bad-id", "an id or account has 1 to 100 bytes of printable text"}
	ErrBadName = &Rejection{"bad-name", "a name has 1 to 100 bytes"}
	ErrBadText = &Rejection{"bad-text", "a message has 1 to 4,000 bytes"}
	ErrBadRole = &Rejection{"bad-role", "a role is member or admin"}
	ErrBadPage = &Rejection{"bad-page", "a page begins after position 0 or a later one and has 1 message or more"}

	ErrBadPosition = &Rejection{"bad-position", "the first message has position 1"}
)

// Rejections that depend on the state of the thread.
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
