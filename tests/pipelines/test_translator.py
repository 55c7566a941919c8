"""`Translator`: what holds for any installed model."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard import Translator
from regard.errors import ConfigError
from regard.guards.copies import is_copy
from regard.guards.english import ENGLISH
from regard.guards.entities import find_entities, protected
from regard.guards.language_pair import find_language_pair
from regard.guards.loops import has_loop
from regard.guards.missing import missing_entities
from regard.guards.quotes import repair_quotes
from regard.pipelines.model_translator import ModelTranslator
from regard.pipelines.translation import Alternative, Translation
from regard.text.literals import has_only_literals
from regard.text.normalise import normalise
from regard.text.scripts import has_han
from regard.text.sentences import split_sentences
from regard.text.spans import remove_spans

LINES = ["我爱你。", "I love you.", "Привет, мир", "½", "", "123", "こんにちは、元気ですか", "a", "他说 hi"]
SHORT = {"beam": 1, "max_length_ratio": 1.0, "max_length_extra": 12}


@pytest.fixture(scope="module")
def both_ways(registry_of_babble: Path) -> Translator:
    """Models with random weights, loaded once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_MODELS", str(registry_of_babble))
        return Translator()


def test_preprocessing_capitalises_phrases_but_not_words(both_ways: Translator) -> None:
    english, chinese = both_ways.translator_for("good"), both_ways.translator_for("你好")
    read = [both_ways.preprocess(english, text) for text in ("good morning", "good", "", "¡hola amigo")]
    assert read == ["Good morning", "good", "", "¡hola amigo"]
    assert both_ways.preprocess(chinese, "a 後") == "a 后"


def test_a_folder_is_one_model(reverse_model: Path, reverse: ModelTranslator) -> None:
    translator = Translator(reverse_model)
    assert translator("apple baby bird") == "bird baby apple"
    assert translator(["apple baby", "boat blue"]) == ["baby apple", "blue boat"]
    assert translator.translate(["apple baby"], n_best=2) == reverse.translate(["apple baby"], n_best=2)
    assert translator.score(["apple baby"], ["baby apple"]) == reverse.score(["apple baby"], ["baby apple"])
    assert translator.align("apple baby") == reverse.align("apple baby")
    assert translator.trace("apple baby").tgt_tokens == reverse.trace("apple baby").tgt_tokens
    with pytest.raises(ConfigError, match="takes a list"):
        translator.translate("apple")
    for way in (translator, reverse):
        for sources, translations in (("apple", ["baby"]), (["apple"], "b"), ("apple", "grape")):
            with pytest.raises(ConfigError, match="takes a list of sources and a list of translations"):
                way.score(sources, translations)
        for texts in ([], [""], ["apple"]):
            with pytest.raises(ConfigError, match="n_best = 0 is too small; the minimum is 1"):
                way.translate(texts, n_best=0)
    with pytest.raises(ConfigError, match="translates from en to reversed, not to de"):
        Translator(reverse_model, to="de")


@pytest.mark.usefixtures("babble")
def test_an_unknown_precision_is_refused(reverse_model: Path) -> None:
    words = "precision = 'float64' is not possible; it may be one of 'auto', 'float32', 'bfloat16', 'int8'"
    for build in (ModelTranslator, Translator):
        with pytest.raises(ConfigError, match=words):
            build(reverse_model, precision="float64")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=words):
        Translator(precision="float64")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="n_best = 0 is too small"):
        Translator().translate([], n_best=0)


@pytest.mark.usefixtures("nothing_installed")
def test_nothing_is_installed() -> None:
    with pytest.raises(ConfigError, match=r"no model is installed: give a model folder .* regard train and"):
        Translator()
    with pytest.raises(ConfigError, match="no model is installed for any language → zh"):
        Translator(to="zh")


