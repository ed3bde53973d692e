# Two commands for a newcomer: `make demo` and `make test`. Both set up everything they need.
# While editing: `make quick`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo quick test lint types check browser runtime release rivals benchmark docs clean

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
NEEDS := $(BIN)/python pyproject.toml constraints.txt

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(NEEDS)
	$(INSTALL) -e ".[plots]"
	touch $@

# A dependency group of pyproject.toml; pip knows them from 25.1 on, older ones get a list.
$(VENV)/.group-%: $(NEEDS)
	$(BIN)/python .ci/group.py $* > $(VENV)/$*.txt
	$(INSTALL) -e . -r $(VENV)/$*.txt
	touch $@

demo: $(VENV)/.demo ## fit California housing and look at the result
	$(BIN)/tpnn demo

# The architecture, the laws on small tables, one fit of each task.
QUICK := $(addprefix tests/, test_architecture.py test_package.py _utils table anova loss \
	model solvers/test_solution.py solvers/problem solvers/grow search $(addprefix estimators/test_, each_task.py parameters.py \
	inputs.py pipeline.py messages.py))

quick: lint types ## what matters while editing, in under two minutes
	$(BIN)/python -m pytest -q -m "not slow" $(QUICK)

test: lint types check ## everything that must pass

lint: $(VENV)/.group-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.group-dev
	$(BIN)/mypy

check: $(VENV)/.group-dev browser
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

browser: ## find Chromium for the tests of the report, or install it where apt-get may
	@command -v chromedriver >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    timeout 300 apt-get install -qq -y chromium chromium-driver >/dev/null 2>&1; } || \
	  echo "no Chromium with chromedriver: tests of the report in a browser will be skipped"

runtime: $(BIN)/python ## the wheel of tpnn-runtime, which predicts with NumPy alone
	$(BIN)/python -m pip wheel --quiet --no-deps -w dist ./runtime

release: $(BIN)/python ## build, check and try both distributions in clean environments, into dist/
	$(BIN)/python .ci/release.py dist

rivals: $(VENV)/.group-benchmarks ## the libraries beside which tpnn is measured

benchmark: rivals ## what the library reaches, as a table; `python -m benchmarks` lists all benchmarks
	$(BIN)/python -m benchmarks all

docs: $(VENV)/.group-docs ## the documentation site; broken links and failing recipes are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache demo-output docs/_build docs/api docs/recipes
