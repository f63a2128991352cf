# Every target installs what it needs: a fresh clone needs Python 3.11 or newer, git and make.
PYTHON ?= python3
SCENARIO ?= scenarios/sporadic_checkins.yaml
CASES ?= 20000
SEED ?= 1
WORKERS ?= 2
MINUTES ?= 20
BIN := .venv/bin
TSC := .venv/node/node_modules/typescript/bin/tsc
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
# uv installs in seconds what takes pip minutes. pip is the fallback, for example where only pip.conf names a mirror.
# Bytecode is compiled once: otherwise every process that the tests start compiles its imports again.
INSTALL_LOCKED = $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes --no-deps -r $(1) 2>/dev/null || \
	$(PIP) --require-hashes --no-deps -r $(1)

unexport PYTHONDONTWRITEBYTECODE # for the same reason

.PHONY: run test lint lint-javascript docs package format bench round-trip fuzz soak lock clean

run: .venv/ready-to-run
	$(BIN)/lppm-sim run $(SCENARIO)

test: .venv/ready-to-develop
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: .venv/ready-to-develop
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/lint_language.py
	@$(MAKE) --no-print-directory lint-javascript

# Types of the report's scripts; skipped where node or TypeScript is not available.
lint-javascript:
	@if ! command -v node >/dev/null || ! command -v npm >/dev/null; then \
	  echo "JavaScript: type check skipped, node is not installed"; \
	elif [ ! -f $(TSC) ] && ! npm install --silent --no-audit --prefix .venv/node typescript@5.9.3 >/dev/null 2>&1; then \
	  echo "JavaScript: type check skipped, TypeScript cannot be installed"; \
	else \
	  node $(TSC) --project jsconfig.json && echo "JavaScript: no type errors"; \
	fi

# Build the documentation site. Warnings, broken references and pages outside the table of contents are errors.
docs: .venv/ready-to-develop
	rm -rf docs/_build/html
	$(BIN)/python -m sphinx -b html -W --keep-going -n -q -d docs/_build/doctrees docs docs/_build/html
	@echo "the site is docs/_build/html/index.html"

# Audit simulated mechanisms and write the table of results to the page; continues after an interruption.
round-trip: .venv/ready-to-develop
	$(BIN)/python -m tests.audit.round_trip --page docs/how_to/audit.md $(ARGS)

# make bench QUICK=1, or any options: make bench ARGS="peb mk -o bench.json"
bench: .venv/ready-to-develop
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(ARGS)

# Wheel and sdist in dist/, checked and tried in a fresh environment.
package: .venv/ready-to-develop
	tools/check_package.sh

fuzz: .venv/ready-to-develop
	$(BIN)/python -m tests.fuzz --cases $(CASES) --seed $(SEED) --workers $(WORKERS)

soak: .venv/ready-to-develop
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --workers $(WORKERS)

format: .venv/ready-to-develop
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("lppm-sim needs Python 3.11 or newer, found " + sys.version.split()[0] + "; try: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv
	$(PIP) --require-hashes -r requirements-install.lock

.venv/ready-to-run: requirements.lock pyproject.toml | .venv/bin/python
	@echo "installing the locked requirements (once)"
	$(call INSTALL_LOCKED,requirements.lock)
	$(PIP) --no-deps --no-build-isolation -e .
	@echo "compiling the numba kernels (once)"
	$(BIN)/python -m sim.inference.kernels
	touch $@

.venv/ready-to-develop: requirements-dev.lock pyproject.toml | .venv/bin/python
	@echo "installing the locked requirements for development (once)"
	$(call INSTALL_LOCKED,requirements-dev.lock)
	$(PIP) --no-deps --no-build-isolation -e .
	@echo "compiling the numba kernels (once)"
	$(BIN)/python -m sim.inference.kernels
	touch $@ .venv/ready-to-run

# The locks contain hashes and no addresses, so that they work with any registry.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url
lock: .venv/bin/python
	echo uv | $(COMPILE) - -o requirements-install.lock
	$(COMPILE) --extra build --extra fast pyproject.toml -o requirements.lock
	$(COMPILE) --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache
