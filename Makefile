# Two commands for a newcomer: `make demo` and `make test`. Both set up everything they need.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types check benchmark clean

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) ".[plots]"
	touch $@

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) ".[dev]"
	touch $@ $(VENV)/.runtime

demo: $(VENV)/.runtime ## fit California housing and look at the result
	$(BIN)/python examples/demo.py

test: lint types check ## everything that must pass

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

check: $(VENV)/.installed
	$(BIN)/python -m pytest

benchmark: $(VENV)/.installed ## what the library reaches, as a table
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache demo-output
