from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.cli.explain import write_figures
from regard.inspect import built, live_page, page
from regard.inspect.maps import AttentionMap

TEMPLATE = "<!doctype html><html><head></head><body></body></html>"


@pytest.fixture
def model(make_model: Any, tmp_path: Path) -> Path:
    path: Path = make_model(tmp_path / "model")
    return path


@pytest.fixture
def built_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "explain.html").write_text(TEMPLATE, "utf-8")
    for module in (built, page, live_page):
        monkeypatch.setattr(module, "PAGE", folder)
    return folder


@pytest.mark.usefixtures("built_page")
def test_a_page_and_figures(regard: Any, model: Path, tmp_path: Path) -> None:
    files = [tmp_path / "out" / name for name in ("page.html", "map.png", "map.svg")]
    said = regard("explain", "the cat", "--model", model, "-o", files[0], "--png", files[1], "--svg", files[2])
    assert said.code == 0, said.err
    assert "regard-data" in files[0].read_text("utf-8")
    assert files[1].read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in files[2].read_text("utf-8")
    assert f"wrote {files[0]} (" in said.out
    assert f"wrote {files[2]}: cross-attention, mean of 2 layers × 2 heads" in said.out


def test_a_figure_of_one_head_and_a_given_translation(regard: Any, model: Path, tmp_path: Path) -> None:
    figure = tmp_path / "map.svg"
    which = ("--kind", "decoder", "--layer", 2, "--head", 1, "--translation", "a dog")
    said = regard("explain", "the cat", "--model", model, "--svg", figure, *which)
    assert said.code == 0, said.err
    assert "decoder self-attention, layer 2, head 1" in said.out
    assert "&lt;s&gt;" in figure.read_text("utf-8")


def test_a_page_that_is_not_built(regard: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(built, "PAGE", tmp_path / "nowhere")
    said = regard("explain", "the cat", "--model", model, "-o", tmp_path / "page.html")
    assert said.code == 1
    assert "python web/build.py" in said.err
    assert not (tmp_path / "page.html").exists()


def test_wrong_options(regard: Any, model: Path, tmp_path: Path) -> None:
    said = regard("explain", "the cat", "--model", model)
    assert said.code == 2
    assert "nothing to write" in said.err
    said = regard("explain", "the cat", "--model", model, "--png", tmp_path / "map.jpg")
    assert (said.code, "the file name must end in .png" in said.err) == (2, True)
    said = regard("explain", "the cat", "--model", model, "--svg", tmp_path / "map.svg", "--head", 7)
    assert (said.code, "there is no head 7 in the cross-attention" in said.err) == (2, True)
    assert not (tmp_path / "map.svg").exists()


@pytest.mark.usefixtures("built_page")
def test_a_page_that_has_the_model(regard: Any, model: Path, tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    said = regard("explain", "the cat", "--model", model, "--live", "--weights", "int8", "-o", output)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"wrote {output} (")
    assert " in int8: " in said.out
    assert 'id="regard-model-0"' in output.read_text("utf-8")


def test_options_of_a_page_with_the_model(regard: Any, tmp_path: Path) -> None:
    figure = tmp_path / "map.png"
    said = regard("explain", "the cat", "--live", "--png", figure)
    assert (said.code, "--live puts the model into a page: give -o PAGE.html" in said.err) == (2, True)
    said = regard("explain", "the cat", "--weights", "int8", "--png", figure)
    assert (said.code, "--weights is the type of the model in a page: give --live too" in said.err) == (2, True)
    assert not figure.exists()


def test_characters_that_no_font_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = [tmp_path / "map.png", tmp_path / "map.svg"]
    write_figures(AttentionMap(np.eye(2), ("a", "\U000f1234"), ("b", "c"), "title"), figures)
    said = capsys.readouterr()
    assert said.out == f"wrote {figures[0]}: title\nwrote {figures[1]}: title\n"
    assert said.err.startswith("some characters are missing from the figure: install a font")
    assert said.err.count("\n") == 1, "an SVG has text, which the viewer's fonts draw"
    assert all(figure.is_file() for figure in figures)
