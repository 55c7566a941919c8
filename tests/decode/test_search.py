from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import DecodeConfig
from regard.decode.beam import beam_search
from regard.decode.cancellable import Cancellable
from regard.decode.engine_control import SearchCancelled, SearchControl
from regard.decode.hypotheses import length_penalty_divisor
from regard.decode.search import pad_sources, search
from regard.errors import ConfigError
from regard.tokenizers.special_ids import EOS, PAD

CPU = torch.device("cpu")
SOURCES = st.lists(st.lists(st.integers(EOS + 1, 11), max_size=6), max_size=7)
METHODS = st.sampled_from([{"beam": 1}, {"beam": 3}, {"method": "sample"}, {"method": "sample", "top_k": 4}])


def table(bench: Any, seed: int = 1, longest: int | None = None, **options: Any) -> Any:
    model = bench.model(seed, 12, **options)
    model.longest_target = longest
    return model


def test_sources_end_and_are_padded_on_the_right() -> None:
    assert pad_sources([[5, 6], [], [7]], CPU).tolist() == [[5, 6, EOS], [EOS, PAD, PAD], [7, EOS, PAD]]


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 999), sources=SOURCES, method=METHODS, batch_tokens=st.integers(1, 30))
def test_batches_change_nothing_and_order_is_kept(
    bench: Any, seed: int, sources: list[list[int]], method: dict[str, Any], batch_tokens: int
) -> None:
    model = table(bench, seed)
    how = DecodeConfig(**method, max_length_extra=5, batch_tokens=10_000)
    whole = search(model, sources, how, CPU)
    small = search(model, sources, DecodeConfig(**method, max_length_extra=5, batch_tokens=batch_tokens), CPU)
    assert [[one.ids for one in found] for found in small] == [[one.ids for one in found] for found in whole]
    assert len(whole) == len(sources)


def test_it_is_beam_search_with_the_settings(bench: Any) -> None:
    model, sources = table(bench), [[5, 6, 7], [8]]
    how = DecodeConfig(beam=3, length_penalty=1.5, max_length_ratio=2.0, max_length_extra=1, no_repeat_ngram=2)
    wanted = [
        beam_search(
            model,
            bench.pad([source]),
            beam=3,
            length_penalty=1.5,
            max_lengths=[2 * len(source) + 1],
            n_best=2,
            no_repeat_ngram=2,
        )[0]
        for source in sources
    ]
    assert search(model, sources, how, CPU, n_best=2) == wanted


def test_no_output_is_longer_than_its_source_allows(bench: Any) -> None:
    model = table(bench, end=-100.0)  # never ends by itself
    how = DecodeConfig(beam=2, max_length_ratio=1.5, max_length_extra=2)
    found = search(model, [[5] * length for length in (0, 1, 4)], how, CPU)
    assert [len(best[0].ids) for best in found] == [2, 3, 8]
    assert not any(best[0].finished for best in found)


def test_a_forced_prefix_does_not_count_towards_the_maximum_length(bench: Any) -> None:
    model = table(bench, end=-100.0)
    how = DecodeConfig(beam=2, max_length_ratio=1.0, max_length_extra=2)
    found = search(model, [[5, 6], [7]], how, CPU, prefixes=[[9, 9, 10], []])
    assert [len(best[0].ids) for best in found] == [2 + 2 + 3, 1 + 2]
    assert found[0][0].ids[:3] == (9, 9, 10)


def test_the_model_s_own_limit_comes_first(bench: Any) -> None:
    model = table(bench, longest=4, end=-100.0)
    [[one]] = search(model, [[5] * 6], DecodeConfig(beam=1), CPU)
    assert len(one.ids) == 4
    with pytest.raises(ConfigError, match="leaves no room"):
        search(model, [[5]], DecodeConfig(beam=1), CPU, prefixes=[[6, 7, 8, 9]])


def test_progress_names_every_source_once(bench: Any) -> None:
    heard: list[int] = []
    sources = [[5] * length for length in (3, 0, 6, 1, 1)]
    search(table(bench), sources, DecodeConfig(batch_tokens=6), CPU, done=heard.extend)
    assert sorted(heard) == [0, 1, 2, 3, 4]


def test_samples_of_equal_sources_differ(bench: Any) -> None:
    how = DecodeConfig(method="sample", max_length_extra=8)
    found = search(table(bench), [[5, 6]] * 6, how, CPU)
    assert len({best[0].ids for best in found}) > 3
    assert search(table(bench), [[5, 6]] * 6, how, CPU) == found


def test_a_model_that_can_be_cancelled_is_otherwise_the_model(bench: Any) -> None:
    model, control = table(bench, longest=9), SearchControl()
    wrapped = Cancellable(model, control)
    src_BM, tgt_BL = bench.pad([[5, 6], [7]]), torch.tensor([[1, 5], [1, 8]])
    assert wrapped.longest_target == 9
    torch.testing.assert_close(wrapped(src_BM, tgt_BL), model(src_BM, tgt_BL), rtol=0, atol=0)
    control.cancel()
    with pytest.raises(SearchCancelled):
        wrapped.begin(src_BM, 3)


def test_unknown_methods_and_rules_are_refused(bench: Any) -> None:
    how = DecodeConfig()
    object.__setattr__(how, "method", "diverse")  # past the check of the settings
    with pytest.raises(AssertionError, match="'diverse'"):
        search(table(bench), [[5]], how, CPU)
    with pytest.raises(AssertionError, match="'none'"):
        length_penalty_divisor(3, 0.6, "none")  # type: ignore[arg-type]
