"""The page's own model computes what the Python model computes: tokens, every tap, searches, interventions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.config import DecodeConfig
from regard.errors import ConfigError
from regard.inspect.explorer import Explorer, Question
from regard.inspect.interventions import parse_interventions
from regard.inspect.packed_model import pack_model
from regard.inspect.wire import plain
from regard.model_folder.registry import BUNDLED
from regard.pipelines.model_translator import ModelTranslator

EVERYDAY = Path(__file__).parents[2] / "bench" / "everyday.tsv"  # Chinese and English, alternatives after "|"
TEXT = "red green blue"
TOLERANCE = 1e-4  # of the largest number of a tap, where that is above 1: float32 has seven digits
DIRECTIONS = ["zh-en", "en-zh"]


def sentences(direction: str, count: int) -> list[str]:
    """Of one to four everyday expressions."""
    rows = [line.split("\t") for line in EVERYDAY.read_text("utf-8").splitlines()]
    chinese = direction == "zh-en"
    texts = [row[0 if chinese else 1].split("|")[0] for row in rows]
    groups = [[texts[(7 * i + 31 * k) % len(texts)] for k in range(1 + i % 4)] for i in range(count)]
    return [("，" if chinese else ", ").join(group) + ("。" if chinese else ".") for group in groups]


@pytest.fixture(scope="module", params=DIRECTIONS)
def bundled(request: pytest.FixtureRequest, open_models: Any) -> Iterator[tuple[str, Explorer, Any]]:
    translator = ModelTranslator(BUNDLED / request.param)
    with open_models(translator) as page:
        yield request.param, Explorer(translator), page


@pytest.fixture(scope="module")
def reversing(reverse: ModelTranslator, open_models: Any) -> Iterator[tuple[Explorer, Any]]:
    with open_models(reverse) as page:
        yield Explorer(reverse), page


def check_taps(explorer: Explorer, page: Any, text: str, ids: Sequence[int], interventions: Sequence[Any] = ()) -> None:
    """The header and every tap of a trace."""
    question = Question(text, {}, interventions=parse_interventions(interventions))
    traced = explorer.trace(explorer.passage(question, ids))
    header, maps = page.post("trace", text=text, tgt_ids=list(ids), interventions=list(interventions))
    assert header["taps"] == {path: list(value.shape) for path, value in traced.trace.values.items()}
    assert list(header["taps"]) == list(traced.trace.values)  # in the order in which they are passed
    assert [token["id"] for token in header["tgt"]] == [*ids, 3]
    np.testing.assert_allclose([token["probability"] for token in header["tgt"]], traced.trace.probabilities, atol=1e-4)
    values = page.taps(header)
    for path, expected in traced.trace.values.items():
        scale = max(1.0, float(np.abs(expected).max()))
        difference = float(np.abs(values[path] - expected).max()) / scale
        assert difference < TOLERANCE, f"{path} differs by {difference:.1e}"
    assert set(maps) == {path for path in values if path.endswith(".weights")}


def check_equal(found: Any, expected: Any, where: str = "") -> None:
    """JSON with numbers that are nearly equal."""
    match expected:
        case dict():
            assert found.keys() == expected.keys(), where
            for key, value in expected.items():
                check_equal(found[key], value, f"{where}.{key}")
        case list():
            assert len(found) == len(expected), where
            for index, (one, other) in enumerate(zip(found, expected, strict=True)):
                check_equal(one, other, f"{where}.{index}")
        case float():
            assert found == pytest.approx(expected, rel=1e-4, abs=1e-4), where
        case _:
            assert found == expected, where


def check_sentence(explorer: Explorer, page: Any, text: str) -> None:
    expected = explorer.translate(Question(text, {}), 4)
    found = page.post("translate", text=text, n_best=4)
    assert found["alternatives"][0]["text"] == expected.alternatives[0].text
    check_equal(found, plain(expected))
    check_taps(explorer, page, text, [token.id for token in expected.alternatives[0].tokens if token.id != 3])


# -- the bundled models


def test_the_bundled_models(bundled: tuple[str, Explorer, Any]) -> None:
    direction, explorer, page = bundled
    for text in sentences(direction, 6):
        check_sentence(explorer, page, text)


@pytest.mark.slow
def test_the_bundled_models_on_two_hundred_sentences(bundled: tuple[str, Explorer, Any]) -> None:
    direction, explorer, page = bundled
    texts = sentences(direction, 100)
    assert len(texts) == 100
    for text in texts:
        check_sentence(explorer, page, text)


# -- every kind of Transformer

KINDS: dict[str, dict[str, Any]] = {
    "pre-norm, rotary": {"norm_order": "pre", "norm": "rmsnorm", "ffn": "swiglu", "position": "rotary"},
    "learned": {"position": "learned", "max_positions": 40, "ffn": "gelu", "tie_embeddings": "output"},
    "alibi": {"position": "alibi", "ffn": "gelu_tanh", "tie_embeddings": "none", "output_bias": True},
    "relative": {"position": "relative", "ffn": "geglu", "norm_order": "pre"},
    "no positions": {"position": "none", "ffn": "swish", "norm": "rmsnorm"},
}


@pytest.fixture
def random_weights() -> Any:
    """Weights that are not those of an initialisation: norms, biases and position tables count too."""

    def change(model: Any, _: Any) -> None:
        for parameter in model.parameters():
            parameter.normal_(std=0.4)

    return change


@pytest.mark.parametrize("kind", KINDS)
def test_other_kinds(kind: str, random_model: Any, random_weights: Any, open_models: Any) -> None:
    translator = ModelTranslator(random_model(dtype=torch.float32, change=random_weights, **KINDS[kind]))
    explorer = Explorer(translator)
    with open_models(translator) as page:
        check_taps(explorer, page, "apple baby cat dog red green blue bird", [40, 41, 42, 60, 7, 90])
        check_equal(page.post("translate", text=TEXT, n_best=2), plain(explorer.translate(Question(TEXT, {}), 2)))


def test_distances_beyond_the_buckets(random_model: Any, random_weights: Any, open_models: Any) -> None:
    translator = ModelTranslator(random_model(dtype=torch.float32, change=random_weights, position="relative"))
    text = "red green blue " * 50
    with open_models(translator) as page:
        check_taps(Explorer(translator), page, text, [40 + number % 60 for number in range(150)])


@pytest.mark.parametrize("stored_as", ["bfloat16", "int8"])
def test_fewer_bits(stored_as: Any, reverse: ModelTranslator, open_models: Any, tmp_path: Path) -> None:
    """The page computes with the numbers that a model folder of this type has."""
    from regard.model_folder.folder import WEIGHTS, read_description, write_model
    from regard.model_folder.weights import read_weights

    folder = tmp_path / "model"
    folder.mkdir()
    weights = read_weights(reverse.folder, WEIGHTS)
    write_model(folder, read_description(reverse.folder), weights, "", stored_as=stored_as)
    with open_models(reverse, stored_as=stored_as) as page:
        check_taps(Explorer(ModelTranslator(folder)), page, TEXT, [40, 41, 42])
    with open_models(ModelTranslator(folder)) as page:
        check_taps(Explorer(ModelTranslator(folder)), page, TEXT, [40, 41, 42])


# -- interventions

CHANGES: list[list[dict[str, Any]]] = [
    [{"kind": "head", "where": "decoder.0.cross", "head": 2}],
    [{"kind": "attention", "where": "encoder.0.attention"}],
    [{"kind": "ffn", "where": "decoder.0"}],
    [{"kind": "residual", "where": "decoder.0"}],
    [{"kind": "layer", "where": "encoder.0"}],
    [{"kind": "layer", "where": "decoder.0"}, {"kind": "positions"}],
    [{"kind": "scale"}],
    [{"kind": "weight", "where": "decoder.0.cross", "head": 1, "row": 2, "column": 1, "value": 0.9}],
    [
        {"kind": "weight", "where": "encoder.0.attention", "head": 0, "row": 1, "column": 0, "value": 0.25},
        {"kind": "weight", "where": "encoder.0.attention", "head": 0, "row": 1, "column": 2, "value": 0.5},
        {"kind": "weight", "where": "decoder.0.attention", "head": 3, "row": 2, "column": 0, "value": 1.0},
        {"kind": "head", "where": "decoder.0.attention", "head": 3},
    ],
]


@pytest.mark.parametrize("changes", CHANGES)
def test_interventions(changes: list[dict[str, Any]], reversing: tuple[Explorer, Any]) -> None:
    explorer, page = reversing
    question = Question(TEXT, {"beam": 3}, interventions=parse_interventions(changes))
    expected = explorer.translate(question, 3)
    found = page.post("translate", text=TEXT, n_best=3, options={"beam": 3}, interventions=changes)
    check_equal(found, plain(expected))
    check_taps(explorer, page, TEXT, explorer.translator.tokenizer.encode_tgt([TEXT])[0], changes)
    unchanged = page.post("translate", text=TEXT, n_best=3, options={"beam": 3})
    check_equal(unchanged, plain(explorer.translate(Question(TEXT, {"beam": 3}), 3)))
    assert unchanged["alternatives"][0]["score"] != found["alternatives"][0]["score"]


def test_no_causal_mask(reversing: tuple[Explorer, Any]) -> None:
    explorer, page = reversing
    ids = explorer.translator.tokenizer.encode_tgt([TEXT])[0]
    check_taps(explorer, page, TEXT, ids, [{"kind": "mask"}])
    with pytest.raises(Exception, match="has no effect on a search"):
        page.post("translate", text=TEXT, interventions=[{"kind": "mask"}])


@pytest.mark.parametrize("order", ["pre", "post"])
def test_skipped_layers(order: str, random_model: Any, random_weights: Any, open_models: Any) -> None:
    """Two of one stack, the upper one named first."""
    sizes = {"n_encoder_layers": 2, "n_decoder_layers": 3, "norm_order": order}
    translator = ModelTranslator(random_model(dtype=torch.float32, change=random_weights, **sizes))
    changes = [{"kind": "layer", "where": where} for where in ("decoder.1", "decoder.0", "encoder.1")]
    with open_models(translator) as page:
        check_taps(Explorer(translator), page, TEXT, [40, 41], changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "head", "where": "decoder.0.cross", "head": 4}, "has no head 4"),
        ({"kind": "layer", "where": "decoder.7"}, "there is no 'decoder.7'"),
        ({"kind": "weight", "where": "decoder.0.cross", "head": 0, "row": 0, "column": 90, "value": 1}, "no column 90"),
        (
            {"kind": "weight", "where": "decoder.0.attention", "head": 0, "row": 0, "column": 1, "value": 1},
            "the causal mask hides future tokens",
        ),
        ({"kind": "unheard of"}, "there is no intervention of the kind"),
    ],
)
def test_impossible_interventions(change: dict[str, Any], message: str, reversing: tuple[Explorer, Any]) -> None:
    with pytest.raises(Exception, match=message):
        reversing[1].post("translate", text=TEXT, interventions=[change])


# -- the other questions


def test_the_tree_of_a_search(reversing: tuple[Explorer, Any]) -> None:
    explorer, page = reversing
    for options in ({}, {"beam": 7, "length_penalty": 0.2}, {"beam": 1}, {"beam": 2, "no_repeat_ngram": 2}):
        expected = plain(explorer.beam(Question(TEXT, options)))
        check_equal(page.post("beam", text=TEXT, options=options), expected)


def test_a_forced_beginning(reversing: tuple[Explorer, Any]) -> None:
    explorer, page = reversing
    prefix = explorer.translator.tokenizer.encode_tgt(["dog dog"])[0]
    expected = explorer.translate(Question(TEXT, {}, tuple(prefix)), 2)
    check_equal(page.post("translate", text=TEXT, prefix_ids=prefix, n_best=2), plain(expected))


def test_what_the_panels_ask(bundled: tuple[str, Explorer, Any]) -> None:
    direction, explorer, page = bundled
    [text] = sentences(direction, 1)
    traced = explorer.trace(explorer.passage(Question(text, {}), None))
    header, _ = page.post("trace", text=text)
    trace = header["trace"]
    assert [token["id"] for token in header["tgt"]] == [*traced.passage.tgt_ids, 3]
    assert header["translation"] == explorer.translate(Question(text, {})).alternatives[0].text
    for step in (0, 2, len(traced.passage.tgt_ids)):
        check_equal(page.get(f"trace/{trace}/next", step=step, k=20), plain(traced.next(step, 20)))
    for side, layer, position in (("encoder", 0, 1), ("decoder", 2, 3)):
        expected = plain(traced.block(side, layer, position))  # type: ignore[arg-type]
        check_equal(page.get(f"trace/{trace}/block", side=side, layer=layer, position=position), expected)
    check_equal(page.post("attention-summary", trace=trace), plain(traced.summary()))
    path = "decoder.1.cross.scores"
    variants: list[list[dict[str, Any]]] = [
        [],
        [{"kind": "scale"}],
        [{"kind": "head", "where": "decoder.1.cross", "head": 0}],
    ]
    expected = explorer.effects(
        Question(text, {}), traced.passage.tgt_ids, [parse_interventions(one) for one in variants]
    )
    found = page.post("effects", text=text, tgt_ids=list(traced.passage.tgt_ids), variants=variants)
    np.testing.assert_allclose(found["before"], expected.before, atol=1e-3)
    np.testing.assert_allclose(found["after"], expected.after, atol=1e-3)
    _, arrays = page.get(f"trace/{trace}/tensor", path=path, head=2)
    np.testing.assert_allclose(arrays[path], traced.trace[path][2], atol=1e-4)


def test_parameters(bundled: tuple[str, Explorer, Any]) -> None:
    _, explorer, page = bundled
    for name, part in (
        ("src_embedding.weight", {"rows": "5,3,5"}),
        ("encoder.1.attention.out.weight", {"columns": "64-128"}),
        ("decoder.0.around_ffn.norm.bias", {}),
    ):
        header, arrays = page.get("models/0/parameter", name=name, **part)
        assert header["parameter"] == name
        expected = explorer.translator.model.get_parameter(name).detach().numpy()
        expected = expected[[5, 3, 5]] if "rows" in part else expected[:, 64:128] if "columns" in part else expected
        np.testing.assert_array_equal(arrays[name], expected)
    with pytest.raises(Exception, match="has no row '9999999'"):
        page.get("models/0/parameter", name="tgt_embedding.weight", rows="9999999")


def test_a_translation_is_sent_while_it_is_written(reversing: tuple[Explorer, Any]) -> None:
    explorer, page = reversing
    lines: list[Any] = []
    explorer.translate(Question(TEXT, {}), 1, lines.append)
    *partial, last = page.post("translate/lines", text=TEXT)
    check_equal(partial, plain(lines))
    assert last["translation"]["alternatives"][0]["text"] == explorer.translator(TEXT)


def test_requests_that_are_refused(reversing: tuple[Explorer, Any]) -> None:
    page = reversing[1]
    for message, body in (
        ("2,001 characters", {"text": "a" * 2001}),
        ("1350 pieces", {"text": "red " * 450}),
        ("beam = 17 is not possible", {"text": TEXT, "options": {"beam": 17}}),
        ("does not support decode.method = 'sample'", {"text": TEXT, "options": {"method": "sample"}}),
        ("contains the end token", {"text": TEXT, "prefix_ids": [40, 3]}),
        ("has the id 40000", {"text": TEXT, "prefix_ids": [40000]}),
        ("there is no model 'x'", {"text": TEXT, "model": "x"}),
    ):
        with pytest.raises(Exception, match=message):
            page.post("translate", **body)


def test_an_empty_text(reversing: tuple[Explorer, Any]) -> None:
    explorer, page = reversing
    check_equal(page.post("translate", text=" "), plain(explorer.translate(Question(" ", {}))))


# -- models that the page cannot compute


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"family": "recurrent"}, "does not support model.family = 'recurrent'"),
        ({"ffn": "moe"}, "does not support model.ffn = 'moe'"),
        ({"attention": {"kind": "window", "window": [4]}}, "does not support model.attention.kind = 'window'"),
    ],
)
def test_models_that_are_refused(sizes: dict[str, Any], message: str, random_model: Any) -> None:
    explorer = Explorer(ModelTranslator(random_model(dtype=torch.float32, **sizes)))
    with pytest.raises(ConfigError, match=message):
        pack_model(explorer, explorer.describe())


def test_another_rule_of_the_beam_is_refused(reverse: ModelTranslator) -> None:
    explorer = Explorer(reverse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reverse, "decode", dataclasses.replace(DecodeConfig(), beam_rule="huggingface"))
        with pytest.raises(ConfigError, match=r"does not support decode\.beam_rule"):
            pack_model(explorer, explorer.describe())
