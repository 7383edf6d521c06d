# The one list of commands. `make` alone prints it.

CARGO ?= cargo
# What was built for the whole workspace: for one package alone Cargo would choose other features and build anew.
BUILT  = $(or $(CARGO_TARGET_DIR),target)

.DEFAULT_GOAL := help
.PHONY: help build demo test soak bench lint crds cluster-up cluster-down

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

build:
	$(CARGO) build --workspace --bins

demo: build ## The source document's cluster, live: 12 jobs on 64 GPUs under quota (KEEP=1 keeps it, KILL=1 kills the leader midway)
	$(BUILT)/debug/whalezen-demo $(if $(KEEP),--keep) $(if $(KILL),--kill-leader)

test: build ## Every test, those on the real control plane included
	$(CARGO) test --workspace

soak: ## The property tests with new dice (CASES=... for other than 2,000 histories each)
	PROPTEST_RNG_SEED=$$(date +%s) PROPTEST_CASES=$(or $(CASES),2000) \
	$(CARGO) test -p whalezen-core -p whalezen-dialects -p whalezen-simulator

bench: ## Against Kueue on Kueue's own harness (NAME=... for one benchmark)
	$(CARGO) build --release --workspace --bins
	$(BUILT)/release/whalezen-bench $(NAME)

lint: ## Format, clippy, and licences where cargo-deny is installed
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check licenses bans sources; \
	else echo "cargo-deny is not installed: licences not checked"; fi

crds: build ## Write manifests/crds from the types in crds/
	$(BUILT)/debug/whalezen-crdgen manifests/crds

cluster-up: build ## Start a real control plane with fake GPU nodes and leave it running (REAL=2: with two real nodes, as root)
	$(BUILT)/debug/whalezen-cluster up $(if $(REAL),--real-nodes $(REAL))

cluster-down: build ## End what cluster-up started
	$(BUILT)/debug/whalezen-cluster down
