package ability

import "context"

// Setup is what a store needs from its database: tables, settings and rights. It is there before the store can be opened, and when Open
// refuses: NewSetup of a store returns one, and Options.SetupURL one for a URL. One goroutine at a time uses it.
type Setup interface {
	// Schema returns as text what creates all tables in an empty database, in the format of a tool: "sql" for the SQL stores,
	// "cloudformation", "terraform" or "json" for DynamoDB. "" is the first of these. Another format is annals.ErrUnsupported. The database
	// is not asked.
	Schema(format string) (string, error)
	// Pending returns the statements or requests that Migrate would run, none when nothing is missing. It changes nothing.
	Pending(ctx context.Context) ([]string, error)
	// Migrate creates what is missing and upgrades the tables of an older release. It returns what it ran.
	Migrate(ctx context.Context) ([]string, error)
	// Examine returns everything that Open would refuse, all at once, and what else an operator should know. It changes nothing. The error says
	// that the database could not be asked.
	Examine(ctx context.Context) ([]Finding, error)
	// Close closes the connections. The Setup is not used afterwards.
	Close() error
}

// Finding is something that Examine has found.
type Finding struct {
	Code     string   `json:"code"` // what it is, for programs
	Severity Severity `json:"severity"`
	Schema   bool     `json:"schema"` // the tables differ from what the store needs
	Found    string   `json:"found"`
	Means    string   `json:"means,omitempty"` // for the program
	Do       string   `json:"do,omitempty"`    // what the operator can do
}

// Severity says how grave a Finding is.
type Severity string

// The severities.
const (
	Refused Severity = "refused" // Open fails
	Problem Severity = "problem" // the store opens, and something does not work or is not safe
	Note    Severity = "note"    // good to know; also what was not checked
)