def test_each_text_is_routed_by_its_language(babble: Path) -> None:
    translator = Translator()
    found = translator.translate(["我爱你。", "I love you.", "", "图书馆", "https://x.org/a"])
    assert [(one.src_lang, one.tgt_lang) for one in found] == [
        ("zh", "en"),
        ("en", "zh"),
        ("", ""),
        ("zh", "en"),
        ("", ""),
    ]
    assert [found[2].text, found[4].text] == ["", "https://x.org/a"]
    assert translator("我爱你。") == found[0].text
    assert translator(["I love you."]) == [found[1].text]


def test_a_model_is_loaded_when_a_text_needs_it(babble: Path) -> None:
    translator = Translator()
    assert translator.loaded == {}
    assert translator("123 😀") == "123 😀"
    assert translator.loaded == {}
    translator("我爱你。")
    assert list(translator.loaded) == [babble / "zh-en"]


def test_source_and_target_language(babble: Path) -> None:
    [found] = Translator(to="zh").translate(["hello"])
    assert (found.src_lang, found.tgt_lang) == ("en", "zh")
    [found] = Translator(source="zh").translate(["Tom"])
    assert (found.src_lang, found.tgt_lang) == ("zh", "en")
    assert Translator("zh-en").translator_for().folder == babble / "zh-en"  # by its name
    for languages in ({"to": "de"}, {"source": "de"}, {"source": "zh", "to": "zh"}):
        with pytest.raises(ConfigError, match=r"no model is installed for .* \(there is .*zh → en"):
            Translator(**languages)


def test_texts_without_a_model_are_not_translated_and_have_a_note(babble: Path) -> None:
    translator = Translator()
    first, second, third = translator.translate(["Привет, мир", "こんにちは、元気ですか", "hello"])
    assert (first.text, second.text) == ("Привет, мир", "こんにちは、元気ですか")
    assert first.note == "not translated: the text is in Cyrillic script, for which no model is installed"
    assert "the text is in kana script (ja)" in second.note
    assert not third.note
    assert (first.failed, second.failed, third.failed) == (True, True, False)
    [already] = Translator(to="zh").translate(["你好"])
    assert (already.text, already.note, already.failed) == ("你好", "not translated: the text is already in zh", False)


def test_a_failure_of_a_call_is_logged(babble: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert Translator()("Привет, мир") == "Привет, мир"
    assert [record.getMessage() for record in caplog.records] == [
        "'Привет, мир': not translated: the text is in Cyrillic script, for which no model is installed"
    ]


@pytest.mark.parametrize("text", ["½", "Ⅳ", "10³", "٣", "3‰", "....", "№ 7"])
def test_what_has_no_letters_is_its_own_translation(babble: Path, text: str) -> None:
    for source in (None, "zh"):
        [found] = Translator(source=source).translate([text])
        assert (found.text, found.note, found.failed) == (normalise(text), "", False)


@settings(max_examples=25)
@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=6), st.data())
def test_a_text_has_one_translation_whatever_the_others_are(
    both_ways: Translator, texts: list[str], data: st.DataObject
) -> None:
    def translate(some: list[str]) -> list[tuple[str, str, bool]]:
        return [(one.text, one.note, one.failed) for one in both_ways.translate(some, **SHORT)]

    cut = data.draw(st.integers(0, len(texts)))
    alone = [found for text in texts for found in translate([text])]
    assert translate(texts) == translate(texts[:cut]) + translate(texts[cut:]) == alone


def test_settings_are_checked_also_where_nothing_needs_a_model(babble: Path) -> None:
    for texts in ([], [""], ["123"], ["hello"]):
        with pytest.raises(ConfigError, match="beam = 0"):
            Translator().translate(texts, beam=0)


def test_a_source_without_letters_is_scored_by_the_model_of_the_others(babble: Path) -> None:
    translator = Translator()
    way = translator.translator_for("hello")
    sources, translations = ["", "hello", "123"], ["", "你好", "123"]
    assert translator.score(sources, translations) == way.score(sources, translations)
    with pytest.raises(ConfigError, match=r"the text is in Cyrillic script.*name a model folder"):
        translator.score(["hello", "Привет"], ["你好", "你好"])


