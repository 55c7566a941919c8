"""Against sacreBLEU's own top-level functions, which `measure` does not call."""

from __future__ import annotations

import pytest
import sacrebleu

from regard.errors import DataError
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
    assert chrf.score == pytest.approx(sacrebleu.CHRF(lowercase=lowercase).corpus_score(outputs, [REFERENCES]).score)
    assert f"|case:{'lc' if lowercase else 'mixed'}|" in bleu.signature
    assert bleu.signature.startswith("nrefs:1|")
    assert f"version:{sacrebleu.__version__}" in bleu.signature
    assert f"version:{sacrebleu.__version__}" in chrf.signature


@pytest.mark.parametrize(
    ("lang", "tokenize"),
    [("zh", "zh"), ("zh-CN", "zh"), ("zh_TW", "zh"), ("ZH", "zh"), ("ja", "char"), ("en", "13a"), ("", "13a")],
)
def test_words_are_those_of_the_target_language(lang: str, tokenize: str) -> None:
    bleu = measure(CHINESE, CHINESE[::-1], lang)[0]
    assert f"|tok:{tokenize}|" in bleu.signature
    assert bleu.score == pytest.approx(sacrebleu.corpus_bleu(CHINESE, [CHINESE[::-1]], tokenize=tokenize).score)


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
