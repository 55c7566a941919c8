"""Every reason for leaving a pair out, and the account of it."""

import pytest

from regard.config import FilterConfig
from regard.data.filters import FilterReport, filter_reason

FILTERS = FilterConfig(max_tokens=30, max_ratio=2.0)


@pytest.mark.parametrize(
    ("src", "tgt", "src_length", "tgt_length", "expected"),
    [
        ("a", "b", 30, 15, "kept"),
        ("a", "b", 31, 31, "too_long"),
        ("a", "b", 14, 30, "lopsided"),
        ("a", "b", 1, 10, "kept"),
        ("a", "b", 1, 11, "lopsided"),
        ("a", "", 1, 0, "empty"),
        ("", "", 0, 0, "empty"),
        ("a", "a", 1, 1, "identical"),
    ],
)
def test_filter_reasons(src: str, tgt: str, src_length: int, tgt_length: int, expected: str) -> None:
    assert filter_reason(src, tgt, range(src_length), range(tgt_length), FILTERS) == expected


def test_identical_pairs_may_be_kept() -> None:
    assert filter_reason("a", "a", [4], [4], FilterConfig(drop_identical=False)) == "kept"


def test_report() -> None:
    report = FilterReport("corpus")
    for what in ("kept", "kept", "empty", "too_long", "lopsided", "identical"):
        report.count(what)
    assert report.counts() == {"read": 6, "kept": 2, "empty": 1, "identical": 1, "too_long": 1, "lopsided": 1}
    assert str(report) == (
        "corpus: 2 of 6 pairs kept (left out: 1 empty, 1 source = target, 1 too long, 1 lengths too different)"
    )
    assert str(FilterReport("clean", read=3, kept=3)) == "clean: 3 of 3 pairs kept"
