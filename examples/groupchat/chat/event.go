package chat

import "github.com/annals-go/annals/codec"

// Event is what happened to a thread. Events carry no time: the store dates them.
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

	// MemberAdded lets an account in.
	MemberAdded struct {
		Account string `json:"account"`
		Role    Role   `json:"role"`
	}
	// MemberRemoved shuts an account out.
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
	// MessageDeleted takes a message back.
	MessageDeleted struct {
		ID string `json:"id"`
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

// Events is how events are stored. Projections read with it.
var Events = codec.Union[Event](
	codec.JSON[Created]("thread.created"),
	codec.JSON[Renamed]("thread.renamed"),
	codec.JSON[Deleted]("thread.deleted"),
	codec.JSON[MemberAdded]("thread.member-added"),
	codec.JSON[MemberRemoved]("thread.member-removed"),
	codec.JSON[Posted]("thread.message-posted"),
	codec.JSON[Edited]("thread.message-edited"),
	codec.JSON[MessageDeleted]("thread.message-deleted"),
)
