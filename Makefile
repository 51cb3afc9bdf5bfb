# Ten targets or fewer; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export UV_FROZEN := 1
UV := $(shell command -v uv 2>/dev/null || echo $(HOME)/.local/bin/uv)
RUN := $(UV) run --all-extras

.PHONY: help setup lint unit test demo cluster generate clean

help: ## List the targets
	@grep -hE '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: ## Install uv (if missing) and the locked Python environment
	@command -v uv >/dev/null || [ -x $(UV) ] || python3 -m pip install --quiet --user uv
	@$(UV) sync --all-extras --quiet

lint: setup ## Check style, types, import contracts and that generated files are current
	@$(RUN) ruff check .
	@$(RUN) ruff format --check --quiet .
	@$(RUN) mypy
	@$(RUN) lint-imports
	@$(RUN) python -m specdec.preflight.reference --check
	@$(RUN) python -m specdec.cli.reference --check

unit: setup ## Run the tests that need neither engine nor cluster (seconds)
	@$(RUN) pytest tests/unit tests/scenarios tests/faults tests/security -m "not cluster"

test: lint cluster ## Run everything that CI checks, on the real engine and the real cluster
	@$(RUN) pytest tests/unit tests/scenarios tests/faults tests/chart tests/security tests/engine tests/cluster

demo: cluster ## Show the main job: from kubectl apply to an automatic rollback (build/demo.png)
	@$(RUN) python -m tests.demo

cluster: setup ## Bring up the kind cluster with its images, and the engine for tests (safe to repeat)
	@$(RUN) python -m tests.cluster up --with helm --with promtool
	@$(RUN) python -m tests.cluster images
	@$(RUN) python -m tests.cluster engine

generate: setup ## Write the CRD, the reference pages and examples/operator.yaml from their sources
	@$(RUN) python -m specdec.api.crd crds
	@$(RUN) python -m specdec.preflight.reference
	@$(RUN) python -m specdec.cli.reference
	@$(RUN) python -m tests.cluster tools
	@$(RUN) python -m tests.support.chart examples/operator.yaml

bench-%: setup ## Measure one thing: bench-preflight, bench-judge, bench-scale, bench-probes (SGLang's wheels from the package index)
	@$(RUN) python -m bench.$* $(ARGS)

clean: ## Remove the cluster, its images and caches, and the Python environment
	@[ ! -x $(UV) ] || $(RUN) python -m tests.cluster down --purge
	@rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
