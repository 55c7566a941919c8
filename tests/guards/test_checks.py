"""All checks and repairs together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.guards.checks import Problem, find_problems, repair
from regard.guards.language_pair import LanguagePair, find_language_pair
from regard.guards.loops import has_loop, remove_loops
from regard.text.scripts import has_han

ZH_EN, EN_ZH = find_language_pair("zh", "en"), find_language_pair("en", "zh")


def pair_of(source: str) -> LanguagePair:
    return ZH_EN if has_han(source) else EN_ZH


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
def test_good_translations_have_no_problem(source: str, translation: str) -> None:
    assert find_problems(source, translation, pair_of(source)) == []


@pytest.mark.parametrize(
    ("source", "translation", "problem"),
    [
        ("我爱你", "", "empty"),
        ("我爱你", " \u3000", "empty"),
        ("I love you.", "。", "empty"),
        ("I LOVE YOU SO MUCH.", "I LOVE YOU SO MUCH.", "copy"),
        ("我有37万块钱", "I have 37 yuan.", "missing entity"),
        ("谢谢", "thank you thank you thank you", "loop"),
        ("I see.", "我我我我", "loop"),
        ("好", "!" * 40, "loop"),
        ("他很忙", "he is a man, and he is a man, but he is a man", "loop"),
        ("我爱你。", "我爱你。", "copy"),
        ("I love you.", "I love you.", "copy"),
        ("hello", "hello", "copy"),
        ("我们去图书馆吧", "Let's go 图书馆 吧", "copy"),
        ("我有37个苹果", "I have some apples.", "missing entity"),
        ("我喜欢Python", "I like it.", "missing entity"),
        ("Call 0912345678", "打912345678", "missing entity"),
        ("图书馆", "Tom went to the library.", "hallucinated name"),
        ("hello", "汤姆说你好。", "hallucinated name"),
        ("图书馆", "He went to the library.", "sentence for a word"),
        ("好", "It is good and then it goes on and on for ever", "too long"),
        ("The train leaves at 10:30.", "火车1点半出发。", "missing entity"),
        ("火车10点30分开。", "The train leaves at 1:30.", "missing entity"),
        ("3月5日", "December 5th", "missing entity"),
        ("I am twenty-five years old.", "我二十岁。", "missing entity"),
        ("我有一百二十三个苹果。", "I have three hundred apples.", "missing entity"),
        ("It is -5°C today.", "今天是5点。", "missing entity"),
        ("The price is $1,299.99.", "价格是1,299.99。", "missing entity"),
        ("NASA is big.", "非洲很大。", "missing entity"),
        ("On March 5, 2024.", "在3月2024日5年。", "missing entity"),
        ("I read.", "我读 Jea 书。", "hallucinated name"),
        ("4到5英里", "4 miles 5 miles", "changed number"),
        ("我看书", "I read 20 books.", "changed number"),
        ("我不去。", "I will go.", "changed negation"),
        ("I read.", "EOEEFOEMOOEHOEEFOEMOOEHOEEFOEM", "loop"),
    ],
)
def test_problems(source: str, translation: str, problem: Problem) -> None:
    assert problem in find_problems(source, translation, pair_of(source))


@given(st.text(max_size=60), st.text(max_size=60), st.sampled_from([ZH_EN, EN_ZH, find_language_pair("en", "de")]))
def test_any_translation_can_be_checked_and_repaired(source: str, translation: str, pair: LanguagePair) -> None:
    find_problems(source, translation, pair)
    repair(source, translation, pair)
    assert not has_loop(source, remove_loops(source, translation))
