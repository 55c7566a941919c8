"""The page with its model inside."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import pytest

from regard.errors import RegardError
from regard.inspect.explorer import Explorer
from regard.inspect.live_page import live_page
from regard.inspect.wire import unpack
from regard.pipelines.model_translator import ModelTranslator

TEMPLATE = "<!doctype html><html><head></head><body></body></html>"
TEXT = "apple </script><!-- baby"


def test_the_model_is_in_the_page(reverse: ModelTranslator, tmp_path: Path) -> None:
    (tmp_path / "explain.html").write_text(TEMPLATE, "utf-8")
    page, part = live_page(Explorer(reverse), TEXT, [5, 6], "int8", tmp_path)
    data_element, data = element(page, "application/json", "regard-live")
    model_element, content = element(page, "application/octet-stream", "regard-model-0")
    assert page.replace(data_element + model_element, "") == TEMPLATE
    assert "<" not in data
    found = json.loads(data)
    assert found["sentence"] == {"model": "0", "text": TEXT, "tgt": [5, 6]}
    assert [model["in_page"] for model in found["models"]["models"]] == [True]
    packed = base64.b64decode(content)
    packed = gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else packed
    assert (len(packed), part.stored_as) == (part.size, "int8")
    header, arrays = unpack(packed)
    assert header["model"]["name"] == part.name
    for name, file in reverse.tokenizer.files().items():
        assert bytes(arrays[name]) == file


def element(page: str, kind: str, name: str) -> tuple[str, str]:
    found = re.search(rf'<script type="{kind}" id="{name}">(.*?)</script>', page, re.DOTALL)
    assert found
    return found[0], found[1]


def test_without_a_translation_the_page_computes_it(reverse: ModelTranslator, tmp_path: Path) -> None:
    (tmp_path / "explain.html").write_text(TEMPLATE, "utf-8")
    page, _ = live_page(Explorer(reverse), TEXT, folder=tmp_path)
    assert json.loads(element(page, "application/json", "regard-live")[1])["sentence"]["tgt"] is None


def test_a_page_that_is_not_built(reverse: ModelTranslator, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"python web/build\.py"):
        live_page(Explorer(reverse), TEXT, folder=tmp_path)
