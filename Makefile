# Titrate. `make help` lists what there is.
# Everything that is fetched goes to $(CACHE), keyed by version; nothing is installed in the repository.

SHELL    := /usr/bin/env bash
DURATION ?= 60s
CACHE    ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/titrate
ENVOY    := 1.40.0
# Older ones that the module loads in, too (docs/compatibility.md).
OLDER_ENVOYS := 1.38.3 1.39.3
# What of envoytest depends on Envoy the most: symbols, attributes, settings, held and ended streams, metrics.
CORE     := Symbols|Older|EnvoysAddress|Overrides|PerRoute|Classes|ClientLimit|HeldThen|ResponseCost|ValidateMode
# docs/envoy-gateway.md is tested with this Envoy Gateway, and these Envoys.
GATEWAY  := 1.9.1
GATEWAY_ENVOYS := 1.39.3 $(ENVOY)
GATEWAY_BIN := $(CACHE)/envoy-gateway-$(GATEWAY)/envoy-gateway
export ENVOY_BIN ?= $(CACHE)/envoy-$(ENVOY)/envoy
# Tests use the packages that the programs were built from: the same flags, and cgo for the filter alone. Without gRPC's
# trace pages, and their templates, the linker leaves out methods that nothing calls: 7 MB of titrate.
export GOFLAGS ?= -buildvcs=false -trimpath -tags=grpcnotrace
export CGO_ENABLED ?= 0

# envoyproxy/ratelimit, which tests and benchmarks compare with.
RATELIMIT := $(CACHE)/ratelimit-$(shell sed -n 's,^\tgithub.com/envoyproxy/ratelimit \(v[^ ]*\).*,\1,p' tools/ratelimit/go.mod)/ratelimit

# Limitador's library in a server, which only the comparison of rate limiters needs (docs/comparison.md).
LIMITADOR := $(CACHE)/limitador-$(shell sed -n 's,^limitador = .*version = "=\([^"]*\)".*,\1,p' tools/limitador/Cargo.toml)/limitador

# A Kubernetes of one node, which runs the chart.
KUBERNETES := $(CACHE)/kubernetes-$(shell sed -n 's,^\tk8s.io/kubernetes \(v[^ ]*\).*,\1,p' tools/kubernetes/go.mod)

# The version before this one, which this one is upgraded from: a commit until there are releases.
PREVIOUS := 8467ba08
OLD := $(CACHE)/titrate-$(PREVIOUS)

RELEASE := $(shell sed -n 's,^const Release = "\(.*\)"$$,\1,p' services/command/version.go)
VERSION := v$(RELEASE)-dev+$(shell git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo unknown)

MODULES := control lab papers proto envoy-filter services e2e
GO_SRC  := $(shell find control proto services envoy-filter -name '*.go' -o -name '*.[ch]' -o -name go.mod -o -name go.sum -o -name '*.yaml' -o -path '*/console/site/*' 2>/dev/null)

LAB_SRC := $(shell find lab papers -name '*.go' -o -name go.mod -o -name go.sum -o -name '*.yaml' -o -name '*.tmpl' 2>/dev/null)
BUILT   := -X github.com/titrate/titrate/services/command.built=$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help build demo demos pictures dev test e2e docs docs-check verify race simulations lint generate check-generated tidy bench bench-envoy compare figures grid soak robustness fleet observe console-shots containers images release envoy older-envoys e2e-gateway e2e-k8s e2e-packages e2e-upgrade check-go standalone clean bin/robustness envoy-path

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: bin/titrate bin/titrate-lab bin/libtitrate.so ## bin/titrate, bin/libtitrate.so, and the laboratory, bin/titrate-lab

bin/titrate: $(GO_SRC) | check-go
	@echo "building bin/titrate (the first time takes a few minutes)"
	@cd services && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w $(BUILT)' -o ../$@ ./cmd/titrate

