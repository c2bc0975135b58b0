# Targets with a ## comment are listed by `make help`.

GO    ?= go
ONLY  ?= .
COUNT ?= 5
ROUNDS ?= 5
FUZZTIME ?= 10s

.PHONY: help run test servers check lint race soak fuzz vulncheck figures

help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 17

run: ## the demo: a chat service is killed under load and loses nothing
	$(GO) run ./examples/groupchat demo

test: servers ## every test
	$(GO) test -timeout 20m ./...

servers: ## install the database servers that tests start: PostgreSQL, a DynamoDB
	@scripts/servers.sh

check: lint race ## what a change has to pass: the linters, then the tests under the race detector

lint: ## gofmt, go vet, golangci-lint (pinned in tools/go.mod)
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w these:" $$unformatted; exit 1; fi
	$(GO) vet ./...
	$(GO) tool -modfile=tools/go.mod golangci-lint run ./...

race: servers ## the tests under the race detector, which wants a C compiler; on servers with smaller volumes
	$(GO) test -race -short -timeout 30m ./...

soak: servers ## random histories, races and kills, again and again under the race detector; ROUNDS=n
	$(GO) test -race -timeout 60m -count $(ROUNDS) -run '(Memstore|Conformance)/(HISTORY|LINEAR|RACE|RECOVER)-' ./storetest ./sqlitestore ./pgstore -rapid.checks=400
	$(GO) test -race -timeout 60m -count $(ROUNDS) -run 'UnderFaults|Conformance/commit/(HISTORY|LINEAR|RACE|RECOVER)-' ./dynamostore -rapid.checks=150
	$(GO) test -race -timeout 60m -count $(ROUNDS) -run 'TestKill|TwoHosts|ManyEntities' ./sqlitestore ./entity
	$(GO) test -timeout 60m -count $(ROUNDS) -run 'ChangesAreCounted' ./dynamostore -changes 10000
	$(GO) test -race -timeout 60m -count $(ROUNDS) -run 'ImmediateStops|Promotion|UnderKill' ./pgstore -crashes 6

fuzz: servers ## every fuzz function of the module, two at a time; FUZZTIME=1m for each
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' scripts/fuzz.sh

vulncheck: ## known vulnerabilities in what the code calls (govulncheck, pinned in tools/go.mod)
	@GO='$(GO)' scripts/vulncheck.sh

figures: servers ## measure what the documents claim; ONLY=regexp picks some, COUNT=n repeats (median)
	$(GO) run ./internal/figures -only '$(ONLY)' -count $(COUNT)
