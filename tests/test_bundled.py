"""The bundled models."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard import Translator
from regard.guards.checks import find_problems, is_severe
from regard.guards.language_pair import find_language_pair
from regard.model_folder.folder import PROBES, WEIGHTS, read_description
from regard.model_folder.registry import BUNDLED, describe, installed_models, model_folders
from regard.model_folder.weights import read_header
from regard.train.probes import read_history

MAX_BYTES = 20_000_000  # each


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Translator]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("share")))
        patch.delenv("REGARD_MODELS", raising=False)
        yield Translator()


def test_both_directions_are_installed() -> None:
    models = [model for model in installed_models() if model.bundled]
    assert {(model.src_lang, model.tgt_lang) for model in models} == {("zh", "en"), ("en", "zh")}


@pytest.mark.parametrize("folder", model_folders(BUNDLED), ids=lambda path: path.name)
def test_each_is_complete_and_small_and_has_a_card(folder: Path) -> None:
    read_description(folder)
    model = describe(folder, bundled=True)
    assert model.size <= MAX_BYTES
    assert {tensor.type for tensor in read_header(folder, WEIGHTS).tensors.values()} == {"BF16"}
    assert model.head.licence
    assert "bleu" in {name.lower() for name in model.head.scores}
    assert (folder / PROBES).stat().st_size < 3_000_000


@pytest.mark.parametrize("folder", model_folders(BUNDLED), ids=lambda path: path.name)
def test_the_attention_history_goes_from_random_weights_to_the_final_model(bundled: Translator, folder: Path) -> None:
    film = read_history(folder / PROBES)
    assert (film.snapshots[0].step, len(film.probes), len(film.snapshots)) == (0, 6, 16)
    for number, probe in enumerate(film.probes):
        first, last = film.snapshots[0].outputs[number], film.snapshots[-1].outputs[number]
        assert max(first.probabilities) < 0.1, "random weights know nothing"
        assert last.tgt[:-1] == bundled.load(folder).translate([probe.text], beam=1)[0].alternatives[0].tokens


def test_a_dozen_translations(bundled: Translator) -> None:
    wanted = {
        "我爱你": "I love you.",
        "你好": "Hello",
        "苹果": "apple",
        "我吃鱼。": "I eat fish.",
        "你能告诉我图书馆在哪里吗？": "Can you tell me where the library is?",
        "我不会说法语。": "I don't speak French.",
        "他昨天买了三本书。": "He bought three books yesterday.",
        "今天很冷。": "It's cold today.",
        "I love you.": "我爱你。",
        "hello": "你好",
        "Where is the library?": "图书馆在哪里？",
        "How much does this cost?": "这要多少钱？",
        "good morning": "早安",
        "I don't speak French.": "我不会说法语。",
        "What time is it?": "现在几点？",
    }
    assert dict(zip(wanted, bundled(list(wanted)), strict=True)) == wanted


@pytest.mark.parametrize("word", ["苹果", "图书馆", "你好", "星期三", "hello", "Wednesday", "apple", "library"])
def test_frequent_words_are_translated_without_problems(bundled: Translator, word: str) -> None:
    [found] = bundled.translate([word])
    assert find_problems(word, found.text, find_language_pair(found.src_lang, found.tgt_lang)) == []


@pytest.mark.parametrize(
    ("text", "entity"),
    [
        ("请访问 https://example.com/a?b=c 了解更多。", "https://example.com/a?b=c"),
        ("Write to me@example.org tomorrow.", "me@example.org"),
        ("用 `pip install regard` 安装。", "`pip install regard`"),
        ("我喜欢Python。", "Python"),
        ("我有37个苹果。", "37"),
        ("I was born in 1987.", "1987"),
        ("我爱你❤️", "❤️"),
    ],
)
def test_entities_are_copied(bundled: Translator, text: str, entity: str) -> None:
    assert entity in bundled(text)


def test_everyday_sentences_have_no_severe_problem(bundled: Translator) -> None:
    texts = ["我爱你。", "我愛你。", "今天天气很好，我们去公园吧！", "他说：“我很累。”", "哈哈哈哈！", "嗯"]
    texts += ["I love you.", "Where is the station?", "No, no, no!", '"Come in," she said.', "Hmm", "ok"]
    for found in bundled.translate(texts):
        pair = find_language_pair(found.src_lang, found.tgt_lang)
        assert not is_severe(find_problems(found.source, found.text, pair)), found
        assert not found.note


def test_the_examples_in_the_docstring() -> None:
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    [examples] = finder.find(Translator, "Translator")
    assert len(examples.examples) == 5
    assert runner.run(examples).failed == 0


def test_traditional_input(bundled: Translator) -> None:
    assert bundled("我愛你，後來去了圖書館。") == bundled("我爱你，后来去了图书馆。")


def test_very_long_words_are_not_translated(bundled: Translator) -> None:
    assert bundled("a" * 100_000) == "a" * 100_000
    assert bundled("哈" * 1000) == "哈" * 1000


def test_a_hundred_thousand_characters(bundled: Translator) -> None:
    text = "今天天气很好。" * 14_000
    assert len(bundled(text, beam=1, max_length_extra=5)) > 1000
