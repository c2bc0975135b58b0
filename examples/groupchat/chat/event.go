package chat

import "github.com/annals-go/annals/codec"

// Event is one of the types below. Events have no time of their own: the store adds it.
type Event interface{ event() }

// Fields and manifests below are in databases: they may be added to, never changed.
type (
	// Created is the first event of a thread.
	Created struct {
		Name    string `json:"name"`
		Creator string `json:"creator"`
	}
	// Renamed replaces the name.
	Renamed struct {
		Name string `json:"name"`
	}
	// Deleted is the last event of a thread.
	Deleted struct{}

	// MemberAdded makes an account a member.
	MemberAdded struct {
		Account string `json:"account"`
		Role    Role   `json:"role"`
	}
	// MemberRemoved ends the membership of an account.
	MemberRemoved struct {
		Account string `json:"account"`
	}

	// Posted is a new message.
	Posted struct {
		ID     string `json:"id"`
		Sender string `json:"sender"`
		Text   string `json:"text"`
	}
	// Edited replaces the text of a message.
	Edited struct {
		ID   string `json:"id"`
		Text string `json:"text"`
	}
	// MessageDeleted deletes a message.
	MessageDeleted struct {
		ID string `json:"id"`
	}

	// MarkedRead says that an account has read the messages up to and including a position.
	MarkedRead struct {
		Account  string `json:"account"`
		Position int    `json:"position"`
	}
)

func (Created) event()        {}
func (Renamed) event()        {}
func (Deleted) event()        {}
func (MemberAdded) event()    {}
func (MemberRemoved) event()  {}
func (Posted) event()         {}
func (Edited) event()         {}
func (MessageDeleted) event() {}
func (MarkedRead) event()     {}

// Events is the codec of events. Projections read with it.
var Events = codec.Union[Event](
	codec.JSON[Created]("thread.created"),
	codec.JSON[Renamed]("thread.renamed"),
	codec.JSON[Deleted]("thread.deleted"),
	codec.JSON[MemberAdded]("thread.member-added"),
	codec.JSON[MemberRemoved]("thread.member-removed"),
	codec.JSON[Posted]("thread.message-posted"),
	codec.JSON[Edited]("thread.message-edited"),
	codec.JSON[MessageDeleted]("thread.message-deleted"),
	codec.JSON[MarkedRead]("thread.marked-read"),
)
