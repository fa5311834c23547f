# Two commands set everything up on a fresh machine: `make demo` and `make test`.
# `make test-all` adds the tests that start servers or kill processes.

PYTHON ?= python3
BIN := .venv/bin
DEMO := demo
ROUNDS ?= 30

.PHONY: demo compare results compile faults test test-all docs lint types bench clean

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

# Trains our policy and two baselines on embedded digits, to a table and pictures.
demo: .venv/installed
	@rm -rf $(DEMO)/runs
	$(BIN)/stagewise simulate --policy pool --rounds $(ROUNDS) --out $(DEMO)/runs/pool
	$(BIN)/stagewise simulate --policy fedcs --rounds $(ROUNDS) --out $(DEMO)/runs/fedcs
	$(BIN)/stagewise simulate --policy c2e-greedy-assoc --rounds $(ROUNDS) --out $(DEMO)/runs/c2e-greedy-assoc
	$(BIN)/stagewise report $(DEMO)/runs/* -o $(DEMO)/report.html --pictures $(DEMO)/pictures

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
	@mkdir -p $(FAULTS)
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

bench: .venv/installed
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/quality.py --quick
	$(BIN)/python benchmarks/large_systems.py --sizes 1000x40 --scenarios 2
	$(BIN)/python benchmarks/training.py

clean:
	rm -rf .venv $(DEMO) build dist docs/gallery docs/sg_execution_times.rst .pytest_cache .mypy_cache .ruff_cache .hypothesis
