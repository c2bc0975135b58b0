# Targets with a ## comment are listed by `make help`. The other modules are tested and checked like the root module.

GO    ?= go
ONLY  ?= .
COUNT ?= 5
ROUNDS ?= 5
FUZZTIME ?= 10s

others = outlet otel internal/figures operate

# Tests sync their files often, which takes little in memory.
in_memory = export TMPDIR=$$(scripts/memory.sh);

.PHONY: help run test servers browser versions version14 version18 releases check lint race soak soakraced soakplain fuzz vulncheck figures

help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 17

run: ## the demo: a chat service is killed while it writes, and loses no message
	CGO_ENABLED=0 $(GO) run $(compiler) ./examples/groupchat demo

# In a first run the compiler and the linker take most of the time. They take less with a larger heap, without cgo, debugging information and symbols, and when the compiler does
# not inline functions. The tests take as long without that, but SQLite and the standard library would be much slower.
# Targets whose programs are compiled with the same flags share what the compiler has made.
compiler = '-gcflags=all=-dwarf=false -l' -gcflags=std=-dwarf=false -gcflags=modernc.org/...=-dwarf=false -ldflags=-s
test browser versions releases lint race soak soakraced soakplain fuzz vulncheck: export GOGC = 400

# Some tests wait for a time limit; -parallel lets others run meanwhile, also on two processors.
test: export CGO_ENABLED = 0
longest = ./pgstore ./dynamostore ./projection ./sqlitestore
test: servers ## every test; go vet is part of make lint, and the longest packages begin first
	$(in_memory) $(GO) test -vet=off -timeout 20m -parallel 4 $(compiler) $(longest) ./...
	$(in_memory) for m in $(others); do $(GO) -C $$m test -vet=off -timeout 5m -skip '$(browsing)' $(compiler) ./... || exit 1; done

servers: ## install the database servers that tests start: PostgreSQL with PgBouncer, a DynamoDB
	@scripts/servers.sh

# LESS=1, as CI, uses less data, and leaves out tests of hosts and of networks, and those that look for mutants, which say the same of each server:
# make test runs all of them.
unversioned = ^Test(Projections|Timers|Turns|Rules|TwoRuntimes|Hosts|Handlers|Accounts|Deleted|Kinds|Mutants|FaultsFind)|BehindAPooler$$|OnASilentNetwork$$|OnASlowNetwork$$

versions: servers ## the tests of pgstore on the oldest and the newest PostgreSQL that are supported upstream; LESS=1 as CI
	@$(MAKE) --no-print-directory -j2 -Otarget version14 version18

version14 version18: # one prints when it has ended
	$(in_memory) export ANNALS_POSTGRES_PROGRAMS=$$(scripts/postgres.sh $(@:version%=%)) && $(plain) $(if $(LESS),-short -skip '$(unversioned)') ./pgstore/... ./internal/servers/postgres

# Formats of the standard library, such as JSON and gzip, and what is counted in allocations depend on the release of Go.
released = ./aggregate ./codec/... ./entity ./process ./query ./dynamostore/akka ./dynamostore/commit ./dynamostore/esa/... ./dynamostore/internal/... ./dynamostore/j5ik2o

releases: servers ## tests with the other release of Go that is supported, which it downloads
	$(in_memory) CGO_ENABLED=0 GO='$(GO)' scripts/releases.sh -vet=off -timeout 5m -parallel 4 $(compiler) $(released)

check: lint race browser ## the checks that a change must pass: linters, the tests under the race detector, the page of operate in a browser

browsing = ^TestPageInABrowser$$
browser: ## the page of operate in Chromium, which it installs
	@scripts/browser.sh
	$(in_memory) CGO_ENABLED=0 $(GO) -C operate test -vet=off -timeout 5m $(compiler) -run '$(browsing)' ./orders

lint: ## gofmt, golangci-lint (pinned in tools/go.mod), which runs go vet too, and the types of all packages for macOS and Windows
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w these:" $$unformatted; exit 1; fi
	CGO_ENABLED=0 $(GO) build -modfile=tools/go.mod -gcflags=all=-dwarf=false -o bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	$(as_tests) && for m in . tools $(others); do (cd $$m && $(CURDIR)/bin/golangci-lint run ./...) || exit 1; done
	CGO_ENABLED=0 $(GO) -C tools build -gcflags=all=-dwarf=false -o ../bin/othersystems ./othersystems && bin/othersystems . $(others)

# The linter reads what the compiler has made of packages, here that of make test.
as_tests = export CGO_ENABLED=0 GOFLAGS="$$($(GO) env GOFLAGS) $(compiler)"

# Left out, and part of make test: what runs in one goroutine at a time (fuzz inputs, requests in every order or at random), what counts requests or
# memory, what kills processes, what looks for mutants, and long tests whose code shorter ones run.
unraced = ^Fuzz|^TestDecompressedSize$$|^TestOrders(Of|Beside)|InEveryOrder$$|^TestSchedules$$|FiftyProcesses$$|Costs$$|UnderKill$$|^TestFaultsFind|Mutants$$
unraced := $(unraced)|^Test(EventStoreAdapterConformance|ConformanceBehindAPooler|ForgetManyTombstones|LongReplay|LongEntity|LongTexts|ControlUnderFaults|Group(Clocks|WithFaults|SlowWrites))$$
unraced := $(unraced)|^Test(ExportedTests|ForgottenEntityLeavesNoTrace|RandomRebirths|CallsOfParking|Shares|ManyParkedEntities|LostEventsOfThePlugin|FeedModel|Latency|AuditIsBounded|WindowIsBounded|CorruptChunk|InTime|ManyTimersAtOnce)$$|^TestAllocations
unraced := $(unraced)|^TestPage(Rights|IsHarmless|InABrowser)$$

