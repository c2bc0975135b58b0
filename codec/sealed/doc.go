// Package sealed encrypts payloads of a person, or of any other subject, with a key of that subject. When the key is destroyed, nobody can
// read these payloads any more, wherever copies of them are, and the histories with them can still be replayed: decoding gives a value that the
// program has chosen for what is forgotten.
//
// Payloads makes a sealed codec of any other one, for events, snapshots, durable states and metadata. Except makes one of a codec of JSON, and
// leaves some members readable. Keys has the keys, wrapped by a Master: one durable state for each subject, in the store of the events or in
// another one.
//
// What remains readable of a sealed payload is its manifest, the serializer id, its length, and the subject, which must therefore be an id that
// says nothing of the person. The guide docs/guide/personal-data.md says what else has to be done when a person is forgotten.
package sealed