bin/titrate-lab: $(GO_SRC) $(LAB_SRC) | check-go
	@echo "building bin/titrate-lab"
	@cd lab && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w $(BUILT)' -o ../$@ ./cmd/titrate-lab

bin/libtitrate.so: $(GO_SRC) | check-go
	@echo "building bin/libtitrate.so"
	@cd envoy-filter && CGO_ENABLED=1 go build -trimpath -ldflags='-s -w' -buildmode=c-shared -o ../$@ . && rm -f ../bin/libtitrate.h

bin/install: envoy-filter/install/main.go | check-go
	@cd envoy-filter && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o ../$@ ./install

check-go:
	@tools/sh/need.sh go gcc

envoy: $(ENVOY_BIN) ## fetch Envoy into the cache (ENVOY_BIN=… uses your own)

$(CACHE)/envoy-%/envoy:
	@tools/sh/envoy.sh $* $@

envoy-path: # where it is, for .ci/run
	@echo $(ENVOY_BIN)

older-envoys: $(OLDER_ENVOYS:%=$(CACHE)/envoy-%/envoy) check-go ## the filter's tests in older Envoys; ARGS='-run Held'
	@for v in $(OLDER_ENVOYS); do (cd envoy-filter && CGO_ENABLED=1 ENVOY_BIN=$(CACHE)/envoy-$$v/envoy go test -count=1 $(ARGS) ./envoytest) || exit 1; done

demo: build envoy ## three real Envoys hold one limit and share one upstream; DURATION=60s JSON=file TRACE=file
	@bin/titrate-lab dev --duration $(DURATION) $(if $(JSON),--json $(JSON)) $(if $(TRACE),--trace $(TRACE)) $(ARGS)

demos: N ?= 30
demos: DURATION = 36s
demos: LOOPS ?= 0
demos: build envoy ## the demo many times, one run after the other, and a table of the verdicts; N=30 DURATION=36s LOOPS=0 (busy loops beside) ARGS=-vary
	@cd e2e && go build -o ../bin/demos ./demos && ../bin/demos -n $(N) -duration $(DURATION) -loops $(LOOPS) $(ARGS)

pictures: build envoy ## the pictures of the README: docs/demo.svg from a real run, docs/greedy.svg from a simulation
	@bin/titrate-lab dev --film docs/demo.svg </dev/null
	@bin/titrate-lab simulate -f lab/examples/simulate-3-greedy-tenant.yaml --baseline shared --plot docs/greedy.svg --panels tenants

dev: build envoy ## the same without load: drive it yourself (README, "Drive it yourself")
	@bin/titrate-lab dev --no-load $(ARGS)

# Packages of e2e that run processes, and judge rates and times: each has the machine to itself. APART are left to
# `make e2e`, and so are the tests LONG of ALONE.
ALONE := answers|fleet|process|rlqs|rls
APART := charts|console|containers|observe
LONG  := ^Test(Demo|Tutorial|HowTos|CoordinatorsShare|Loads|Expiry|Restart|ExactFleet|Fleet|Sites)$$

test: build envoy $(RATELIMIT) ## the tests: laws, services, simulations in short, real Envoys; `make e2e` and `make verify` have the long suites
	@go test -short -timeout 30m -p $$(($$(nproc) + 1)) $(patsubst %,./%/...,control lab papers proto/link services)
	@cd envoy-filter && CGO_ENABLED=1 go test ./...
	@cd tools/release && GOWORK=off go test ./...
	@tools/sh/need.sh redis-server promtool
	@cd e2e && go test -count=1 -timeout 20m $$(go list ./... | grep -vE '/($(ALONE)|$(APART))$$')
	@cd e2e && RATELIMIT_BIN=$(RATELIMIT) TITRATE_E2E=1 go test -count=1 -p 1 -timeout 20m -skip '$(LONG)' $$(go list ./... | grep -E '/($(ALONE))$$')

