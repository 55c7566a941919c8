"""Segmentation of a text before translation."""

from __future__ import annotations

from regard.guards.language_pair import find_language_pair
from regard.guards.segmenter import Part, PendingSegment, Segmenter, parts_of, split_translatable_sentences
from regard.guards.segments import Segment
from regard.text.sentences import split_long

ZH_EN = find_language_pair("zh", "en")


def segmenter(limit: int = 100) -> Segmenter:
    return Segmenter(ZH_EN, lambda text: split_long(text, lambda part: len(part) <= limit), lambda text: text)


def test_symbols_split_the_text() -> None:
    assert segmenter().segment("我爱你❤️ 你呢") == [
        PendingSegment([Part("我爱你")], space_before=False),
        Segment("❤️", verbatim=True),
        PendingSegment([Part("你呢")], space_before=True),
    ]


def test_other_entities_become_placeholders() -> None:
    [part] = parts_of(segmenter().segment("请访问https://x.org。"))
    assert part.source == "请访问波士顿。"
    assert part.original == "请访问https://x.org。"


def test_the_text_is_split_at_entities_that_a_placeholder_cannot_replace() -> None:
    """The limit would cut through the placeholder."""
    segments = segmenter(limit=2).segment("我https://x.org你")
    assert segments == [
        PendingSegment([Part("我")], space_before=False),
        Segment("https://x.org", verbatim=True),
        PendingSegment([Part("你")], space_before=False),
    ]


def test_marks_around_a_text_are_translated() -> None:
    opening, middle, closing = segmenter().segment("（你好）")
    assert (opening, closing) == (Segment("(", verbatim=True), Segment(")", verbatim=True))
    assert middle == PendingSegment([Part("你好")], space_before=False)


def test_texts_without_words_are_verbatim() -> None:
    assert segmenter().segment("123 😀") == [Segment("123 😀", verbatim=True)]
    assert segmenter().segment("") == []


def test_sentences_without_words_stay_with_their_neighbours() -> None:
    assert split_translatable_sentences("我爱你。…… 你呢？") == ["我爱你。……", "你呢？"]
    assert split_translatable_sentences("我爱你。你呢？") == ["我爱你。", "你呢？"]
