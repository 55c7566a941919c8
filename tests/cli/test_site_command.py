"""`regard site`: what it writes, what it replaces, what it leaves alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from regard.errors import ConfigError, RegardError
from regard.inspect.built import PAGE
from regard.inspect.explorer import Explorer
from regard.inspect.live_page import files_of_site, write_site
from regard.pipelines.model_translator import ModelTranslator


@pytest.fixture
def explorers(reverse: ModelTranslator) -> dict[str, Explorer]:
    if not (PAGE / "index.html").is_file():
        pytest.skip("the page has not been built")
    return {"reverse": Explorer(reverse)}


def test_a_site_is_replaced_and_other_files_stay(explorers: dict[str, Explorer], tmp_path: Path) -> None:
    site = tmp_path / "site"
    write_site(explorers, site)
    [first] = (site / "models").iterdir()
    (site / ".git").mkdir()
    (site / "notes.txt").write_text("mine")
    write_site(explorers, site, "int8")
    [second] = (site / "models").iterdir()
    assert second.name != first.name
    assert second.stat().st_size < 300_000
    assert (site / ".git").is_dir()
    assert (site / "notes.txt").read_text() == "mine"
    text = (site / "index.html").read_text("utf-8")
    data = json.loads(text.partition('id="regard-site">')[2].partition("</script>")[0])
    assert data["files"] == {"0": f"models/{second.name}"}
    assert [(model["name"], model["in_page"]) for model in data["models"]["models"]] == [("reverse", True)]


def test_a_folder_of_something_else_is_refused(explorers: dict[str, Explorer], tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<h1>My own page</h1>")
    with pytest.raises(ConfigError, match="files that regard site did not write"):
        write_site(explorers, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.html"]


def test_an_index_cannot_name_files_elsewhere(explorers: dict[str, Explorer], tmp_path: Path) -> None:
    write_site(explorers, tmp_path)
    index = tmp_path / "index.html"
    [name] = [path for path in files_of_site(tmp_path) if path.startswith("models/")]
    index.write_text(index.read_text("utf-8").replace(name, "models/../../precious"), "utf-8")
    assert not any("precious" in path for path in files_of_site(tmp_path))


@pytest.mark.usefixtures("explorers")
def test_the_command(regard: Any, make_model: Any, tmp_path: Path) -> None:
    model, site = make_model(tmp_path / "mine"), tmp_path / "site"
    said = regard("site", site, "--model", model, "--weights", "int8")
    assert (said.code, said.err) == (0, "")
    [packed] = (site / "models").iterdir()
    first, *_, last = said.out.splitlines()
    assert first == f"wrote {packed} (mine): {packed.stat().st_size / 1e6:.2f} MB, int8"
    assert last == f"wrote {site / 'index.html'}: {(site / 'index.html').stat().st_size / 1e6:.2f} MB"
    assert len(said.out.splitlines()) == len(files_of_site(site)) + 1


def test_models_that_a_site_cannot_have(regard: Any, make_model: Any, random_model: Any, tmp_path: Path) -> None:
    model, site = make_model(tmp_path / "mine"), tmp_path / "site"
    same = shutil.copytree(model, tmp_path / "other" / "mine")
    said = regard("site", site, "--model", model, "--model", same)
    assert (said.code, said.out) == (2, "")
    assert "two models are named mine; give folders of different names" in said.err
    recurrent = random_model(family="recurrent")
    said = regard("site", site, "--model", recurrent)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"regard: {recurrent}: ")
    assert "regard explore shows such models" in said.err
    assert not site.exists()


def test_a_site_is_a_folder(regard: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    said = regard("site", tmp_path / "file")
    assert (said.code, said.out, said.err) == (2, "", f"regard: {tmp_path / 'file'} is a file; give a folder\n")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_page_that_is_not_built(reverse: ModelTranslator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.inspect.live_page.PAGE", tmp_path / "nowhere")
    with pytest.raises(RegardError, match=r"python web/build\.py"):
        write_site({"reverse": Explorer(reverse)}, tmp_path / "site")
    assert list(tmp_path.iterdir()) == []
