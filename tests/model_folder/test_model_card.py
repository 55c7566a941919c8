"""The head of a model card."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import BertConfig, CorpusConfig, DataConfig, RunConfig
from regard.model_folder.model_card import CardHead, read_head
from regard.train.model_card import model_card


def test_there_and_back() -> None:
    head = CardHead("CC-BY 2.0 FR; MIT", {"bleu": 31.2, "chrf": 54.7})
    assert read_head(f"{head}# A card\n\nbleu: 99\n") == head
    assert str(head).endswith("---\n\n")


@pytest.mark.parametrize("card", ["", "# A card", "---\nbleu: 3\n", "x\n---\nbleu: 3\n---\n", "bleu: 3"])
def test_no_head(card: str) -> None:
    assert read_head(card) == CardHead()
    assert str(CardHead()) == ""


def test_cards_written_by_hand() -> None:
    card = '---\nlanguage:\n- zh\nlicense: "mit"\nbleu: 30\nnote: none\n---\ntext'
    assert read_head(card) == CardHead("mit", {"bleu": 30.0})


@given(st.text(max_size=100))
def test_any_text(text: str) -> None:
    read_head(text)
    read_head(f"---\n{text}\n---\n")


def test_a_training_writes_one() -> None:
    corpora = tuple(CorpusConfig(toy="copy", licence=licence) for licence in ("MIT", "", "MIT", "CC0"))
    card = model_card(RunConfig(data=DataConfig(train=corpora)), 10, 3, {"loss": 2.5})
    assert read_head(card) == CardHead("MIT; CC0", {"loss": 2.5})


def test_a_corpus_without_description_is_named_by_its_files() -> None:
    corpora = (
        CorpusConfig(src="/data/mine/train.en", tgt="/data/mine/train.de"),
        CorpusConfig(text="/data/mine/poems.txt", published="https://example.com"),
        CorpusConfig(file="/data/x.tsv", about="Sentences of mine"),
    )
    card = model_card(RunConfig(data=DataConfig(train=corpora)), 10, 3, {})
    named = ["- mine/train.en + train.de", "- mine/poems.txt (https://example.com)", "- Sentences of mine"]
    assert [line for line in card.splitlines() if line.startswith("- ")][:3] == named


def test_the_card_of_a_model_that_is_not_trained() -> None:
    run = RunConfig(model=BertConfig(heads=()))
    assert run.task is None
    assert "# Text embeddings" in model_card(run, 10, 3, {})
