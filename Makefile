# Ten targets or fewer; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export UV_FROZEN := 1
UV := $(shell command -v uv 2>/dev/null || echo $(HOME)/.local/bin/uv)
# Every run brings the locked environment up to date first.
RUN := $(UV) run --quiet --all-extras

.PHONY: help test nightly demo generate gpu probes clean

help: ## List the targets
	@grep -hE '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

test: $(UV) ## Run everything that CI checks: all parts below
	@$(RUN) python -m tests.parts

test-%: $(UV) ## Run one part: test-lint, test-unit, test-chart, test-engine (real SGLang), test-cluster (real kind)
	@$(RUN) python -m tests.parts $*

nightly: $(UV) ## Run what takes an hour and more: every fault at every request (build/bench/nightly.json), and the tests marked so
	@$(RUN) python -m tests.faults $(ARGS); wrong=$$?; $(RUN) python -m tests.parts nightly && exit $$wrong

demo: $(UV) ## Show the main job: from kubectl apply to an automatic rollback (build/demo.png)
	@$(RUN) python -m tests.cluster up --with helm
	@$(RUN) python -m tests.cluster images
	@$(RUN) python -m tests.demo

generate: $(UV) ## Write the CRD, the reference pages and examples/operator.yaml from their sources
	@$(RUN) python -m specdec.api.crd crds
	@$(RUN) python -m specdec.preflight.reference
	@$(RUN) python -m specdec.cli.reference
	@$(RUN) python -m tests.cluster tools
	@$(RUN) python -m tests.support.chart examples/operator.yaml

bench-%: $(UV) ## Measure one thing: bench-preflight, bench-judge, bench-engine, bench-poller, bench-scale, bench-peers (docs/benchmarks.md)
	@$(RUN) python -m bench.$* $(ARGS)

gpu: $(UV) ## Measure the plugin on this machine's NVIDIA GPU (SGLang from the package index)
	@$(RUN) python -m tests.gpu run

probes: $(UV) ## Prove the capability table on SGLang's wheels (from the package index)
	@$(RUN) python -m specdec.preflight.probes $(ARGS)

clean: ## Remove the cluster, the images built here, the caches and the Python environment
	@[ ! -x $(UV) ] || $(RUN) python -m tests.cluster down --purge
	@rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# uv itself, where the machine has none: one program in ~/.local. Debian's pip refuses to install beside its own packages unless
# it is told so, other pips know no such setting and ignore it, and a venv would take a Debian package that may be missing.
$(UV):
	@PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --quiet --user uv
