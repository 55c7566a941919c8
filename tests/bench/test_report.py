"""Ratios, tables and the order of turns: what the figures of every benchmark go through."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

Script = Callable[[str], ModuleType]


def test_ratios_say_how_many_times_better(script: Script) -> None:
    report = script("report")
    speed = report.Comparison("train", "tokens/s", {"peer": [10.0, 20.0, 12.0], "regard": [36.0, 30.0, 40.0]}, "peer")
    assert speed.medians == {"peer": 12.0, "regard": 36.0}
    assert speed.ratios == {"peer": 1.0, "regard": 3.0}
    memory = report.Comparison("memory", "MiB", {"peer": [300.0], "regard": [100.0]}, "peer", less_is_better=True)
    assert memory.ratios == {"peer": 1.0, "regard": 3.0}


def test_the_table_sets_our_best_beside_the_best_peer(script: Script) -> None:
    report = script("report")
    figures = {"slow": [1.0], "fast": [4.0], "regard a": [6.0], "regard b": [8.0]}
    comparison = report.Comparison("decode", "tokens/s", figures, "slow")
    assert (comparison.best(ours=True), comparison.best(ours=False)) == ("regard b", "fast")
    lines = report.table(comparison).splitlines()
    assert [line.endswith("2.00 to fast") for line in lines[-4:]] == [False, False, False, True]
    assert report.summary([comparison]).splitlines()[1].split()[-7:] == ["8", "4", "2.00", "regard", "b", "/", "fast"]


def test_a_comparison_without_ours_is_not_in_the_summary(script: Script) -> None:
    report = script("report")
    product = report.Comparison("product", "GFLOP/s", {"float32": [1.0], "bf16": [2.0]}, "float32")
    assert product.best(ours=True) is None
    assert len(report.summary([product]).splitlines()) == 1


def test_systems_take_turns_after_one_to_warm_up(script: Script) -> None:
    order: list[str] = []
    works = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    seconds = script("interleaved").seconds_in_turn(works, repeats=2)
    assert order == ["a", "b"] * 3
    assert {name: len(values) for name, values in seconds.items()} == {"a": 2, "b": 2}
    assert all(value > 0 for values in seconds.values() for value in values)


def test_rates_count_what_each_turn_did(script: Script) -> None:
    interleaved = script("interleaved")
    amounts = iter([1.0, 1.0, 1e6])  # the first is the warm-up's
    slow, fast = interleaved.rates_in_turn({"work": lambda: next(amounts)}, repeats=2)["work"]
    assert fast > slow


def test_useful_operations_of_one_pair(script: Script) -> None:
    """Counted by hand for one layer each, d 4, d_ff 8, vocabulary 10: a source of 3 tokens, a target of 2."""
    from regard.config import TransformerConfig
    from regard.data.batches import collate

    sizes = {"d_model": 4, "n_heads": 2, "d_ff": 8, "n_encoder_layers": 1, "n_decoder_layers": 1}
    config = TransformerConfig(**sizes, src_vocab_size=10, tgt_vocab_size=10)
    batch = collate([[5, 6]], [[7]])  # and the ends of both sentences
    encoder, keys_and_values = 4 * 16 + 2 * 32, 2 * 16
    decoder, output = 4 * 16 + 2 * 16 + 2 * 32, 40
    scores_and_sums = 2 * 4 * (3 * 3 + (1 + 2) + 2 * 3)
    expected = 6 * (3 * (encoder + keys_and_values) + 2 * (decoder + output) + scores_and_sums)
    assert script("train").useful_operations(config, batch) == pytest.approx(expected)
