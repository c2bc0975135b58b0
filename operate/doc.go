// Package operate makes the program that has the behaviors the tool of those who operate it: what happened to an entity, how far the
// projections are, whether what is stored is sound.
//
//	func main() {
//		os.Exit(operate.ExitStatus(operate.Command(operate.Config{
//			Stores:   annals.Openers{"sqlite": sqlitestore.Options{CreateTables: new(false)}.OpenURL},
//			Entities: []operate.Entity{operate.Sourced(order.Behavior), operate.Durable(stock.Behavior)},
//		}).Execute()))
//	}
//
// Command is a cobra command: a program runs it, or adds it to a command of its own. The program in cmd/annals is Command with all stores and no
// entities: it shows payloads in JSON and CBOR, and no states of event-sourced entities.
//
// # Output
//
// With --json a command prints one line of JSON, and nothing else:
//
//	{"version":1,"status":0,"data":…,"diagnostics":[{"code":…,"message":…,"next":…}]}
//
// Status is the exit status, data depends on the command, and is null when it failed before it had any. A diagnostic says what was found or why the command failed,
// and next is a command that helps. Command tail prints such a line for each event. Numbers have all of their digits: some are above 2^53.
//
// Both forms hold only printable characters: others are escaped, so that what is stored cannot act on a terminal. Long payloads are cut.
//
// # Exit status
//
//   - 0: well
//   - 1: something was found that an operator should know
//   - 2: it was not reached in time, or interrupted
//   - 3: the command is wrong
//   - 4: the store failed, or does not support what was asked (code "unsupported")
//
// Package operate is a module of its own, so that programs without it do not depend on cobra.
package operate
