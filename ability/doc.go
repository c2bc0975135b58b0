// Package ability has what only some stores can do. What every store has is in package annals. An ability is an interface of one method;
// Recover and Atomically use two of them for the program.
package ability