def test_traditional_characters(both_ways: Translator, babble: Path) -> None:
    assert both_ways("我愛讀書。") == both_ways("我爱读书。")
    traced = both_ways.trace("我愛讀書。")
    assert traced.src_tokens == both_ways.trace("我爱读书。").src_tokens
    simplified = Translator(to="zh").translate(["I have three apples."])[0]
    traditional = Translator(to="zh", script="traditional").translate(["I have three apples."])[0]
    assert traditional.alternatives[0].tokens == simplified.alternatives[0].tokens


def test_installed_models_write_simplified_characters_unless_asked(babble: Path) -> None:
    plain, wanted = Translator(to="zh"), Translator(to="zh", script="traditional")
    answer = Translation("", (Alternative("读書 `读書`", 0.0, 0.0, (), ()),), "en", "zh")
    assert plain.postprocess(answer).text == "读书 `读書`"
    assert wanted.postprocess(answer).text == "讀書 `读書`"
    assert Translator(babble / "en-zh").postprocess(answer) == answer
    for folder in (None, babble / "en-zh"):
        assert Translator(folder, to="zh_tw").postprocess(answer).text == "讀書 `读書`"
        assert Translator(folder, to="zh-Hant", script="simplified").postprocess(answer).text == "读书 `读書`"
    assert plain.postprocess(dataclasses.replace(answer, tgt_lang="ja")).text == answer.text


def test_scores_traces_and_alignments_in_both_directions(both_ways: Translator) -> None:
    sources, translations = ["I love you.", "我爱你。", "hello"], ["我爱你。", "I love you.", "苹果"]
    scored = both_ways.score(sources, translations)
    assert [one.text for one in scored] == translations
    for source, translation, one in zip(sources, translations, scored, strict=True):
        [alone] = both_ways.translator_for(source).score([source], [translation])
        assert (one.tokens, one.parts) == (alone.tokens, alone.parts)
        assert one.token_log_probs == pytest.approx(alone.token_log_probs, abs=1e-4)
    assert both_ways.trace("我爱你。", "I love you.").values
    assert all(link.src_word for link in both_ways.align("我爱你。"))
    with pytest.raises(ConfigError, match="needs one translation per source"):
        both_ways.score(["a"], [])


def test_progress_is_counted_in_texts(both_ways: Translator) -> None:
    heard: list[int] = []
    both_ways.translate(["我爱你。", "hello", "", "😀", "hello there " * 200, "Привет"], done=heard.append, **SHORT)
    assert sum(heard) == 6


def test_without_guards(babble: Path) -> None:
    way = ModelTranslator(babble / "zh-en")
    [bare] = Translator(guards=False).translate(["我爱你 https://x.org"], **SHORT)
    assert bare.alternatives == way.translate(["我爱你 https://x.org"], **SHORT)[0].alternatives


# Pieces of text that users may type.
PIECES = st.sampled_from(
    [
        *(
            "我",
            "爱",
            "你",
            "图书馆",
            "苹果",
            "。",
            "，",
            "！",
            "“",
            "”",
            " hello ",
            " I ",
            " love ",
            " the ",
            " library ",
        ),
        *(
            " https://example.com/a?b=1 ",
            " me@x.org ",
            " `pip install x` ",
            " snake_case ",
            " 2024-01-05 ",
            "Tom",
            "Python",
        ),
        *(
            "3",
            " 42 ",
            " 1,000 ",
            "😀",
            "👩\u200d👩\u200d👧",
            "\u202e",
            "\x07",
            "é",
            "Привет",
            "の",
            "\n",
            '"',
            "...",
            "!!!",
        ),
    ]
)


