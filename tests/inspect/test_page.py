"""The page as one file: every answer in it equals that of the server."""

from __future__ import annotations

import base64
import gzip
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import RegardError
from regard.inspect import page as page_module
from regard.inspect.explorer import Explorer, Question
from regard.inspect.page import explain_page
from regard.inspect.wire import unpack
from regard.pipelines.model_translator import ModelTranslator

TEXT = "apple baby <!-- bird </script>"
TEMPLATE = "<!doctype html><html><head><title>é</title></head><body><main></main></body></html>"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "explain.html").write_text(TEMPLATE, "utf-8")
    return tmp_path


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="regard-data">(.*?)</script>', page, re.DOTALL)
    assert found
    assert "<" not in found[1]
    assert page.replace(found[0], "") == TEMPLATE
    data: dict[str, Any] = json.loads(found[1])
    return data


def body(data: dict[str, Any], key: str) -> bytes:
    content = base64.b64decode(data["responses"][key])
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def test_every_answer_is_in_the_file(reverse: ModelTranslator, built: Path) -> None:
    explorer, question = Explorer(reverse), Question(TEXT, {})
    page = explain_page(explorer, question, folder=built)
    assert len(page.encode()) < 3_000_000
    data = data_of(page)
    assert (data["model"], data["text"]) == ("0", TEXT)
    passage = explorer.passage(question, None)
    traced = explorer.trace(passage)
    trace = traced.trace
    header, _ = unpack(body(data, "POST /api/trace"))
    assert header["text"] == TEXT
    place = f"GET /api/trace/{header['trace']}"
    models = json.loads(body(data, "GET /api/models"))
    assert models["models"][0]["parameters"] == sum(p.numel() for p in reverse.model.parameters())
    found = json.loads(body(data, "POST /api/translate"))
    assert found["alternatives"][0]["text"] == reverse(TEXT)
    assert len(found["alternatives"]) == 4
    assert json.loads(body(data, "POST /api/tokens src"))["text"] == TEXT
    assert json.loads(body(data, "POST /api/tokens tgt"))["normalised"] == reverse(TEXT)
    assert json.loads(body(data, "POST /api/beam"))["nodes"]
    assert json.loads(body(data, "POST /api/attention-summary"))["heads"]
    for step, token in enumerate(header["tgt"]):
        said = json.loads(body(data, f"{place}/next?k=20&step={step}"))
        assert said["chosen"]["id"] == token["id"]
    last = len(header["src"]) - 1
    block = json.loads(body(data, f"{place}/block?layer=0&position={last}&side=encoder"))
    assert block["units"] == [vars(unit) for unit in traced.block("encoder", 0, last).units]
    for path, value in trace.values.items():
        if path not in data["left_out"]:
            _, arrays = unpack(body(data, f"{place}/tensor?path={path}"))
            np.testing.assert_array_equal(arrays[path], value)
    heads = {
        path for path in trace.values if path.rpartition(".")[2] in ("q", "k", "v", "scores", "weights", "head_out")
    }
    pictured = {"src_embedded", "tgt_embedded", "memory", "encoder.0.around_ffn.normed", "decoder.0.around_ffn.normed"}
    assert len(heads) == 18
    assert not (heads | pictured) & {*data["left_out"]}
    assert {"logits", "decoder.0.ffn.ffn_out"} < {*data["left_out"]}
    rows = ",".join(str(token["id"]) for token in header["src"])
    _, arrays = unpack(body(data, f"GET /api/models/0/parameter?name=src_embedding.weight&rows={rows}"))
    assert arrays["src_embedding.weight"].shape == (len(header["src"]), 64)
    _, arrays = unpack(body(data, "GET /api/models/0/parameter?columns=16-32&name=decoder.0.cross.out.weight"))
    expected = reverse.model.get_parameter("decoder.0.cross.out.weight")[:, 16:32]
    np.testing.assert_array_equal(arrays["decoder.0.cross.out.weight"], expected.detach().numpy())
    assert set(data["left_out"]) <= set(trace.values)


def test_a_file_that_may_not_be_large_has_what_matters_most(
    reverse: ModelTranslator, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = data_of(explain_page(Explorer(reverse), Question(TEXT, {}), folder=built))["responses"]
    most = sum(len(written) for key, written in whole.items() if not re.search("tensor|out.weight", key))
    most += 100_000
    monkeypatch.setattr(page_module, "MAX_BYTES", most)
    page = explain_page(Explorer(reverse), Question(TEXT, {}), folder=built)
    assert len(page.encode()) <= most + 20_000  # the keys of what is needed are not counted
    data = data_of(page)
    kept, left_out = data["responses"], data["left_out"]
    assert any(key.endswith("cross.q") for key in kept)
    assert "encoder.0.ffn.ffn_hidden" in left_out
    assert any("out.weight [" in name for name in left_out)
    missing = {key for key in whole if key not in kept}
    paths = {key.partition("path=")[2] for key in missing if "tensor" in key}
    assert paths
    assert paths <= {*left_out}  # what is not there is named


def test_a_given_translation_and_a_draw(reverse: ModelTranslator, built: Path) -> None:
    [ids] = reverse.tokenizer.encode_tgt(["cat"])
    data = data_of(explain_page(Explorer(reverse), Question(TEXT, {"method": "sample"}), ids, built))
    header, _ = unpack(body(data, "POST /api/trace"))
    assert header["translation"] == "cat"
    assert "POST /api/beam" not in data["responses"]


def test_a_page_that_is_not_built(reverse: ModelTranslator, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"web/build\.py"):
        explain_page(Explorer(reverse), Question(TEXT, {}), folder=tmp_path)


def test_a_notebook_shows_the_page(reverse: ModelTranslator, built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = reverse.trace("apple baby")
    monkeypatch.setattr(page_module, "PAGE", built)
    shown = trace._repr_html_()
    assert shown is not None
    found = re.fullmatch(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts" .*</iframe>', shown, re.DOTALL)
    assert found
    assert data_of(unescape(found[1]))["text"] == "apple baby"
    monkeypatch.setattr(page_module, "PAGE", built / "nowhere")
    assert "web/build.py" in str(trace._repr_html_())


def test_a_recurrent_model(recurrent: ModelTranslator, built: Path) -> None:
    data = data_of(explain_page(Explorer(recurrent), Question("apple baby", {}), folder=built))
    header, _ = unpack(body(data, "POST /api/trace"))
    assert f"GET /api/trace/{header['trace']}/tensor?path=decoder.0.cross.weights" in data["responses"]