e2e: build envoy images ## the long suites of real parts: older Envoys, containers, chart, console, Prometheus, fleets, tutorial and how-tos
	@$(MAKE) --no-print-directory older-envoys ARGS="-run '$(CORE)'"
	@tools/sh/need.sh promtool docker-compose chromium
	@cd e2e && TITRATE_E2E=1 go test -count=1 -p 1 -timeout 20m -run '$(LONG)' $$(go list ./... | grep -E '/($(ALONE))$$')
	@cd e2e && TITRATE_AXE=$$(../tools/sh/console.sh axe) TITRATE_E2E=1 TITRATE_CONTAINERS=1 go test -count=1 -p 1 -timeout 20m $$(go list ./... | grep -E '/($(APART))$$')

docs: ## the documents as a site with search, in site/; fails on a link that leads nowhere; publishes nothing
	@tools/sh/docs.sh site

docs-check: build envoy ## follows the tutorial and the how-tos with real Envoys; commands, configurations and links of all documents
	@cd e2e && go test -count=1 ./reference
	@cd e2e && TITRATE_E2E=1 go test -count=1 ./guide && TITRATE_E2E=1 go test -count=1 -run '^TestTutorial$$|^TestHowTos$$|^TestGuideChanges$$|^TestGuideStatic$$|^TestGuideXDS$$' ./process

# Tests of one goroutine, which take minutes where each lock looks for its goroutine's number.
PLAYED := BesideStalls|BesideExact

race: export CGO_ENABLED = 1
race: build envoy ## the tests that have no C boundary, under the race detector; without long simulations, which run in one goroutine
	@cd control && go test -race -short ./...
	@cd control && go test -race -tags lockrank -run 'Stress|Locks|Flipping|Beside' -skip '$(PLAYED)' ./limiter/...
	@cd proto && go test -race ./link/...
	@cd envoy-filter && go test -race $$(go list ./... | grep -vE '/(shim|envoytest)|envoy-filter$$')
	@cd services && go test -race -short ./...
	@cd lab && go test -race -short ./...

simulations: check-go ## every grid, example, liar and figure in full, and the other tests that `make test` plays in short; minutes of CPU
	@for m in control lab papers services; do (cd $$m && go test -timeout 30m ./...) || exit 1; done

verify: test e2e race simulations ## test, e2e, race, and the long suites: simulations, older Envoys, fuzzing, compose, upgrades, packages, short soak and robustness, a full demo
	@$(MAKE) --no-print-directory older-envoys
	@CGO_ENABLED=1 tools/sh/fuzz.sh 10s
	@tools/sh/compose.sh
	@cd e2e && TITRATE_AXE=$$(../tools/sh/console.sh axe) TITRATE_E2E=1 go test -count=1 ./console -whole -measure 10s
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory e2e-upgrade e2e-packages
	@$(MAKE) --no-print-directory soak DURATION=30s
	@$(MAKE) --no-print-directory robustness DURATION=60s SEED=1
	@$(MAKE) --no-print-directory demo </dev/null

lint: check-go ## golangci-lint in every module, types of the console, shell syntax, Vale on documents, comments, help texts and errors
	@tools/sh/lint.sh $(MODULES)

generate: check-go ## Go, HTTP gateway and OpenAPI from the protos, after buf lint; the chart's schema, README and CRDs; dashboards; docs/configuration.md, docs/cli.md; the console's site
	@bash proto/generate.sh
	@tools/sh/console.sh
	@cd services && go test ./document -run '^TestDefinitionsOfTheChart$$' -count 1 -update >/dev/null
	@cd e2e && go run ./reference && go run ./charts/reference && go run ./charts/dashboards

check-generated: generate
	@git diff --exit-code --stat -- proto services/rest services/console charts docs/observe.md docs/configuration.md docs/cli.md || { echo 'generated code is out of date: run `make generate` and commit'; exit 1; }

standalone: check-go # every module builds without the workspace; cgo without -trimpath: vet reads the directory that was built first
	@for m in $(MODULES); do echo "GOWORK=off go build ./$$m"; (export GOWORK=off CGO_ENABLED=0; \
	  if [ $$m = envoy-filter ]; then export CGO_ENABLED=1 GOFLAGS=-buildvcs=false; fi; cd $$m && go build ./... && go vet ./...) || exit 1; done

