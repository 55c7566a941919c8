"""Against sacreBLEU, whose scores these are."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.significance import PairedTest
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_char import TokenizerChar
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

import regard
from regard.errors import DataError
from regard.evaluation.bleu import TOKENIZERS, Tokenize
from regard.evaluation.scores import compare, measure

REFERENCES = ["Two dogs are running in the snow.", "A man, in a hat!", "The cat sat on the mat today."] * 4
CLOSE = ["Two dogs run in the snow.", "A man, in a hat!", "The cat sat on a mat today."] * 4
FAR = ["Dogs snow.", "Man", "On a mat the cat was"] * 4
CHINESE = ["我爱你，你爱我。", "今天天气很好。"]


@pytest.mark.parametrize("lowercase", [False, True])
def test_figures_are_sacrebleu_s(lowercase: bool) -> None:
    outputs = [text.upper() if number % 2 else text for number, text in enumerate(CLOSE)]
    bleu, chrf = measure(outputs, REFERENCES, "de", lowercase)
    assert (bleu.name, chrf.name) == ("BLEU", "chrF")
    wanted = sacrebleu.corpus_bleu(outputs, [REFERENCES], lowercase=lowercase).score
    assert bleu.score == pytest.approx(wanted)
    metric = sacrebleu.CHRF(lowercase=lowercase)
    assert chrf.score == pytest.approx(metric.corpus_score(outputs, [REFERENCES]).score)
    assert f"|case:{'lc' if lowercase else 'mixed'}|" in bleu.signature
    assert bleu.signature.startswith("nrefs:1|")
    assert bleu.signature.endswith(f"|version:regard-{regard.__version__}")
    assert chrf.signature.partition("|version")[0] == str(metric.get_signature()).partition("|version")[0]


@pytest.mark.parametrize(
    ("lang", "tokenize"),
    [("zh", "zh"), ("zh-CN", "zh"), ("zh_TW", "zh"), ("ZH", "zh"), ("ja", "char"), ("en", "13a"), ("", "13a")],
)
def test_words_are_those_of_the_target_language(lang: str, tokenize: str) -> None:
    bleu = measure(CHINESE, CHINESE[::-1], lang)[0]
    assert f"|tok:{tokenize}|" in bleu.signature
    assert bleu.score == pytest.approx(sacrebleu.corpus_bleu(CHINESE, [CHINESE[::-1]], tokenize=tokenize).score)


SNIPPETS = st.sampled_from(
    ["a", "dog", "Dog", "1,000.5", "3-4", "-", ".", "&amp;", "我", "们，", "“", "é", " ", "\n", "<skipped>"]
)
TEXTS = st.lists(SNIPPETS | st.text(max_size=3), max_size=9).map("".join)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5), st.sampled_from(["en", "zh", "ja"]), st.booleans())
def test_any_texts_get_sacrebleu_s_scores(pairs: list[tuple[str, str]], lang: str, lowercase: bool) -> None:
    outputs, references = ([pair[side] for pair in pairs] for side in (0, 1))
    bleu, chrf = measure(outputs, references, lang, lowercase)
    tokenize = {"en": "13a", "zh": "zh", "ja": "char"}[lang]
    wanted = sacrebleu.corpus_bleu(outputs, [references], lowercase=lowercase, tokenize=tokenize).score
    assert bleu.score == pytest.approx(wanted, abs=1e-9)
    wanted = sacrebleu.corpus_chrf(outputs, [references]).score if not lowercase else None
    assert wanted is None or chrf.score == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "theirs"), [("13a", Tokenizer13a()), ("zh", TokenizerZh()), ("char", TokenizerChar())]
)
def test_every_character_is_tokenized_as_by_sacrebleu(name: Tokenize, theirs: Callable[[str], str]) -> None:
    for code in [*range(0x3400), *range(0x3400, sys.maxunicode + 1, 97), *range(0xF900, 0x10000)]:
        text = f"a{chr(code)}b 1{chr(code)}2"
        assert TOKENIZERS[name](text) == theirs(text).split(), hex(code)


def test_the_p_value_is_close_to_sacrebleu_s() -> None:
    words = random.Random(1).choices
    references = [" ".join(words("abcdefgh", k=8)) for _ in range(80)]
    first, second = (
        [
            " ".join(w if random.Random(hash((w, at, k))).random() < p else "z" for w in line.split())
            for at, line in enumerate(references)
        ]
        for k, p in ((1, 0.70), (2, 0.66))
    )
    metrics = {"BLEU": sacrebleu.BLEU(), "chrF": sacrebleu.CHRF()}
    _, results = PairedTest([("a", first), ("b", second)], metrics, [references], test_type="bs", n_samples=1000)()
    for row, key in zip(
        compare(first, second, references, "en"), [key for key in results if key != "System"], strict=True
    ):
        assert row.p_value == pytest.approx(results[key][1].p_value, abs=0.04)


def test_nothing_cannot_be_scored() -> None:
    with pytest.raises(DataError, match="no sentences"):
        measure([], [], "en")


def test_a_system_is_no_better_than_itself() -> None:
    for row in compare(CLOSE, CLOSE, REFERENCES, "en", samples=50):
        assert row.first == row.second
        assert row.p_value == 1.0


def test_a_much_better_system_is_seen() -> None:
    bleu, chrf = compare(CLOSE, FAR, REFERENCES, "en", samples=200)
    assert (bleu.name, chrf.name) == ("BLEU", "chrF")
    for row, figure in zip((bleu, chrf), measure(CLOSE, REFERENCES, "en"), strict=True):
        assert row.first == pytest.approx(figure.score)
        assert row.first > row.second
        assert 0 < row.p_value < 0.05
        assert "|bs:200|" in row.signature
        assert "|seed:" in row.signature


def test_case_counts_or_not_as_asked() -> None:
    shouted = [text.upper() for text in CLOSE]
    assert compare(CLOSE, shouted, REFERENCES, "en", samples=50)[0].p_value < 0.05
    for row in compare(CLOSE, shouted, REFERENCES, "en", lowercase=True, samples=50):
        assert row.first == row.second
        assert row.p_value == 1.0
