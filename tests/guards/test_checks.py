"""What is wrong with a translation, and what can be mended in it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.guards import checks

WORDS = st.lists(st.sampled_from(["a", "b", "cat", "我", "爱", "。", ",", '"', "“", "”", "3", "!", "…"]), max_size=40)


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("我爱你。", "I love you."),
        ("I love you.", "我爱你。"),
        ("我有3个苹果", "I have three apples."),
        ("10万人", "100,000 people"),
        ("5 million people", "五百万人"),
        ("2024年5月3日", "May 3, 2024"),
        ("Meet me at 3:30.", "三点半见。"),
        ("Call 0912345678 now", "马上打0912345678"),
        ("我喜欢Python。", "I like Python."),
        ("I like the 1990s.", "我喜欢90年代。"),
        ("他喜欢80年代的音乐。", "He likes the music of the eighties."),
        ("会议15:00开始。", "The meeting begins at 3 p.m."),
        ("12月25日", "Dec. 25"),
        ("他高180cm。", "He is 180 centimeters tall."),
        ("I am 100% sure.", "我百分之百肯定。"),
        ("1.5 million people", "150万人"),
        ("I use Python and Linux.", "我用Python和Linux。"),
        ("“好”怎么写？", 'How do you write "好"?'),
        ("哈哈哈哈", "Ha ha ha ha!"),
        ("不，不，不！", "No, no, no!"),
        ("他去了。他来了。他走了。", "He went. He came. He left."),
        ("等等……", "Wait..."),
        ("Wednesday", "星期三"),
        ("一石二鸟", "kill two birds with one stone"),
        ("汤姆爱玛丽。", "Tom loves Mary."),
        ("明天我们去吃西红柿。", "We will eat tomatoes tomorrow."),
        ("小结", "a summary"),
        ("一张20世纪30年代的照片", "A photograph of the 1930s"),
        ("It was built in the 1970's.", "它建于20世纪70年代。"),
        ("It costs $2.5m.", "它要250万美元。"),
        ("他有1000万美元。", "He has $10m."),
        ("有1亿2000万人。", "There are 120 million people."),
        ("有50万人。", "There are half a million people."),
        ("I HAVE NO IDEA, NASA!", "我不知道，NASA！"),
    ],
)
def test_good_translations_have_no_fault(source: str, translation: str) -> None:
    assert checks.faults(source, translation, chinese=checks._ANY_HAN.search(source) is not None) == []


@pytest.mark.parametrize(
    ("source", "translation", "fault"),
    [
        ("我爱你", "", "empty"),
        ("我爱你", " \u3000", "empty"),
        ("I love you.", "。", "empty"),
        ("I LOVE YOU SO MUCH.", "I LOVE YOU SO MUCH.", "copy"),
        ("我有37万块钱", "I have 37 yuan.", "lost"),
        ("谢谢", "thank you thank you thank you", "loop"),
        ("I see.", "我我我我", "loop"),
        ("好", "!" * 40, "loop"),
        ("他很忙", "he is a man, and he is a man, but he is a man", "loop"),
        ("我爱你。", "我爱你。", "copy"),
        ("I love you.", "I love you.", "copy"),
        ("hello", "hello", "copy"),
        ("我们去图书馆吧", "Let's go 图书馆 吧", "copy"),
        ("我有37个苹果", "I have some apples.", "lost"),
        ("我喜欢Python", "I like it.", "lost"),
        ("Call 0912345678", "打912345678", "lost"),
        ("图书馆", "Tom went to the library.", "invented"),
        ("hello", "汤姆说你好。", "invented"),
        ("图书馆", "He went to the library.", "sentence"),
        ("好", "It is good and then it goes on and on for ever", "babble"),
        ("The train leaves at 10:30.", "火车1点半出发。", "lost"),
        ("火车10点30分开。", "The train leaves at 1:30.", "lost"),
        ("3月5日", "December 5th", "lost"),
        ("I am twenty-five years old.", "我二十岁。", "lost"),
        ("我有一百二十三个苹果。", "I have three hundred apples.", "lost"),
        ("It is -5°C today.", "今天是5点。", "lost"),
        ("The price is $1,299.99.", "价格是1,299.99。", "lost"),
        ("NASA is big.", "非洲很大。", "lost"),
        ("On March 5, 2024.", "在3月2024日5年。", "lost"),
        ("I read.", "我读 Jea 书。", "invented"),
        ("I read.", "EOEEFOEMOOEHOEEFOEMOOEHOEEFOEM", "loop"),
    ],
)
def test_faults(source: str, translation: str, fault: checks.Fault) -> None:
    assert fault in checks.faults(source, translation, chinese=checks._ANY_HAN.search(source) is not None)


@given(WORDS, WORDS)
def test_a_loop_that_was_cut_is_none(source: list[str], translation: list[str]) -> None:
    given, written = " ".join(source), " ".join(translation)
    cut = checks.cut_loops(given, written)
    assert not checks.is_loop(given, cut)
    assert len(cut) <= len(written)
    assert bool(cut) == bool(written)
    if not checks.is_loop(given, written):
        assert cut == written


@given(WORDS, st.integers(1, 6), st.integers(3, 30))
def test_any_loop_is_seen(words: list[str], period: int, times: int) -> None:
    phrase = [f"w{number}" for number in range(period)]
    written = " ".join([*words, *phrase * times])
    assert checks.is_loop("我 爱", written)
    assert checks.cut_loops("我 爱", written).count("w0") <= 2


def test_a_name_that_is_kept_is_no_copy() -> None:
    assert not checks.is_copy("JavaScript", "JavaScript", chinese=False)


def test_copied_words_can_be_dropped() -> None:
    assert checks.drop_copied("我爱Python", "I 爱 Python 我", chinese=True) == "I Python"
    assert checks.drop_copied("I love Tom", "i 爱 love Tom", chinese=False) == "爱 Tom"


def letters(text: str) -> str:
    return re.sub(r"[\s\"“”]", "", text)


@given(WORDS, WORDS)
def test_quotation_marks(source: list[str], translation: list[str]) -> None:
    given, written = "".join(source), "".join(translation)
    mended = checks.mend_quotes(given, written)
    assert len(checks._unpaired(mended)) <= len(checks._unpaired(given))
    assert checks.mend_quotes(given, mended) == mended
    assert letters(mended) == letters(written)


def test_straight_marks_open_and_close_by_what_is_around_them() -> None:
    source = "她说：“是的。我爱你。”"
    assert checks.mend_quotes(source, 'She said: "Yes. "I love you.') == "She said: Yes. I love you."
    assert checks.mend_quotes(source, 'She said: "Yes." And: "No."') == 'She said: "Yes." And: "No."'


def test_a_clause_begins_with_a_small_letter() -> None:
    assert checks.in_mid_sentence("The dog") == "the dog"
    assert [checks.in_mid_sentence(text) for text in ("I am", "Theo is", "Tom is", "", "你好")] == [
        *("I am", "Theo is", "Tom is", "", "你好")
    ]


def test_an_explosion_of_quotation_marks() -> None:
    assert checks.mend_quotes("他说好。", 'He said """""""""""" good.') == "He said good."
    assert checks.mend_quotes("他说：“好。”", 'He said, "Good."') == 'He said, "Good."'
    assert checks.mend_quotes("他说好。", 'He said, "Good.') == "He said, Good."
    answer = "他说“好”，她说“不”。"
    assert checks.mend_quotes("He said 'yes' and she said 'no.'", answer) == answer
    assert checks.mend_quotes("He isn't here and she hasn't come.", answer) == "他说好，她说不。"


def test_many_quotation_marks_and_addresses_do_not_take_long() -> None:
    """Quadratic time over so much would not end."""
    text = '"a" https://x.org/a ' * 10_000
    assert checks.mend_quotes(text, text) == text
    assert '"' not in checks.mend_quotes("a", text)


@pytest.mark.parametrize(
    ("source", "wrong", "right"),
    [
        ("我有37个苹果", "I have 36 apples.", "I have 37 apples."),
        ("我有3只猫和2只狗。", "I have five cats and 20 dogs.", "I have 3 cats and 2 dogs."),
        ("There are 45 people.", "有四十个人。", "有45个人。"),
        ("我有3只猫", "I have three cats.", "I have three cats."),
        ("我有37个苹果", "I have apples.", "I have apples."),
        ("我有37万块钱", "I have 37,000 yuan.", "I have 370,000 yuan."),
        ("There are 370,000 people.", "有36万人。", "有370,000人。"),
        ("There are 5 million people.", "有五十万人。", "有5,000,000人。"),
        ("一张20世纪30年代的照片", "A 1930s photograph", "A 1930s photograph"),
        ("It costs $2.5m.", "它要250万美元。", "它要250万美元。"),
        ("The price is $1,299.99.", "价格是1,299.99。", "价格是$1,299.99。"),
        ("I am twenty-five years old.", "我二十岁。", "我25岁。"),
        ("我有一百二十三个苹果。", "I have three hundred apples.", "I have 123 apples."),
        ("The train leaves at 10:30.", "火车1点半出发。", "火车10点半出发。"),
        ("I ate 37 of them on Wednesday.", "我星期三吃了很多三明治。", "我星期三吃了很多三明治。"),
    ],
)
def test_numbers_are_put_right(source: str, wrong: str, right: str) -> None:
    assert checks.mend_numbers(source, wrong, chinese=not source.isascii()) == right


def test_names_have_their_case() -> None:
    assert checks.mend_names("我用iPhone和NASA", "I use iphone and Nasa.", chinese=True) == "I use iPhone and NASA."
    assert checks.mend_names("我用Go", "Let's go to Gotham", chinese=True) == "Let's Go to Gotham"
    fun = "I work in IT, and it is fun."
    assert checks.mend_names("我做IT，它有趣", fun, chinese=True) == fun
    assert checks.mend_names("My iPhone is on TV.", "我的iphone在tv上。", chinese=False) == "我的iPhone在tv上。"


@given(st.text(max_size=60), st.text(max_size=60), st.booleans())
def test_any_pair_can_be_judged_and_mended(source: str, translation: str, chinese: bool) -> None:
    checks.faults(source, translation, chinese)
    mended = checks.mend_quotes(source, checks.mend_numbers(source, translation, chinese))
    checks.mend_names(source, mended, chinese)
    assert not checks.is_loop(source, checks.cut_loops(source, translation))
