from __future__ import annotations

import numpy as np
import pytest

from regard.inspect.alignment import word_alignment, word_numbers, words


def test_each_target_piece_goes_with_what_it_looks_at_most() -> None:
    weights = np.array([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
    assert word_alignment(weights, ["▁a", "▁b", "▁c"], ["▁x", "▁y", "▁z"]) == [(0, 1), (1, 0), (2, 2)]


def test_the_end_of_the_sentence_is_no_word() -> None:
    # Both rows look most at the last column, which is the end of the source; the last row is that of the target.
    weights = np.array([[0.1, 0.3, 0.6], [0.2, 0.1, 0.7], [0.9, 0.05, 0.05]])
    assert word_alignment(weights, ["▁a", "▁b"], ["▁x", "▁y"]) == [(0, 1), (1, 0)]


def test_pieces_of_a_word_are_one_word_and_links_are_not_repeated() -> None:
    weights = np.eye(4)[[2, 3, 0, 1]]
    assert word_alignment(weights, ["▁dan", "ce", "▁ap", "ple"], ["▁Ap", "fel", "▁tan", "zt"]) == [(0, 1), (1, 0)]


def test_nothing_aligns_with_nothing() -> None:
    assert word_alignment(np.ones((1, 1)), [], []) == []
    assert word_alignment(np.ones((2, 1)), [], ["▁a"]) == []
    assert word_alignment(np.ones((1, 2)), ["▁a"], []) == []


@pytest.mark.parametrize(
    ("pieces", "numbers", "found"),
    [
        ([], [], []),
        (["▁two", "▁do", "gs", "."], [0, 1, 1, 1], ["two", "dogs."]),
        (["two", "▁dogs"], [0, 1], ["two", "dogs"]),
        (["▁我", "爱", "你", "。"], [0, 1, 2, 3], ["我", "爱", "你", "。"]),
        (["▁", "我们", "爱"], [0, 0, 1], ["我们", "爱"]),
        (["▁", "▁", "dog"], [0, 0, 0], ["dog"]),
        (["▁我", "love", "▁you"], [0, 1, 2], ["我", "love", "you"]),
        (["▁a", "愛", "b", "c"], [0, 1, 2, 2], ["a", "愛", "bc"]),
        (["▁ひら", "カタ"], [0, 1], ["ひら", "カタ"]),
        (["▁ฉัน", "รัก"], [0, 1], ["ฉัน", "รัก"]),
        (["▁사랑", "해요", "▁너"], [0, 0, 1], ["사랑해요", "너"]),
        (["▁", "<0xF0>", "<0x9F>", "<0xA4>", "<0x96>", "▁ok"], [0, 0, 0, 0, 0, 1], ["🤖", "ok"]),
        (["▁我", "<0xE9>", "<0xBE>", "<0x98>", "爱"], [0, 1, 1, 1, 2], ["我", "龘", "爱"]),
        (["▁a", "<0xFF>"], [0, 0], ["a\ufffd"]),
        (["▁a", "▁"], [0, 1], ["a", ""]),
    ],
)
def test_where_words_begin(pieces: list[str], numbers: list[int], found: list[str]) -> None:
    assert word_numbers(pieces) == numbers
    assert words(pieces) == found
