"""`regard site`: what it writes, what it replaces, what it leaves alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.errors import ConfigError
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
