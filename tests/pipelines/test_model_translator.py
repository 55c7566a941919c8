"""`ModelTranslator`: one model folder, one direction."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from regard.config import Precision
from regard.core.taps import hook_taps
from regard.decode.engine import Engine
from regard.decode.hypotheses import length_penalty_divisor
from regard.errors import ConfigError, ModelFolderError
from regard.pipelines.model_translator import ModelTranslator
from regard.text.normalise import normalise
from regard.text.sentences import join_sentences

RandomModel = Callable[..., Path]
SHORT = {"max_length_ratio": 1.0, "max_length_extra": 6}

# Lines that have broken translators: each is one line, whatever it looks like.
AWKWARD = {
    "empty": "",
    "blank": " \t  ",
    "no-break space": "\u00a0\u3000",
    "emoji": "👩‍👩‍👧‍👦 🏴󠁧󠁢󠁥󠁮󠁧󠁿 apple 🤖",
    "control": "apple\x00\x07\x1b[31m baby\x7f",
    "line separators": "apple\u2028baby\u2029bird\u0085blue\x0b\x0cboat",
    "carriage returns": "apple\rbaby\r\nbird\nblue",
    "byte order mark": "\ufeffapple",
    "right to left": "\u202eapple\u202c مرحبا",
    "unpaired surrogate": "apple \ud800 baby",
    "Chinese": "我爱你。你好吗?",
    "space mark": "▁apple▁▁baby",
    "combining": "e\u0301" + "\u0301" * 300,
}


def test_one_text_gives_a_text_and_a_list_a_list(reverse: ModelTranslator) -> None:
    assert reverse("apple baby bird") == "bird baby apple"
    assert reverse(["apple baby bird", "boat blue"]) == ["bird baby apple", "blue boat"]
    assert reverse([]) == []
    assert reverse(iter(["boat blue"])) == ["blue boat"]  # type: ignore[call-overload]


def test_it_has_learnt_the_task(reverse: ModelTranslator, reverse_test: list[tuple[str, str]]) -> None:
    sources, references = zip(*reverse_test, strict=True)
    right = sum(one == wanted for one, wanted in zip(reverse(sources), references, strict=True))
    assert right >= 0.9 * len(reverse_test)


def test_translations_have_alternatives_with_scores(reverse: ModelTranslator) -> None:
    [found] = reverse.translate(["apple baby bird"], beam=4, n_best=3)
    assert found.source == "apple baby bird"
    assert found.text == str(found) == found.alternatives[0].text == "bird baby apple"
    assert found.score == found.alternatives[0].score
    assert len({one.tokens for one in found.alternatives}) == 3
    scores = [one.score for one in found.alternatives]
    assert scores == sorted(scores, reverse=True)
    for one in found.alternatives:
        assert one.log_prob == pytest.approx(sum(one.token_log_probs), abs=1e-4)
        assert one.score == pytest.approx(
            one.log_prob / length_penalty_divisor(len(one.token_log_probs), 0.6), abs=1e-4
        )
        assert len(one.token_log_probs) == len(one.tokens) + 1
        assert one.parts == (("apple baby bird", one.text),)


def test_a_string_in_place_of_a_list_is_refused(reverse: ModelTranslator) -> None:
    with pytest.raises(ConfigError, match="takes a list"):
        reverse.translate("apple")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"beem": 4}, "did you mean 'beam'"),
        ({"lenght_penalty": 1.0}, "did you mean 'length_penalty'"),
        ({"beam": 0}, "decode.beam = 0 is too small"),
        ({"beam": "four"}, "must be a whole number"),
        ({"method": "magic"}, "'beam', 'sample'"),
        ({"n_best": 9}, "n_best = 9 is not possible with beam = 4"),
        ({"n_best": 0}, "n_best = 0"),
        ({"method": "sample", "temperature": 0.0}, "temperature"),
    ],
)
def test_a_wrong_option_is_named(reverse: ModelTranslator, options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        reverse("apple", **options)


def test_folders_that_are_not_models(tmp_path: Path, reverse_model: Path, random_model: RandomModel) -> None:
    with pytest.raises(ModelFolderError, match="no model folder"):
        ModelTranslator(tmp_path / "nowhere")
    with pytest.raises(ModelFolderError, match="not a model folder"):
        ModelTranslator(tmp_path)
    with pytest.raises(ModelFolderError, match="it is a run: its model is"):
        ModelTranslator(reverse_model.parent)
    altered = random_model("altered") / "config.json"
    altered.write_text(altered.read_text().replace('"d_ff": 32', '"d_ff": 33'))
    with pytest.raises(ModelFolderError, match=r"config\.json was altered"):
        ModelTranslator(altered.parent)


@pytest.mark.parametrize("options", [{"beam": 4}, {"beam": 1}, {"method": "sample"}], ids=str)
def test_the_size_of_batches_changes_nothing(random_model: RandomModel, options: dict[str, object]) -> None:
    translator = ModelTranslator(random_model())
    texts = ["apple", "", "baby bird blue boat", "boat bread", "🤖", "apple baby " * 6, "cat", "cat chair child"]
    n_best = 1 if options.get("beam") == 1 else 2
    whole = translator.translate(texts, n_best=n_best, batch_tokens=100_000, **SHORT, **options)
    assert len({one.text for one in whole}) > 5
    for batch_tokens in (1, 9, 40):
        again = translator.translate(texts, n_best=n_best, batch_tokens=batch_tokens, **SHORT, **options)
        for one, other in zip(whole, again, strict=True):
            assert [a.tokens for a in one.alternatives] == [a.tokens for a in other.alternatives]
            for a, b in zip(one.alternatives, other.alternatives, strict=True):
                assert a.token_log_probs == pytest.approx(b.token_log_probs, abs=1e-9)


def test_the_size_of_batches_changes_nothing_in_a_trained_model(
    reverse: ModelTranslator, reverse_test: list[tuple[str, str]]
) -> None:
    sources = [source for source, _ in reverse_test]
    assert reverse(sources, batch_tokens=1) == reverse(sources, batch_tokens=60) == reverse(sources)


def test_awkward_lines_are_one_line_each(random_model: RandomModel) -> None:
    translator = ModelTranslator(random_model())
    found = translator(list(AWKWARD.values()), beam=2, **SHORT)
    assert len(found) == len(AWKWARD)
    for (name, source), text in zip(AWKWARD.items(), found, strict=True):
        assert len(text.splitlines()) <= 1, name
        assert bool(text) <= bool(normalise(source)), name
        text.encode()


def test_empty_texts_have_empty_translations(reverse: ModelTranslator) -> None:
    [found] = reverse.translate([" \u2028 "], n_best=3, prefix="apple")
    assert [(one.text, one.log_prob, one.tokens, one.parts) for one in found.alternatives] == [("", 0.0, (), ())]


def test_generated_line_breaks_are_normalised(newline_model: Path) -> None:
    translator = ModelTranslator(newline_model)
    [found] = translator.translate(["apple baby"], beam=1, no_repeat_ngram=1, max_length_ratio=0.0, max_length_extra=12)
    assert found.alternatives[0].tokens[:5] == ("<0x0A>", "<0x0D>", "<0xE2>", "<0x80>", "<0xA8>")
    assert found.text
    assert found.text.splitlines() == [found.text]


def test_output_length_is_limited_by_the_source(newline_model: Path) -> None:
    translator = ModelTranslator(newline_model)
    for words in (1, 4, 9):
        [found] = translator.translate([" ".join(["apple"] * words)], max_length_ratio=2.0, max_length_extra=3)
        assert len(found.alternatives[0].tokens) == 2 * words + 3


def test_a_long_line_is_split_at_sentence_ends_and_joined(reverse: ModelTranslator) -> None:
    sentences = [f"Apple {word} boat." for word in ("baby", "bird", "blue", "cat", "chair")] * 667
    text = " ".join(sentences)
    assert len(text.split()) > 10_000
    heard: list[int] = []
    found = reverse.translate(
        ["apple baby", text, ""], beam=1, max_length_ratio=0.0, max_length_extra=4, done=heard.append
    )
    [first, long, empty] = [one.alternatives[0] for one in found]
    assert (first.text, empty.text) == ("baby apple", "")
    assert len(long.parts) > 20
    assert " ".join(source for source, _ in long.parts) == text
    assert all(source.endswith(".") and reverse.fits(source) for source, _ in long.parts)
    assert long.text == " ".join(part for _, part in long.parts if part)
    assert len(long.text.splitlines()) == 1
    assert len(long.tokens) <= 4 * len(long.parts)
    assert sum(heard) == 3, "progress is counted in texts, not in parts"


def test_a_hundred_thousand_characters_without_a_space(reverse: ModelTranslator) -> None:
    for text in ("apple" * 20_000, "我爱你" * 3_000):
        [found] = reverse.translate([text], beam=1, max_length_ratio=0.0, max_length_extra=1, batch_tokens=20_000)
        parts = found.alternatives[0].parts
        assert "".join(source for source, _ in parts) == text
        assert all(map(reverse.fits, (source for source, _ in parts)))


def test_chinese_parts_are_joined_without_spaces(random_model: RandomModel) -> None:
    translator = ModelTranslator(random_model(tgt_lang="zh-Hans"))
    [found] = translator.translate(["Apple baby. " * 200], beam=1, max_length_ratio=0.0, max_length_extra=3)
    parts = [text for _, text in found.alternatives[0].parts]
    assert len(parts) > 1
    assert found.text == join_sentences(parts, "zh")
    assert found.text.replace(" ", "") == "".join(parts)


def test_no_position_beyond_the_learned_ones_is_used(random_model: RandomModel) -> None:
    translator = ModelTranslator(random_model(position="learned", max_positions=12))
    [found] = translator.translate(["apple baby bird " * 30], beam=2)
    assert len(found.alternatives[0].parts) >= 9
    translator.trace("apple baby bird")
    with pytest.raises(ConfigError, match=r"sentence 2 has 12 tokens; scoring and tracing are limited to 11"):
        translator.score(["apple", "apple " * 12], ["baby", "baby"])
    with pytest.raises(ConfigError, match="sentence 1 has 12 tokens"):
        translator.trace("apple", "baby " * 12)


def test_a_seed_gives_the_same_samples_again(reverse: ModelTranslator) -> None:
    texts = ["apple baby bird blue", "boat bread cat"]
    how = {"method": "sample", "temperature": 3.0, "n_best": 4}

    def samples(**options: object) -> list[list[str]]:
        return [[one.text for one in found.alternatives] for found in reverse.translate(texts, **how, **options)]

    drawn = samples(seed=5)
    assert samples(seed=5) == drawn == samples(seed=5, batch_tokens=1)
    assert samples(seed=6) != drawn
    assert len(set(drawn[0])) == 4


@pytest.mark.parametrize("options", [{"beam": 4, "n_best": 4}, {"method": "sample", "temperature": 2.0}], ids=str)
def test_every_translation_begins_with_the_prefix(reverse: ModelTranslator, options: dict[str, object]) -> None:
    texts = ["apple baby bird", "blue boat", "apple baby. " * 150]
    for found in reverse.translate(texts, prefix="cow cold", **options):
        for one in found.alternatives:
            assert one.text.startswith("cow cold")
            assert one.tokens[:2] == ("▁cow", "▁cold")
    assert not reverse("apple baby").startswith("cow")


def test_the_prefix_applies_to_the_first_part_of_a_long_text(reverse: ModelTranslator) -> None:
    text = "Apple baby. " * 100
    [free], [forced] = reverse.translate([text], beam=1), reverse.translate([text], prefix="cow", beam=1)
    assert len(forced.alternatives[0].parts) > 1
    assert forced.alternatives[0].parts[0][1].startswith("cow")
    assert forced.alternatives[0].parts[1:] == free.alternatives[0].parts[1:]


def test_no_repeat_ngram(random_model: RandomModel) -> None:
    translator = ModelTranslator(random_model())

    def bigrams(**options: object) -> list[tuple[str, str]]:
        [found] = translator.translate(["apple baby bird"], beam=2, max_length_extra=40, **options)
        tokens = found.alternatives[0].tokens
        return list(pairwise(tokens))

    loose, strict = bigrams(), bigrams(no_repeat_ngram=2)
    assert len(set(loose)) < len(loose)
    assert len(set(strict)) == len(strict)


def test_scores_equal_those_of_the_search(reverse: ModelTranslator, reverse_test: list[tuple[str, str]]) -> None:
    sources = [source for source, _ in reverse_test]
    found = reverse.translate(sources)
    scored = reverse.score(sources, [one.text for one in found])
    for one, other in zip(found, scored, strict=True):
        assert other.text == one.text
        assert other.tokens == one.alternatives[0].tokens
        assert other.log_prob == pytest.approx(one.alternatives[0].log_prob, abs=1e-4)
        assert other.score == pytest.approx(one.score, abs=1e-4)
        assert other.log_prob == pytest.approx(sum(other.token_log_probs))


def test_a_right_translation_scores_better_than_a_wrong_one(reverse: ModelTranslator) -> None:
    right, wrong, nothing = reverse.score(["apple baby bird"] * 3, ["bird baby apple", "apple baby bird", ""])
    assert right.log_prob > wrong.log_prob
    assert right.log_prob > nothing.log_prob
    assert (nothing.tokens, len(nothing.token_log_probs)) == ((), 1)
    assert reverse.score([], []) == []
    with pytest.raises(ConfigError, match="2 sources but 1 translations"):
        reverse.score(["apple", "baby"], ["bird"])


def test_align_follows_the_words(reverse: ModelTranslator, reverse_test: list[tuple[str, str]]) -> None:
    links = [link for source, target in reverse_test for link in reverse.align(source, target)]
    assert len(links) >= sum(len(source.split()) for source, _ in reverse_test)
    assert sum(link.src_word == link.tgt_word for link in links) >= 0.8 * len(links)
    assert reverse.align("") == reverse.align("apple", "") == reverse.align("", "apple") == []


def test_align_distinguishes_equal_words(reverse: ModelTranslator) -> None:
    words = ["apple", "baby", "apple"]
    links = reverse.align(" ".join(words), " ".join(words))
    assert {link.tgt for link in links if link.tgt_word == "apple"} == {0, 2}
    assert all((words[link.src], words[link.tgt]) == (link.src_word, link.tgt_word) for link in links)


def test_align_takes_long_texts_too(reverse: ModelTranslator) -> None:
    links = reverse.align("apple baby. " * 300)
    assert {"apple", "baby"} <= {link.src_word for link in links} | {link.tgt_word for link in links}
    assert max(link.src for link in links) > 100  # numbered through all parts


def test_the_weights_equal_those_in_the_folder(random_model: RandomModel) -> None:
    one, other = ModelTranslator(random_model()), ModelTranslator(random_model("single", dtype=torch.float32))
    assert {p.dtype for p in one.model.parameters()} == {torch.float64}
    assert {p.dtype for p in other.model.parameters()} == {torch.float32}
    assert not any(p.requires_grad for p in one.model.parameters())
    assert not one.model.training


@pytest.mark.parametrize("precision", ["bfloat16", "int8", "auto"])
def test_lower_precision_is_close(
    precision: Precision, reverse: ModelTranslator, reverse_test: list[tuple[str, str]]
) -> None:
    sources = [source for source, _ in reverse_test]
    low = ModelTranslator(reverse.folder, precision)
    if isinstance(low.backend.engine, Engine) and precision != "auto":
        assert low.backend.engine.form == precision
    assert low.score(["a"], ["b"]) == reverse.score(["a"], ["b"])
    same = sum(one == other for one, other in zip(low(sources), reverse(sources), strict=True))
    assert same >= 0.9 * len(sources)


def test_a_recurrent_model_translates_scores_and_aligns_too(
    recurrent: ModelTranslator, reverse_test: list[tuple[str, str]]
) -> None:
    sources, references = zip(*reverse_test, strict=True)
    for options in ({"beam": 1}, {"beam": 4}):
        right = sum(one == wanted for one, wanted in zip(recurrent(sources, **options), references, strict=True))
        assert right >= 0.9 * len(reverse_test)
    [found] = recurrent.translate(["apple baby bird"], n_best=2)
    [scored] = recurrent.score(["apple baby bird"], [found.text])
    assert scored.token_log_probs == pytest.approx(found.alternatives[0].token_log_probs, abs=1e-4)
    links = recurrent.align("apple baby bird")
    assert [(link.src_word, link.tgt_word) for link in links] == [
        ("apple", "apple"),
        ("baby", "baby"),
        ("bird", "bird"),
    ]
    assert recurrent("apple baby bird", prefix="dog").startswith("dog")
    assert recurrent("apple baby bird", method="sample", seed=1, top_k=1) == "bird baby apple"


def test_int8_is_refused_where_there_is_no_engine(recurrent_model: Path) -> None:
    with pytest.raises(ConfigError, match="precision int8 needs the engine, but the engine does not support model"):
        ModelTranslator(recurrent_model, "int8")("apple")


def test_observed_taps_record_the_search(reverse: ModelTranslator) -> None:
    def silence(path: str, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    said = reverse("apple baby bird")
    with hook_taps(reverse.model, {"decoder.*.cross.head_out": silence}):
        assert reverse("apple baby bird") != said
    assert reverse("apple baby bird") == said


def test_a_recurrent_model_in_bf16(recurrent_model: Path, reverse_test: list[tuple[str, str]]) -> None:
    rounded = ModelTranslator(recurrent_model, precision="bfloat16")
    sources, references = zip(*reverse_test, strict=True)
    right = sum(one == wanted for one, wanted in zip(rounded(sources), references, strict=True))
    assert right >= 0.85 * len(reverse_test)


def test_a_model_without_attention_has_no_alignment(random_model: RandomModel) -> None:
    translator = ModelTranslator(random_model(family="recurrent", attention="none", n_decoder_layers=1))
    assert translator.score(["apple"], ["baby"])[0].log_prob < 0
    with pytest.raises(ConfigError, match="this model has no attention"):
        translator.align("apple", "baby")
