# Two commands set everything up on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
DEMO := demo

.PHONY: demo test lint types bench clean

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

demo: .venv/installed
	@mkdir -p $(DEMO)
	$(BIN)/stagewise scenario numeric --clients 93 --edges 4 --seed 0 -o $(DEMO)/s.json
	$(BIN)/stagewise availability $(DEMO)/s.json --rounds 30 --seed 1 -o $(DEMO)/online.jsonl
	$(BIN)/stagewise plan $(DEMO)/s.json -o $(DEMO)/plan.json
	$(BIN)/stagewise decide $(DEMO)/s.json $(DEMO)/plan.json --online $(DEMO)/online.jsonl -o $(DEMO)/decisions.jsonl
	$(BIN)/stagewise check $(DEMO)/s.json $(DEMO)/decisions.jsonl --online $(DEMO)/online.jsonl
	$(BIN)/stagewise compare $(DEMO)/s.json --online $(DEMO)/online.jsonl --workers 2

test: .venv/installed
	$(BIN)/python -m pytest -n 2

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/mypy

bench: .venv/installed
	$(BIN)/python benchmarks/planning.py

clean:
	rm -rf .venv $(DEMO) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