# Layouts of DynamoDB with other settings than in make test. Under the race detector they take four times as long: make soak runs them without it,
# and with it the same layouts while requests fail.
settings = ^TestConformance$$/^(akka|esa|j5ik2o,_number_and_padded)
unraced := $(unraced)|$(settings)

# The C code of SQLite, translated, is not watched for races: it locks with the mutexes of other packages, which are, and the tests take a fifth of
# the time.
raced = $(GO) test -vet=off -parallel 4 -race -gcflags=all=-dwarf=false -gcflags=modernc.org/sqlite/lib='-dwarf=false -race=false' -ldflags=-s

# Bubbles of testing/synctest run on one processor: when two goroutines of a bubble receive from expired timers at the same time, the race detector
# itself fails (go.dev/issue/78156). The detector compares which access happens before which, and needs no second processor for that; soakraced runs the
# stores on all.
bubbles = -cpu 1

race: servers ## the tests under the race detector, with less data; needs a C compiler
	$(in_memory) $(raced) $(bubbles) -short -skip '$(unraced)' -timeout 30m $(longest) ./...
	$(in_memory) for m in $(others); do $(subst test,-C $$m test,$(raced)) $(bubbles) -short -skip '$(unraced)' -timeout 5m ./... || exit 1; done

# The tests without the race detector are compiled as for make test, so that .ci/run compiles them once.
soak: servers ## repeat the random histories, races and kills; ROUNDS=n says how often
	@$(MAKE) --no-print-directory -j2 -Oline soakraced soakplain

soakraced:
	$(in_memory) $(raced) -timeout 60m -count $(ROUNDS) -run '(Memstore|Conformance)/(HISTORY|LINEAR|RACE|RECOVER|GUARD)-' ./storetest ./sqlitestore ./pgstore
	$(in_memory) $(raced) -timeout 60m -count $(ROUNDS) -run 'UnderFaults|Conformance/commit/(HISTORY|LINEAR|RACE|RECOVER|GUARD)-' ./dynamostore
	$(in_memory) $(raced) -timeout 60m -count $(ROUNDS) -run 'TestKill' ./sqlitestore
	$(in_memory) $(raced) $(bubbles) -timeout 60m -count $(ROUNDS) -run 'TwoHosts|ManyEntities' ./entity
	$(in_memory) $(raced) -timeout 60m -run 'ImmediateStops|Promotion|UnderKill' ./pgstore -crashes $(call times,2)
	$(in_memory) $(raced) -timeout 60m -run 'ProcessesShare' ./projection -rounds $(call times,3)
	$(in_memory) $(raced) -timeout 60m -run 'TestProjections' ./sqlitestore ./pgstore ./dynamostore -kills $(call times,8)
	$(in_memory) $(raced) $(bubbles) -timeout 60m -run 'TestProjections' ./internal/followtest -kills $(call times,8)
	$(in_memory) $(raced) $(bubbles) -timeout 60m -run 'TestModel' ./dynamostore/internal/subscription -random.seeds $(call times,5)

soakplain:
	$(in_memory) $(plain) -short -run '$(settings)' ./dynamostore
	$(in_memory) $(plain) -run 'SubscribersUnderKill' ./dynamostore -restarts $(call times,4)
	$(in_memory) $(plain) -run 'TestRandomWorlds$$' ./internal/calendar ./lease -random.seeds $(call times,100)
	$(in_memory) $(plain) -run 'TestSchedules$$' ./dynamostore -random.seeds $(call times,100)
	$(in_memory) $(plain) -run 'ChangesAreCounted' ./dynamostore -changes $(call times,2000)
	$(in_memory) $(plain) -run 'TestRules$$' ./sqlitestore ./pgstore ./dynamostore -count $(call times,4)
	$(in_memory) $(plain) -run 'UnderKill|ManyTimers' ./process -rounds $(call times,4) -timers $(call times,20000)
	$(in_memory) $(plain) -run 'TestFleet' ./internal/fleet -rollouts $(ROUNDS)
	$(in_memory) $(plain) -run 'FiftyProcesses' ./pgstore -commands $(call times,10)
	$(in_memory) $(plain) -run 'ManyParked' ./projection -parked $(call times,10000)

plain = CGO_ENABLED=0 $(GO) test -vet=off -parallel 4 -timeout 60m $(compiler)
times = $$(($(1) * $(ROUNDS)))

fuzz: servers ## every fuzz function, four at a time; FUZZTIME=1m for each
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' scripts/fuzz.sh

vulncheck: ## look for known vulnerabilities in the code and its dependencies (govulncheck, pinned in tools/go.mod)
	@GO='$(GO)' scripts/vulncheck.sh

figures: servers ## measure and draw the figures of docs/performance.md; ONLY=regexp chooses, COUNT=n repeats (median), and draws nothing below 5
	$(GO) -C internal/figures run . -only '$(ONLY)' -count $(COUNT) -plots '$(if $(filter-out 1 2 3 4,$(COUNT)),../../docs)'