@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(PIECES, min_size=1, max_size=14))
@example(["爱我”， https://example.com/a?b=1 爱 I"])  # the clauses form a loop together
@example([" https://example.com/a?b=1 你”。 hello 爱 I "])  # and so do the sentences
@example([" hello  hello 3“ hello 我我“ hello 我"])  # the entities alone are a loop
@example([" hello 。TomTom"])  # a name after a sentence without an end mark
@example(["... 42 我"])  # 42 is not the decimals of a number
@example(["... me@x.org 我"])  # the dots do not belong to the address
def test_guarantees_hold_for_a_random_model(both_ways: Translator, pieces: list[str]) -> None:
    source = "".join(pieces)
    found, _ = both_ways.translate(
        [source, "hello"], **SHORT
    )  # the second text prevents an error if the first cannot be translated
    text, read = found.text, normalise(source)
    assert bool(text.strip()) == bool(read)
    assert len(text.splitlines()) <= 1
    if not found.tgt_lang:
        assert text == read
        return
    pair = find_language_pair(found.src_lang, found.tgt_lang)
    spans = find_entities(read, pair.source)
    for span in protected(spans):
        # Whether a word is foreign depends on its context, and the text between symbols is checked alone.
        assert span.of(read) in text or (span.kind == "foreign" and any(one.kind == "symbol" for one in spans))
    if not found.note:
        assert not missing_entities(read, text, pair)
        # Sentence by sentence: several may contain the same phrase.
        assert not any(has_loop(part, said) for part, said in found.alternatives[0].parts)
    if not found.note and all(span.kind != "symbol" for span in spans):  # the text between symbols is checked alone
        assert not (len(split_sentences(read)) == 1 and has_loop(read, text))
        written = remove_spans(text, protected(find_entities(text, ENGLISH)))
        assert not is_copy(remove_spans(read, protected(spans)), written, pair.source)
    assert repair_quotes(read, text) == text


@settings(max_examples=30, deadline=None)
@given(text=st.text(max_size=40))
def test_any_text_at_all(both_ways: Translator, text: str) -> None:
    first, second = both_ways.translate([text, "hello"], **SHORT)
    assert second.text
    assert bool(first.text.strip()) == bool(normalise(text))
    first.text.encode()


@pytest.mark.parametrize(
    ("unit", "characters"),
    [
        *(("我爱你", 100_000), ("apple", 100_000), ("😀", 100_000), ("`", 100_000), ("1", 100_000)),
        *(
            ("我有3个苹果。", 5_000),
            ("see https://x.org/a, ", 10_000),
            ("我a", 10_000),
        ),  # the fallbacks apply to all of it
    ],
)
def test_a_hundred_thousand_characters(both_ways: Translator, unit: str, characters: int) -> None:
    text = unit * (characters // len(unit))
    how = {"beam": 1, "max_length_ratio": 0.0, "max_length_extra": 2, "batch_tokens": 20_000}
    [found] = both_ways.translate([text], **how)
    assert found.text
    if "https" in unit:
        assert found.text.count("https://x.org/a") == text.count("https://x.org/a")
    if has_only_literals(text):
        assert found.text == text


def test_translation_is_deterministic(both_ways: Translator) -> None:
    texts = ["我有37个苹果和Python。", "Look at https://x.org, please: it is 42.", "他说：“好。”"]
    assert both_ways(texts) == both_ways(texts) == [both_ways(text) for text in texts]


def test_prefix(both_ways: Translator) -> None:
    assert both_ways("我有37个苹果。", prefix="love you", **SHORT).startswith("love you")


def test_the_registry_and_the_guards_need_no_torch() -> None:
    script = (
        "import sys; import regard.model_folder.registry, regard.pipelines.guarded_translator;"
        "import regard.pipelines.translator, regard.text.chinese_script, regard.guards.checks;"
        "assert not {'torch', 'sacrebleu', 'rich', 'opencc'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_translation_is_never_a_copy(both_ways: Translator) -> None:
    """A random model may write in the wrong language, but the result is not the source."""
    for source in ("苹果", "图书馆", "你好", "hello", "Wednesday", "library"):
        answer = both_ways(source)
        assert answer.strip()
        assert normalise(answer).lower() != source.lower() or not has_han(source)
