"""The retries and fallbacks of the guards, step by step, with translations from a phrase book."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from regard.config import DecodeConfig, build
from regard.pipelines.guarded_translator import GuardedTranslator
from regard.pipelines.translation import Alternative
from regard.text.sentences import split_long

Say = Callable[[str, DecodeConfig], Sequence[str]]


class Phrasebook:
    """A translator that gives the answers of a function, best first, and records the requests."""

    def __init__(self, say: Say, src_lang: str = "zh", tgt_lang: str = "en", longest: int = 1000) -> None:
        self.say, self.longest = say, longest
        self.src_lang, self.tgt_lang = src_lang, tgt_lang
        self.asked: list[tuple[str, int]] = []  # the text, and how many answers were wanted

    def decode_config(self, options: dict[str, Any]) -> DecodeConfig:
        return build(DecodeConfig, options, "decode")

    def split(self, text: str) -> list[str]:
        return split_long(text, lambda part: len(part) <= self.longest)

    def encode_prefix(self, prefix: str, parts: list[list[str]]) -> list[list[int]] | None:
        return [[7] for group in parts for _ in group] if prefix else None

    def search(
        self,
        parts: Sequence[str],
        config: DecodeConfig,
        n_best: int = 1,
        prefixes: Sequence[Sequence[int]] | None = None,
        done: Callable[[Sequence[int]], None] = lambda indices: None,
    ) -> list[list[Alternative]]:
        self.asked += [(part, n_best) for part in parts]
        done(range(len(parts)))
        return [
            [Alternative(text, -float(at), -1.0, ("x",), (-1.0, 0.0), ((part, text),)) for at, text in enumerate(texts)]
            for part in parts
            for texts in [list(self.say(part, config))[:n_best]]
        ]


def answer(say: Say, text: str, src_lang: str = "zh", tgt_lang: str = "en", **options: Any) -> str:
    return GuardedTranslator(Phrasebook(say, src_lang, tgt_lang)).translate([text], **options)[0].text


def test_a_good_answer_is_given_at_once() -> None:
    book = Phrasebook(lambda text, how: ["I love you."])
    [found] = GuardedTranslator(book).translate(["我爱你。"])
    assert (found.text, found.note, found.src_lang, found.tgt_lang) == ("I love you.", "", "zh", "en")
    assert found.alternatives[0].parts == (("我爱你。", "I love you."),)
    assert book.asked == [("我爱你。", 1)]


@pytest.mark.parametrize("bad", ["", "我爱你。", "love love love love", '""""""', "爱 love"])
def test_the_next_alternative_is_taken(bad: str) -> None:
    assert answer(lambda text, how: [bad, bad, "I love you."], "我爱你。") == "I love you."


def test_a_search_without_repetitions_comes_next() -> None:
    def say(text: str, how: DecodeConfig) -> list[str]:
        return ["I love you."] if how.no_repeat_ngram else ["love " * 9] * 4

    assert answer(say, "我爱你。") == "I love you."


def test_a_translation_with_a_minor_problem_is_used_if_there_is_no_better_one() -> None:
    assert answer(lambda text, how: ["Tom is here.", "library"], "图书馆") == "library"
    assert answer(lambda text, how: ["Tom is here.", "Tom and Mary."], "图书馆") in ("Tom is here.", "Tom and Mary.")


def test_urls_and_code_are_restored() -> None:
    def say(text: str, how: DecodeConfig) -> list[str]:
        assert "http" not in text
        return [{"请访问波士顿。": "Please visit Boston.", "用波士顿发到澳大利亚": "Send Boston to Australia"}[text]]

    assert answer(say, "请访问https://x.org/a?b=1。") == "Please visit https://x.org/a?b=1."
    assert answer(say, "用`rm -rf`发到me@x.org") == "Send `rm -rf` to me@x.org"


def test_a_part_is_split_at_its_missing_entities() -> None:
    def say(text: str, how: DecodeConfig) -> list[str]:
        return [
            "Please look at it."
            if "波士顿" in text
            else {"请访问": "Please visit.", "你会喜欢的。": "You will like it."}[text]
        ]

    assert answer(say, "请访问https://x.org，你会喜欢的。") == "Please visit https://x.org, you will like it."


def test_the_placeholder_of_a_date_is_a_weekday() -> None:
    def say(text: str, how: DecodeConfig) -> list[str]:
        return ["He was born on Monday." if text == "他星期一出生。" else "He was born."]

    assert answer(say, "他1990年5月3日出生。") == "He was born on May 3, 1990."


def test_a_sentence_is_cut_into_clauses_before_it_is_cut_around_numbers() -> None:
    def say(text: str, how: DecodeConfig) -> list[str]:
        return [{"我去了2次": "I went 2 times.", "花了30元。": "It cost 30 yuan."}.get(text, "I went.")]

    assert answer(say, "我去了2次，花了30元。") == "I went 2 times, it cost 30 yuan."


def test_equal_parts_are_translated_once() -> None:
    book = Phrasebook(lambda text, how: ["I love you."])
    heard: list[int] = []
    found = GuardedTranslator(book).translate(["我爱你。我爱你。", "我爱你。"], done=heard.append)
    assert [one.text for one in found] == ["I love you. I love you.", "I love you."]
    assert book.asked == [("我爱你。", 1)]
    assert sum(heard) == 2


@pytest.mark.parametrize("sign", ["- ", "。- ", "# ", "> 1. "])
def test_any_number_of_markers_before_a_text(sign: str) -> None:
    assert answer(lambda text, how: ["Hello"], sign * 3000 + "你好").endswith("Hello")


@pytest.mark.parametrize(("text", "wrapped"), [("（你好）", "(Hello)"), ("「你好」", '"Hello"'), ("# 你好", "# Hello")])
def test_marks_around_a_text_never_reach_the_model(text: str, wrapped: str) -> None:
    assert answer(lambda text, how: [{"你好": "Hello"}[text]], text) == wrapped


def test_numbers_and_names_are_repaired() -> None:
    assert answer(lambda text, how: ["I have 36 cats."], "我有37只猫。") == "I have 37 cats."
    assert answer(lambda text, how: ["I like python."], "我喜欢Python。") == "I like Python."

    def forgetful(text: str, how: DecodeConfig) -> list[str]:
        return ["I like Boston." if text == "我喜欢波士顿。" else "I like it."]

    assert answer(forgetful, "我喜欢Python。") == "I like Python."


def test_symbols_never_reach_the_model() -> None:
    assert answer(lambda text, how: [{"我爱你": "I love you", "你呢": "and you"}[text]], "我爱你❤️ 你呢😀") == (
        "I love you ❤️ and you 😀"
    )


@pytest.mark.parametrize("text", ["123", "😀", "https://x.org", "!!!", "12:30 😀"])
def test_texts_without_words_are_returned_unchanged(text: str) -> None:
    book = Phrasebook(lambda text, how: ["wrong"])
    [found] = GuardedTranslator(book).translate([text])
    assert (found.text, found.tgt_lang, book.asked) == (text, "", [])


@pytest.mark.parametrize(
    ("say", "text"),
    [
        (lambda text, how: [], "我爱你，你爱我吗？"),
        (lambda text, how: [""] * 9, "我爱你，你爱我吗？"),
        (lambda text, how: [text] * 9, "我爱你，你爱我吗？"),
    ],
    ids=["no answer", "nothing", "copies"],
)
def test_a_text_without_a_usable_translation_is_returned_with_a_note(say: Say, text: str) -> None:
    [found] = GuardedTranslator(Phrasebook(say)).translate([text])
    assert found.text == "我爱你，你爱我吗？"
    assert "no translation found for '我爱你', which was left untranslated" in found.note


@pytest.mark.parametrize("loop", ["love " * 50, "a b " * 30, "no, " * 40, "!" * 200])
def test_a_model_that_only_loops(loop: str) -> None:
    text = answer(lambda text, how: [loop.strip()] * 9, "我爱你，你爱我吗？")
    assert 0 < len(text) < 20


def test_only_alternatives_without_problems_are_returned() -> None:
    book = Phrasebook(lambda text, how: ["one way", "", "another way", "a third way", "我爱你"])
    [found] = GuardedTranslator(book).translate(["我爱你"], n_best=3, beam=5)
    assert [one.text for one in found.alternatives] == ["one way", "another way"]


def test_a_translation_with_a_prefix_is_not_retried() -> None:
    book = Phrasebook(lambda text, how: ["x x x x x x x x"])
    [found] = GuardedTranslator(book).translate(["我爱你"], prefix="x")
    assert found.text == "x x x x x x x x"


def test_long_texts_are_split_and_joined() -> None:
    book = Phrasebook(lambda text, how: [f"Part {text[0]}."], longest=6)
    heard: list[int] = []
    found = GuardedTranslator(book).translate(["1说好。2说好。3说好。", "", "😀"], done=heard.append)
    assert [one.text for one in found] == ["Part 1. Part 2. Part 3.", "", "😀"]
    assert sum(heard) == 3


def test_sentences_are_translated_one_by_one() -> None:
    """A model trained on single sentences omits some of several."""
    said = {"我爱你。": "I love you.", "你呢？": "And you?", "好吧！……": "Well!"}
    book = Phrasebook(lambda text, how: [said[text]])
    [found] = GuardedTranslator(book).translate(["我爱你。你呢？ 好吧！……"])
    assert (found.text, [text for text, _ in book.asked]) == ("I love you. And you? Well!", list(said))
    back = {english: chinese for chinese, english in said.items()}
    asked = "I love you. And you? Well!"
    assert answer(lambda text, how: [back[text]], asked, "en", "zh") == "我爱你。你呢？好吧！……"
    assert answer(lambda text, how: ["史密斯先生付了3.5元。"], "Mr. Smith paid 3.5 yuan.", "en", "zh").count("3.5") == 1


def test_numbers_are_right_in_the_segment_fallback() -> None:
    assert answer(lambda text, how: ["I have 37 yuan."], "我有37万块钱。") == "I have 370,000 yuan."
    assert answer(lambda text, how: [{"我有": "I have", "块钱。": "yuan."}.get(text, "It.")], "我有37万块钱。") == (
        "I have 370,000 yuan."
    )
    assert answer(lambda text, how: ["It is."], "我用`5万`和5万。") == "It is `5万` It is 50,000."


@pytest.mark.parametrize("before", range(1, 9))
def test_no_placeholder_is_cut(before: int) -> None:
    """A text without punctuation is split between characters, but not inside a placeholder."""
    book = Phrasebook(lambda text, how: ["Boston!" if "波士顿" in text else "so"], longest=6)
    [found] = GuardedTranslator(book).translate(["我" * before + "https://x.org" + "你" * 3])
    assert found.text.count("https://x.org") == 1
    assert not any("波" in text and "波士顿" not in text for text, _ in book.asked)


def test_preprocessing_does_not_change_entities() -> None:
    book = Phrasebook(lambda text, how: ["Read Boston."])
    [found] = GuardedTranslator(book, lambda text: text.replace("讀", "读")).translate(["讀`讀`。"])
    assert (found.text, book.asked) == ("Read `讀`.", [("读波士顿。", 1)])
