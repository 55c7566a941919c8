"""Sentence splitting, and splitting of long texts without loss."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.sentences import join_sentences, split_long, split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["Hello there.", "How are you?", "Fine!"],
        ["Dr. Smith met J. R. Jones at 3.30 p.m. on Monday.", "He paid $2.50 for No. 5."],
        ['"Stop!" he said.', '"Why?"', "Nobody knew."],
        ["He said no.", "Then he left.", "So do I.", "The cat sat."],
        ["1. First do this.", "2. Then that."],
        ["See e.g. Fig. 3 for it.", "It is clear."],
        ["Well... maybe not.", "Yes."],
        ["(It works.)", "Good."],
        ["Das kostet z.B. Hr. Meier viel.", "Ja."],
    ],
)
def test_latin(sentences: list[str]) -> None:
    text = join_sentences(sentences, "en")
    assert split_sentences(text) == sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["我爱你。", "你呢？", "真的！！"],
        ["他说：“走吧。”", "我们走了。"],
        ["我……我不知道。", "好吧。"],
        ["他慢慢地走了……", "然后又回来了。"],
        ["（好的。）", "圆周率是3.14。", "对。"],
    ],
)
def test_chinese(sentences: list[str]) -> None:
    text = join_sentences(sentences, "zh-CN")
    assert text == "".join(sentences)
    assert split_sentences(text) == sentences


def test_edges() -> None:
    assert split_sentences("") == []
    assert split_sentences(" \n ") == []
    assert split_sentences("no end") == ["no end"]
    assert split_sentences("A title\n\nA paragraph\nof two lines.") == ["A title", "A paragraph\nof two lines."]
    assert join_sentences([], "en") == ""
    assert join_sentences(["a", "", "b"], "de") == "a b"
    assert join_sentences(["他叫Tom", "Tom是谁？", "OK"], "zh") == "他叫Tom Tom是谁？OK"
    assert join_sentences(["...", "42个"], "zh") == "... 42个"


TEXTS = st.text(st.one_of(st.characters(), st.sampled_from(" .!?。，, …”\n1ab我")), max_size=200)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(0, 40))
def test_nothing_visible_is_lost(text: str, limit: int) -> None:
    visible = "".join(text.split())
    assert "".join("".join(split_sentences(text)).split()) == visible
    pieces = split_long(text, lambda piece: len(piece) <= limit)
    assert "".join("".join(pieces).split()) == visible
    assert all(piece and piece == piece.strip() for piece in pieces)
    assert all(len(piece) <= max(1, limit) for piece in pieces)


def test_long_texts_are_split_at_the_best_positions() -> None:
    text = "One two. Three four. Five six, seven eight nine, ten. Incomprehensibilities."
    assert split_long(text, lambda piece: len(piece) <= 20) == [
        "One two. Three four.",
        "Five six,",
        "seven eight nine,",
        "ten.",
        "Incomprehensibilitie",
        "s.",
    ]
    assert split_long("一二，三四，五六。", lambda piece: len(piece) <= 6) == ["一二，三四，", "五六。"]
    assert split_long("a b c d", lambda piece: len(piece) <= 3) == ["a b", "c d"]
    assert split_long(text, lambda piece: True) == [text]
    assert split_long("  ", lambda piece: False) == []


@pytest.mark.parametrize("unit", ["x", "word ", "Go on. ", "好。", "a, ", ".", "\n", "… ", '."', "1. ", " ."])
@pytest.mark.parametrize("limit", [0, 100])
def test_a_hundred_thousand_characters_need_few_calls(unit: str, limit: int) -> None:
    text = unit * (100_000 // len(unit))
    asked = 0

    def fits(piece: str) -> bool:
        nonlocal asked
        asked += len(piece) + 1
        return len(piece) <= limit

    pieces = split_long(text, fits)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert asked < 60 * len(text)