tidy: check-go ## go mod tidy everywhere
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy) || exit 1; done

bench: check-go ## time per step of every law, fills cold and warm, the limiter: benchstat's medians of six runs; some minutes
	@set -o pipefail; for m in control papers; do (cd $$m && go test -run '^$$' -bench . -benchmem -benchtime 50ms -count 6 ./...) || exit 1; done \
	  | (cd tools/benchstat && GOWORK=off go tool benchstat now=-)

figures: check-go ## every figure and table of the papers: charts in figures/, rows in docs/reproduction.md
	@cd papers && go run ./figures -o ../figures -doc ../docs/reproduction.md $(ARGS)

grid: check-go ## limits, and shares, over grids of gateways, delays and faults: docs/grids.md; 6 minutes of one core
	@cd lab && go run ./grid -doc ../docs/grids.md
	@cd lab && go test ./simulate/grid -run '^TestDocument$$' -count 1 -timeout 30m -update

bench-envoy: build envoy $(RATELIMIT) ## real Envoys: CPU, instructions, latency, memory, exactness, queues, requests in flight, beside native limits; JSON=file ARGS='-only cpu,latency'
	@tools/sh/need.sh wrk valgrind redis-server
	@cd e2e && go run ./bench -ratelimit $(RATELIMIT) $(if $(JSON),-json $(abspath $(JSON))) $(ARGS)

e2e-k8s: images $(KUBERNETES)/kubelet $(OLD)/titrate $(GATEWAY_BIN) ## the chart on a real Kubernetes of one node, which is built once, in ten minutes; needs root
	@tools/sh/need.sh ctr ip iptables kubectl /usr/lib/cni/bridge
	@cd tools/helm && GOWORK=off go tool helm version --short # builds it, before the tests' time runs
	@cd e2e && KUBERNETES_BIN=$(KUBERNETES) ENVOY_GATEWAY=$(GATEWAY) go test -count=1 -v ./kubernetes
	@cd e2e && KUBERNETES_BIN=$(KUBERNETES) TITRATE_PREVIOUS=$(OLD) ENVOY_GATEWAY=$(GATEWAY) ENVOY_GATEWAY_BIN=$(GATEWAY_BIN) \
	  go test -count=1 -v -timeout 20m -exec $(CURDIR)/tools/sh/node.sh -run '^TestNode' ./kubernetes

$(KUBERNETES)/kubelet:
	@tools/sh/kubernetes.sh $(KUBERNETES)

$(OLD)/titrate:
	@tools/sh/previous.sh $(PREVIOUS) $(OLD)

e2e-upgrade: build envoy $(OLD)/titrate ## from the version before to this one and back, part by part, in any order, under traffic
	@cd e2e && TITRATE_E2E=1 TITRATE_PREVIOUS=$(OLD) go test -count=1 -run '^TestUpgrade$$' -v ./process

e2e-gateway: build $(GATEWAY_ENVOYS:%=$(CACHE)/envoy-%/envoy) $(GATEWAY_BIN) ## docs/envoy-gateway.md with a real Envoy Gateway, which is built once, in five minutes
	@for v in $(GATEWAY_ENVOYS); do (cd e2e && TITRATE_E2E=1 ENVOY_GATEWAY_BIN=$(GATEWAY_BIN) ENVOY_BIN=$(CACHE)/envoy-$$v/envoy ENVOY_VERSION=$$v go test -count=1 -run '^TestGuideEnvoyGateway' -v ./process) || exit 1; done

