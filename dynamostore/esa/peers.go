package esa

import (
	"time"
	"unicode/utf16"

	"github.com/annals-go/annals"
)

// Peer is the library whose rows are written.
type Peer int

const (
	// Go is event-store-adapter-go 1.x.
	Go Peer = iota
	// JS is event-store-adapter-js 2.x.
	JS
	// JS3 is event-store-adapter-js 3.x.
	JS3
	// Rust is event-store-adapter-rs 1.x.
	Rust
	// Rust3 is event-store-adapter-rs 3.x.
	Rust3
	// Java is event-store-adapter-java 1.x, with its wrappers for Kotlin and Scala.
	Java
	// Seed is the gateway of cqrs-es-example-rs of 2023 from which the libraries were made. Its tables have no copies.
	Seed
	// Rust5 is event-store-adapter-rs 5.x. Its tables are others: a journal, a table of snapshots and a table of heads, all keyed by the
	// aggregate id.
	Rust5
)

// peer has the properties of a library's rows.
type peer struct {
	name      string
	apart     bool // the heads are in a table of their own, and have the number of the last event and the events of the last commit
	shard     func(entityType, value string, bare bool, shards int) int64
	unit      time.Duration // of occurred_at; 0: the attribute only has the milliseconds within the second
	updated   time.Duration // of last_updated_at, as unit
	noUpdated bool          // there is no last_updated_at
	noTTL     bool          // heads have no ttl
	text      bool          // payloads in the peer's format are strings
	stateNr   bool          // seq_nr of the head is the number of its state; otherwise it is 0
	manifest  bool          // events have a manifest
	active    string        // the index of copies that do not expire; "" is none
	format    Format
	// copyVersion returns the version in a copy. before and after are those of the head before and after the write. nil: there is none.
	copyVersion func(before, after annals.SeqNr) annals.SeqNr
}

func versionOne(_, _ annals.SeqNr) annals.SeqNr         { return 1 }
func versionBefore(before, _ annals.SeqNr) annals.SeqNr { return max(before, 1) } // 1 for the first write
func versionAfter(_, after annals.SeqNr) annals.SeqNr   { return after }

const millisecond = time.Millisecond

var peers = []peer{
	Go:    {name: "go", shard: shardGo, unit: millisecond, noUpdated: true, copyVersion: versionOne, format: JSON(Members{})},
	JS:    {name: "js", shard: shardJS, copyVersion: versionAfter, format: JSON(Members{Wrapped: true})},
	JS3:   {name: "js3", shard: shardJS, unit: millisecond, updated: millisecond, copyVersion: versionAfter, active: "snapshot-active-ttl-index", format: JSON(Members{Wrapped: true})},
	Rust:  {name: "rust", shard: shardRust, unit: millisecond, updated: millisecond, copyVersion: versionBefore, format: JSON(Members{})},
	Rust3: {name: "rust3", shard: shardRust, unit: time.Nanosecond, updated: millisecond, stateNr: true, manifest: true, copyVersion: versionAfter, format: Plain()},
	Java:  {name: "java", shard: shardJava, unit: millisecond, updated: millisecond, copyVersion: versionOne, format: JSON(Members{})},
	Seed:  {name: "seed", shard: shardRust, unit: millisecond, noUpdated: true, noTTL: true, text: true, stateNr: true, format: JSON(Members{})},
	Rust5: {name: "rust5", apart: true, unit: time.Nanosecond, updated: millisecond, manifest: true, active: "snapshot-history-index", format: Plain()},
}

// attrActive is the attribute of copies that do not expire, which has their number.
func (p peer) attrActive() string {
	if p.apart {
		return "active_history_seq_nr"
	}
	return "active_ttl_seq_nr"
}

// attrCount is the attribute of a head with its version.
func (p peer) attrCount() string {
	if p.apart {
		return attrSeq
	}
	return attrVersion
}

// shardGo is FNV-1a of the value, in 64 bits.
func shardGo(_, value string, _ bool, shards int) int64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(value) {
		h = (h ^ uint64(value[i])) * 0x100000001b3
	}
	return int64(h % uint64(shards))
}

// shardRust is the hash of the value by the default hasher of Rust's standard library: SipHash-1-3 with keys 0, of the bytes and 0xFF.
func shardRust(_, value string, _ bool, shards int) int64 {
	return int64(sipHash13(append([]byte(value), 0xff)) % uint64(shards))
}

// shardJava is the absolute value of String.hashCode of the value. It stays negative for the smallest number, as in Java.
func shardJava(_, value string, _ bool, shards int) int64 {
	h := int32(hash31(value))
	if h < 0 {
		h = -h
	}
	return int64(h) % int64(shards)
}

// shardJS is the hash of the whole aggregate id.
func shardJS(entityType, value string, bare bool, shards int) int64 {
	return int64(hash31(aidText(bare, entityType, value))) % int64(shards)
}

// hash31 is Java's String.hashCode: each UTF-16 code unit is added to 31 times the hash of those before.
func hash31(s string) (h uint32) {
	for _, unit := range utf16.Encode([]rune(s)) {
		h = 31*h + uint32(unit)
	}
	return h
}
