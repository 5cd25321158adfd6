# Needs only python3: `make demo` shows it working, `make test` checks it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help demo test quick lint graph docs lock install install-dev browser clean

help:
	@echo "make demo    set everything up and run the demonstration (about 5 minutes, 5 GB)"
	@echo "make test    set everything up, lint, type-check and run all tests (about 20 minutes in all)"
	@echo "make quick   run the fast tests (under two minutes in total)"
	@echo "make graph   print which folder of the package imports which"
	@echo "make docs    write docs/cli.md, the command reference"
	@echo "make lock    write requirements.lock: the versions of constraints.txt with their hashes"
	@echo "make clean   remove the virtual environment and caches"

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing (torch and its libraries are about 5 GB; a few minutes)"
	$(BIN)/pip install --quiet --editable . --constraint constraints.txt
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing with the test tools (torch and its libraries are about 5 GB; a few minutes)"
	$(BIN)/pip install --quiet --editable ".[dev]" --constraint constraints.txt
	@touch $@ $(VENV)/.installed

demo: install
	$(BIN)/fedpdc simulate --compare solo,fedavg --rounds 15 --overwrite

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .

graph: install-dev
	$(BIN)/python .ci/graph.py

docs: install-dev
	$(BIN)/python .ci/cli_reference.py

# A dry run of pip: it reports the hash of every file that it would install here for constraints.txt.
lock: $(BIN)/python
	$(BIN)/pip install --quiet --dry-run --ignore-installed --no-deps --report $(VENV)/lock.json --requirement constraints.txt
	$(BIN)/python .ci/lock.py < $(VENV)/lock.json > requirements.lock

# The app's tests drive a real browser. On Debian and Ubuntu this installs Chromium; elsewhere install it by hand.
browser:
	@command -v chromium >/dev/null || { echo "installing Chromium for the app's tests"; \
		if [ "$$(id -u)" = 0 ]; then sudo=; else sudo=sudo; fi; \
		$$sudo apt-get -qq update && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y chromium >/dev/null; }

# Line coverage is measured in the tests' own process: lines that run only in workers, kits or subprocesses count as missed.
test: lint browser
	@echo "running all tests (about 16 minutes on two cores)"
	$(BIN)/pytest --durations 10 --cov fedpdc_med --cov-report term:skip-covered

quick: install-dev
	$(BIN)/pytest -m "not slow"

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .grimp_cache .import_linter_cache .coverage build *.egg-info
