# Two commands set everything up on a fresh machine: `make demo` and `make test`.
# `make test-all` adds the tests that start servers or kill processes.

PYTHON ?= python3
BIN := .venv/bin
DEMO := demo
ROUNDS ?= 30

INSTALL := $(BIN)/pip install --quiet --constraint constraints.txt

.PHONY: demo compare results compile faults test test-all docs lint types coverage wheel-test extras-test lowest-test python-test bench clean

# What the demo needs; the tools of developers come on top.
.venv/demo: pyproject.toml constraints.txt
	@echo "==> Installing PyTorch, Stagewise and what they need into .venv: a minute or two"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --upgrade pip  # that of an older Python takes minutes longer
	@$(INSTALL) torch
	@$(INSTALL) --editable '.[simulate,serve]'
	@touch $@

.venv/installed: .venv/demo
	@echo "==> Installing what tests and checks need into .venv: a minute or two"
	@$(INSTALL) --editable '.[dev]'
	@touch $@

# Trains our policy and two baselines on embedded digits, to a table and pictures.
POLICIES := pool fedcs c2e-greedy-assoc
demo: .venv/demo
	@rm -rf $(DEMO)/runs
	@for policy in $(POLICIES); do \
		echo "==> Training $(ROUNDS) rounds on embedded digits under $$policy"; \
		$(BIN)/stagewise simulate --policy $$policy --rounds $(ROUNDS) --out $(DEMO)/runs/$$policy || exit; \
	done
	@echo "==> Drawing the pictures and the page"
	@$(BIN)/stagewise report $(POLICIES:%=$(DEMO)/runs/%) -o $(DEMO)/report.html --pictures $(DEMO)/pictures
	@echo "==> The page: $(CURDIR)/$(DEMO)/report.html"
	@echo "==> Next, the same runs and a federation to try things on: $(BIN)/stagewise serve --runs $(DEMO)/runs"

# Plans a paper-sized scenario, decides 30 rounds, checks them, and compares all methods.
compare: .venv/installed
	@mkdir -p $(DEMO)
	$(BIN)/stagewise scenario numeric --clients 93 --edges 4 --seed 0 -o $(DEMO)/s.json
	$(BIN)/stagewise availability $(DEMO)/s.json --rounds 30 --seed 1 -o $(DEMO)/online.jsonl
	$(BIN)/stagewise plan $(DEMO)/s.json -o $(DEMO)/plan.json
	$(BIN)/stagewise decide $(DEMO)/s.json $(DEMO)/plan.json --online $(DEMO)/online.jsonl -o $(DEMO)/decisions.jsonl
	$(BIN)/stagewise check $(DEMO)/s.json $(DEMO)/decisions.jsonl --online $(DEMO)/online.jsonl
	$(BIN)/stagewise compare $(DEMO)/s.json --online $(DEMO)/online.jsonl --workers 2

# Puts what `stagewise experiment run` left in results/quick and results/full into docs/results: the page,
# its Markdown twin, and of every experiment its numbers, table and picture.
RESULTS ?= $(wildcard results/quick results/full)
results: .venv/installed
	$(BIN)/stagewise experiment report $(RESULTS) -o docs/results/README.md
	$(BIN)/stagewise experiment report $(RESULTS) -o docs/results/index.html

# Once for all test processes, which would otherwise each compile the same.
compile: .venv/installed
	$(BIN)/stagewise doctor --compile

# Injects every fault we know, kills and pauses at 50 moments of a run too, and writes docs/faults.md.
FAULTS := build/faults
faults: compile
	@rm -rf $(FAULTS) && mkdir -p $(FAULTS)
	-$(BIN)/python -m pytest -m fault --junit-xml=$(FAULTS)/tests.xml
	-$(BIN)/python benchmarks/deploy_faults.py --rounds 30 --faults 50 --pause-s 120 --every-s 1.5 --record $(FAULTS)/moments.json
	$(BIN)/python benchmarks/fault_page.py $(FAULTS)

test: compile
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -n 2 --dist worksteal -m 'not processes'

test-all: compile
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n 2 --dist loadgroup

# The site, with its tutorials run: build/docs/index.html. `SHORT=1` leaves the tutorials out.
docs: compile
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky --jobs 2 --quiet \
		$(if $(SHORT),-D plot_gallery=0) -d build/doctrees docs build/docs

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/mypy

# Which lines the tests run, in processes they start, too: build/coverage/index.html and docs/coverage.md.
# The limit on the size of files in the test left out would be met by the counter's own files.
coverage: compile
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -n 2 --dist loadgroup \
		--deselect tests/simulator/test_resume.py::test_a_real_limit_on_file_size_is_one_line \
		--cov --cov-report=html:build/coverage --cov-report=json:build/coverage.json
	$(BIN)/python benchmarks/coverage_page.py build/coverage.json

# Builds the package, installs it alone in a new environment, and plans, decides and checks there.
wheel-test:
	$(PYTHON) tests/wheel_alone.py

# The same with the oldest packages that pyproject.toml admits, and then with each extra's.
lowest-test:
	$(PYTHON) tests/wheel_alone.py --constraint constraints-lowest.txt
	$(PYTHON) tests/extras_alone.py --constraint constraints-lowest.txt $(EXTRAS)

# Installs it with one extra after the other, each in a new environment, and does there what the extra is for.
# `EXTRAS="serve deploy"` takes these alone.
extras-test:
	$(PYTHON) tests/extras_alone.py $(EXTRAS)

# README and tutorials without PyTorch under another Python: `PYTHON=python3.13`.
python-test:
	$(PYTHON) tests/python_alone.py

bench: .venv/installed
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/quality.py --quick
	$(BIN)/python benchmarks/large_systems.py compare --against HEAD~1 --sizes 1000x40 --scenarios 2
	$(BIN)/python benchmarks/training.py

clean:
	rm -rf .venv $(DEMO) build dist docs/gallery docs/sg_execution_times.rst .pytest_cache .mypy_cache .ruff_cache .hypothesis
