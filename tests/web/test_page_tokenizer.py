"""The page's own tokenizer normalises, segments and decodes as SentencePiece and Regard do."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.inspect.explorer import Explorer
from regard.inspect.wire import plain
from regard.model_folder.registry import BUNDLED
from regard.pipelines.model_translator import ModelTranslator
from regard.text.normalise import normalise
from regard.tokenizers.model_proto import refusal_of_proto
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.training import train_vocabulary

SENTENCES = [
    "the lowest tower",
    "lower and lower",
    "a new tower [MASK]",
    "我 爱 你",
    "我们 爱 你们",
    "newest low town",
] * 5
KINDS = ("bpe", "unigram", "masks", "zh-en", "en-zh")

# Every character may occur; those with a rule of their own occur often.
RULES = (
    "！ＡＢｶﾞﬁ①㎡ﷺ℃½\u00a0\u3000\u200b\u200d\u200c\u00ad\ufeff\ufe0f🏴👩💻❤\U000e0067\U000e007fم\u0301\u0327e\x1b[31m▁ "
)
TEXTS = st.one_of(
    st.text(max_size=40),
    st.text(RULES, max_size=20),
    st.text(RULES + "lowerstwna 我爱你们0123,.", max_size=40),
    st.text(st.characters(exclude_categories=()), max_size=20),  # lone surrogates too
    st.text("lowerstwna 我爱你们,。", max_size=60),
)


@pytest.fixture(scope="module")
def tokenizers(reverse: ModelTranslator, open_models: Any) -> Iterator[tuple[list[Explorer], Any]]:
    vocabularies = (
        train_vocabulary(SENTENCES, "bpe", 330),
        train_vocabulary(SENTENCES, "unigram", 290),
        train_vocabulary(SENTENCES, "bpe", 330, symbols=["[MASK]"]),
    )
    translators = []
    for vocabulary in vocabularies:
        translator = ModelTranslator(reverse.folder)
        translator.tokenizer = TokenizerPair(vocabulary, vocabulary, lowercase=vocabulary is vocabularies[0])
        translators.append(translator)
    translators += [ModelTranslator(BUNDLED / direction) for direction in KINDS[3:]]
    with open_models(*translators) as page:
        yield [Explorer(translator) for translator in translators], page


@given(text=TEXTS)
@settings(max_examples=60)
def test_any_text(text: str, tokenizers: tuple[list[Explorer], Any]) -> None:
    explorers, page = tokenizers
    for index, explorer in enumerate(explorers):
        found = page.post("tokens", model=str(index), text=text)
        expected = plain(explorer.tokens(text, "src"))
        assert {**found, "text": text} == {**expected, "text": text}, KINDS[index]


@given(data=st.data())
@settings(max_examples=30)
def test_any_ids_are_decoded_the_same(data: st.DataObject, tokenizers: tuple[list[Explorer], Any]) -> None:
    """Bytes in any order too, most of which are no characters."""
    explorers, page = tokenizers
    index = data.draw(st.sampled_from([3, 4]))
    explorer = explorers[index]
    bytes_first = st.one_of(st.integers(4, 259), st.integers(4, explorer.tgt.size - 1), st.just(1))
    ids = data.draw(st.lists(bytes_first, max_size=8))
    header, _ = page.post("trace", model=str(index), text="", tgt_ids=ids)
    assert header["translation"] == normalise(explorer.tgt.decode(ids))


@pytest.mark.parametrize("direction", KINDS[3:])
def test_the_bundled_tokenizers_are_plain(direction: str) -> None:
    assert refusal_of_proto((BUNDLED / direction / "tokenizer.model").read_bytes()) is None


def test_tokenizers_that_the_page_refuses() -> None:
    def train(**options: Any) -> bytes:
        written = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES),
            model_writer=written,
            vocab_size=options.pop("vocab_size", 40),
            hard_vocab_limit=False,
            minloglevel=3,
            **options,
        )
        return written.getvalue()

    bytes_too: dict[str, Any] = {"byte_fallback": True, "vocab_size": 330, "normalization_rule_name": "identity"}
    for options, reason in (
        ({"normalization_rule_name": "identity"}, "without byte fallback"),
        ({**bytes_too, "normalization_rule_name": "nmt_nfkc"}, "with rules of normalisation of its own"),
        ({**bytes_too, "treat_whitespace_as_suffix": True}, "with the space mark behind words"),
        ({**bytes_too, "model_type": "char"}, "of the kind 'char'"),
    ):
        assert refusal_of_proto(train(**options)) == f"a tokenizer {reason}"
    assert refusal_of_proto(train(**bytes_too, model_type="bpe")) is None