e2e-packages: images envoy ## .deb and .rpm on a Debian with systemd: installed, run as docs/how-to/virtual-machine.md says, removed
	@tools/sh/containers.sh $(ENVOY) machine
	@rm -rf bin/packages && mkdir -p bin/packages
	@cp bin/titrate bin/packages/titrate-linux-$$(go env GOARCH) && cp bin/libtitrate.so bin/packages/libtitrate-linux-$$(go env GOARCH).so
	@tools/sh/packages.sh $(VERSION) bin/packages
	@cd e2e && TITRATE_PACKAGES=$(CURDIR)/bin/packages go test -count=1 -v ./packages

$(GATEWAY_BIN):
	@tools/sh/envoy-gateway.sh $(GATEWAY) $@

soak: DURATION = 10m
soak: build envoy ## full load on three Envoys with aborts, reloads and kills: flat memory, nothing failed; DURATION=10m ARGS='-o json -pause 100ms'
	@cd e2e && go run ./soak -duration $(DURATION) $(ARGS)

robustness: DURATION = 5m
robustness: SEED ?= 1
bin/robustness: build
	@mkdir -p bin && cd e2e && go build -o ../bin/robustness ./robustness

robustness: bin/robustness envoy ## a whole installation broken at random, under traffic, and judged; DURATION=5m SEED=1 ARGS='-seeds 1-20 -parallel 2', -list
	@cd e2e && ../bin/robustness -duration $(DURATION) -seed $(SEED) $(ARGS)

fleet: N ?= 16
fleet: KEYS ?= 1000
fleet: SITES ?= 1
fleet: build envoy ## N real agents on one machine, three real Envoys: cost per agent, agreement, counts; N=64 KEYS=1000 ARGS='-o json'; N=3 KEYS=100000: EXACT keys when agents change; N=32 SITES=3 KEYS=20000: sites with slow links between them
	@cd e2e && go build -o ../bin/fleet ./fleet
	@bin/fleet -n $(N) -sites $(SITES) -keys $(KEYS) $(ARGS)

observe: DURATION =
observe: build envoy ## an installation under load with a real Prometheus that scrapes it; until Ctrl-C, or DURATION=1m
	@tools/sh/need.sh prometheus
	@cd e2e && go build -o ../bin/observe ./observe
	@bin/observe $(if $(DURATION),-duration $(DURATION)) $(ARGS)

console-shots: SHOTS = $(CURDIR)/bin/console
console-shots: build envoy ## the console's test with pictures: those of docs, and each screen light, dark, narrow, wide in SHOTS=folder
	@tools/sh/need.sh chromium
	@mkdir -p $(SHOTS)
	@cd e2e && TITRATE_E2E=1 TITRATE_AXE=$$(../tools/sh/console.sh axe) go test -count=1 -v -run TestConsole ./console -whole -measure 20s -shots $(abspath $(SHOTS)) -documents $(CURDIR)/docs

compare: build envoy $(RATELIMIT) ## rate limiters side by side: tables in README.md and docs/comparison.md; 7 minutes, or in pieces: ARGS='-only cpu'
	@tools/sh/need.sh wrk redis-server
	@[ -e $(LIMITADOR) ] || tools/sh/limitador.sh $(LIMITADOR)
	@cd e2e && go run ./bench -compare .. -ratelimit $(RATELIMIT) -limitador "$$(ls $(LIMITADOR) 2>/dev/null)" $(ARGS)

$(RATELIMIT):
	@tools/sh/ratelimit.sh $@

containers: ## a container engine and the base images, installed and started if missing
	@tools/sh/containers.sh $(ENVOY)

images: build bin/install containers ## titrate, gateway and module images, and the laboratory's
	@for i in titrate gateway module lab; do docker build -q -t titrate/$$i:dev -f deploy/$$i.Dockerfile . >/dev/null 2>&1 || docker build -t titrate/$$i:dev -f deploy/$$i.Dockerfile . || exit 1; done

release: VERSION = v$(RELEASE)
release: check-go ## everything that a release needs, in dist/, without publishing; KEY=private.pem VERSION=v1.2.3-rc.1
	@tools/sh/release.sh $(VERSION) dist $(KEY)

clean: ## remove bin/, dist/ and site/
	rm -rf bin dist site
