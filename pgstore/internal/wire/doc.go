// Package wire does what package pgstore needs below the driver: it bounds connections in time, sends a statement without the driver's
// conversion of its parameters, and reads values in PostgreSQL's binary format.
package wire
