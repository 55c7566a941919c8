# Two commands: `make demo` and `make test`. Both create .venv, install what they need, and can be run twice.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: help install demo test bench clean

help:
	@echo "make demo    train a toy Transformer for about a minute and translate with it"
	@echo "make test    every check: style, types, layers, tests"
	@echo "make bench   speed beside PyTorch's own Transformer and CTranslate2"
	@echo "make clean   remove .venv, caches and the demo"

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Regard needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@echo "installing into .venv (a few minutes the first time; torch is the large part)"
	@$(PYTHON) -m venv .venv
	@PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install -q "torch==2.13.0"
	@PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install -q -e ".[dev]"
	@touch $@

demo: install
	@echo "A Transformer learns to say words in reverse order, from nothing, in about a minute."
	@rm -rf demo
	@$(BIN)/regard train recipes/reverse.toml --run demo/reverse
	@printf 'red green blue\nmorning coffee brother happy dog\nwind rain snow sun\n' > demo/words.txt
	@echo
	@echo '$$ regard translate demo/words.txt --model demo/reverse/model'
	@$(BIN)/regard translate demo/words.txt --model demo/reverse/model > demo/reversed.txt
	@paste -d '|' demo/words.txt demo/reversed.txt | sed 's/|/  →  /'
	@echo
	@echo "What to try next:"
	@echo "  source .venv/bin/activate"
	@echo "  regard translate 'red green blue' --model demo/reverse/model --json --align"
	@echo "  regard params base               every matrix of the paper's model"
	@echo "  regard plot demo/reverse         the curves of this training"
	@echo "  regard doctor                    what this machine can do"
	@echo "  README.md, 'Train your own'      a translator from your own sentences"

test: install
	@echo "== style";  $(BIN)/ruff check . && $(BIN)/ruff format --check -q .
	@echo "== types";  $(BIN)/mypy
	@echo "== layers"; $(BIN)/lint-imports
	@echo "== tests";  $(BIN)/pytest -n 2

bench: install
	@$(BIN)/python bench/pieces.py
	@$(BIN)/python bench/train.py --size small
	@$(BIN)/python bench/train.py --size base
	@$(BIN)/python bench/decode.py

clean:
	rm -rf .venv demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
