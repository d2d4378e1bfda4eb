# One command each; `make` alone lists them. Everything runs in a private virtual environment, .venv.

VENV          ?= .venv
BIN           := $(VENV)/bin
STAMP         := $(VENV)/.installed
LOCK          := requirements-dev.lock
FUZZ_SECONDS  ?= 60
API_REQUESTS  ?= 8000
MUTATION_FLOOR ?= 80
PYTEST_ARGS   ?=
CLIENTS_ARGS  ?=
PORT          ?= 8788
ARGS          ?=
NATIVE        ?= yes

# pyright asks the package index for a newer self on every run otherwise.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

# Else every worker, and each of the hundreds of processes that tests start, compiles everything anew. `make clean` removes it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run test test-all test-load test-api check docs docs-serve format bench bench-proxy bench-docs fuzz mutate native test-system test-clients test-integrations test-mcp pictures clean lock release

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make or refresh the virtual environment

$(STAMP): $(LOCK) pyproject.toml scripts/setup
	@sh scripts/setup $(VENV) $(LOCK)
	@touch $@

run: $(STAMP) ## start the proxy with a small local model; set PORT and ARGS; NATIVE=no skips the background build
	@sh scripts/run $(VENV) "$(NATIVE)" --port $(PORT) $(ARGS)

native: $(STAMP) ## build the small model's engine for this processor, which answers faster; needs a C++ compiler
	@$(BIN)/toolspeak engine build

test: $(STAMP) ## the suite with small samples of expensive properties, and complete branch coverage of the pure packages
	@$(BIN)/python -m pytest --no-header --numprocesses auto --dist worksteal --cov --cov-report=term $(PYTEST_ARGS)

test-all: $(STAMP) ## the whole suite at full size: every property, fault, crash and schema; takes up to 20 minutes
	@TOOLSPEAK_TEST_SIZE=full $(BIN)/python -m pytest --no-header --no-cov --numprocesses auto --dist worksteal $(PYTEST_ARGS)

test-api: $(STAMP) ## 8,000 requests made up from the proxy's description (installs schemathesis, takes half an hour)
	@$(BIN)/python -c 'import schemathesis, openapi_spec_validator' 2>/dev/null || sh scripts/install-group $(VENV) api
	@TOOLSPEAK_API_REQUESTS=$(API_REQUESTS) $(BIN)/python -m pytest --no-header --no-cov --numprocesses auto \
		tests/server/test_generated_requests.py tests/server/test_openapi.py $(PYTEST_ARGS)

test-load: $(STAMP) ## 1000 streams for a minute through one process
	@$(BIN)/python bench/streams.py

check: $(STAMP) ## format, lint, types, import direction
	@$(BIN)/ruff format --check --quiet --output-format concise . || { echo "run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/pyright
	@$(BIN)/lint-imports --no-cache --no-logo

docs: $(STAMP) ## write the tables and the reference, and build the documentation site into site/; every link must work
	@$(BIN)/python -c 'import zensical' 2>/dev/null || sh scripts/install-group $(VENV) docs
	@$(BIN)/python scripts/tables.py
	@$(BIN)/python scripts/reference.py
	@$(BIN)/zensical build --clean --strict
	@$(BIN)/python scripts/finish_site.py

docs-serve: docs ## show the documentation site at http://127.0.0.1:8000 while you write it
	@$(BIN)/zensical serve --dev-addr 127.0.0.1:8000

format: $(STAMP) ## rewrite the files as `make check` wants them
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

bench: $(STAMP) ## parsers against other parsers, hostile input, codec, engine, transport, client
	@for bench in parsers codec engine transport client; do $(BIN)/python bench/$$bench.py && echo; done

bench-proxy: $(STAMP) ## compare the proxy with other proxies, installed into .bench; needs Linux and cc
	@$(BIN)/python bench/proxy.py

bench-docs: $(STAMP) ## the same, and write the figures into docs/performance.md
	@$(BIN)/python bench/proxy.py --write-docs

fuzz: $(STAMP) ## random input for FUZZ_SECONDS (60)
	@$(BIN)/python fuzz/fuzz_scanner.py --seconds $(FUZZ_SECONDS)

mutate: $(STAMP) ## mutation testing of scanner and lenient JSON; fails below MUTATION_FLOOR (80) percent
	@rm -rf mutants
	@HYPOTHESIS_PROFILE=mutate $(BIN)/mutmut run
	@$(BIN)/mutmut export-cicd-stats >/dev/null
	@$(BIN)/python scripts/mutation_score.py mutants/mutmut-cicd-stats.json $(MUTATION_FLOOR)

test-system: $(STAMP) ## install the system packages (browser, bubblewrap, PostgreSQL), then test everything
	@sh scripts/install-system
	@$(BIN)/python -c 'import playwright' 2>/dev/null || sh scripts/install-group $(VENV) browser
	@TOOLSPEAK_TEST_SYSTEM=require $(MAKE) --no-print-directory test

pictures: $(STAMP) ## take the pictures of the page in docs/images once more; needs the browser of test-system
	@TOOLSPEAK_TEST_SYSTEM=require TOOLSPEAK_PICTURES=docs/images $(BIN)/python -m pytest --no-header --no-cov tests/page/test_pictures.py $(PYTEST_ARGS)

test-clients: $(STAMP) ## install real clients below .clients and let each use the proxy; needs the package indexes
	@$(BIN)/python -m tests.real_clients.run $(CLIENTS_ARGS)

test-integrations: $(STAMP) ## install LangChain, LlamaIndex and others below .clients and test the integrations with them
	@sh scripts/test-integrations $(BIN)/python $(PYTEST_ARGS)

test-mcp: $(STAMP) ## run the MCP conformance suite against our client; needs the package indexes
	@$(BIN)/python -m tests.mcp_conformance.run $(MCP_ARGS)

release: $(STAMP) ## build VERSION into dist/, with a tag, checksums and a list of dependencies; PUBLISH=yes uploads it
	@$(BIN)/python -c 'import twine, cyclonedx_py' 2>/dev/null || sh scripts/install-group $(VENV) release
	@$(BIN)/python scripts/release.py $(VERSION) $(if $(filter yes,$(PUBLISH)),--publish)

lock: ## resolve the dependencies again (needs uv)
	@sh scripts/lock $(LOCK)

clean: ## remove everything that the other targets made
	@rm -rf $(VENV) .cache .clients .engine mutants build dist site htmlcov .coverage .coverage.* .hypothesis .pytest_cache .ruff_cache .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
