# Everything runs in .venv, which is made on first use and again whenever pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.playhead-ready

.PHONY: demo test lint heavy soak bench
.SILENT:

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Playhead needs Python 3.11 or newer; name one: make PYTHON=python3.12" >&2; exit 2; }
	$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[dev,postgres,web]'
	touch $@

# Example sessions into a fresh store and out again, the bytes compared; a replay, a comparison, a fork, and a conversation
# with a recording. DEMO is where it happens.
DEMO ?= demo
demo: $(READY)
	$(BIN)/python examples/demo.py $(DEMO)

# The fast tests, PostgreSQL among them (it comes from pip). One part: make test ARGS=tests/cli
test: $(READY)
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m 'not heavy' $(ARGS)

lint: $(READY)
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy --no-error-summary -p playhead
	$(BIN)/pyright --warnings -p .

# The slow suites: processes killed at random moments, giant files, the whole corpus on both engines.
heavy: $(READY)
	$(BIN)/python -m pytest -q -m heavy $(ARGS)

# The same with many more rounds of faults.
soak: $(READY)
	PLAYHEAD_SOAK=1 $(BIN)/python -m pytest -q -m heavy $(ARGS)

# Speed and size as ratios, beside other stores (those that could not be installed are passed over).
# A part, or fewer events: make bench ARGS='--events 100000 --only import'
bench: $(READY)
	test -e .venv/.playhead-peers || ! $(BIN)/python -m pip install -qq -e '.[bench]' || touch .venv/.playhead-peers
	$(BIN)/python tests/benchmarks/run.py $(ARGS)
