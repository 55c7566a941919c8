"""Reports of a beam search while it runs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import DecodeConfig
from regard.decode.search import search
from regard.inspect.answers import PartialTranslation
from regard.inspect.explorer import Explorer, Question
from regard.inspect.search_progress import SearchProgress, common_prefix_length
from regard.pipelines.model_translator import ModelTranslator

TEXT = "apple baby bird blue"


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_the_common_prefix(one: Sequence[int], other: Sequence[int]) -> None:
    same = common_prefix_length(one, other)
    assert one[:same] == other[:same]
    assert same in (len(one), len(other)) or one[same] != other[same]


@pytest.mark.parametrize("beam", [1, 4])
def test_the_reports_add_up_to_the_translation(reverse: ModelTranslator, beam: int) -> None:
    written: list[tuple[int, float]] = []
    lengths: list[int] = []

    def report(kept: int, added: list[tuple[int, float]]) -> None:
        written[kept:] = added
        lengths.append(len(written))

    sources = reverse.tokenizer.encode_src([TEXT])
    [[best]] = search(
        reverse.searcher, sources, DecodeConfig(beam=beam), reverse.device, observe=SearchProgress(report).observe
    )
    assert lengths[: len(best.ids)] == list(range(1, len(best.ids) + 1))
    beginning = written[: len(best.ids)]
    assert tuple(number for number, _ in beginning) == best.ids
    assert [log_prob for _, log_prob in beginning] == pytest.approx(best.token_log_probs[: len(best.ids)], abs=1e-5)


def test_progress_reports_do_not_change_the_result(reverse: ModelTranslator) -> None:
    explorer = Explorer(reverse)
    told: list[PartialTranslation] = []
    watched, plain = explorer.translate(Question(TEXT, {}), 4, told.append), explorer.translate(Question(TEXT, {}), 4)
    assert [one.text for one in watched.alternatives] == [one.text for one in plain.alternatives]
    # The search in Python and the one in C++ round the last digit of a sum differently.
    scores = [[one.score for one in found.alternatives] for found in (watched, plain)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    assert [token.piece for line in told[:4] for token in line.added] == ["▁blue", "▁bird", "▁baby", "▁apple"]


def test_a_progress_callback_can_stop_the_search(reverse: ModelTranslator) -> None:
    def enough(_: PartialTranslation) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        Explorer(reverse).translate(Question(TEXT, {}), 1, enough)
    assert reverse(TEXT) == "blue bird baby apple"
