// Package memstore keeps everything in memory: for tests of domain code, and to try things out.
//
//	store := memstore.New()
//
// memstore is also the reference: storetest compares other stores with it, and it is the driver to read before writing one. It is
// simple: one lock, one write at a time, and slices that are replaced, never written in place.
//
// Nothing survives the process.
package memstore
