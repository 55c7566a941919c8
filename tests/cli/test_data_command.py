"""`regard data`: what it lists, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.data.published import published_corpora


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "160")


def test_the_list_names_every_corpus_and_what_is_here(regard: Any, tmp_path: Path) -> None:
    (tmp_path / "lm-tang-poems").mkdir()
    rows = regard("data", "list").out.splitlines()
    for corpus in published_corpora():
        assert any(row.startswith(corpus.name) for row in rows)
    [poems] = [row for row in rows if row.startswith("lm-tang-poems")]
    assert " here " in poems
    [captions] = [row for row in rows if row.startswith("multi30k")]
    assert "regard data get" in captions


def test_the_path_of_a_corpus(regard: Any, tmp_path: Path) -> None:
    assert regard("data", "path").out == f"{tmp_path}\n"
    missing = regard("data", "path", "multi30k")
    assert missing.code == 3
    assert "regard data get multi30k downloads the corpus" in missing.err
    (tmp_path / "multi30k").mkdir()
    assert regard("data", "path", "multi30k").out == f"{tmp_path / 'multi30k'}\n"


def test_what_cannot_be_downloaded_is_refused(regard: Any) -> None:
    unknown, refused = regard("data", "get", "multi3k"), regard("data", "get", "tatoeba-zh-en")
    assert (unknown.code, refused.code) == (2, 2)
    assert "did you mean 'multi30k'" in unknown.err
    assert "put together from several files of its source" in refused.err
    assert "CC-BY 2.0 FR" in refused.err


def test_a_corpus_that_is_here_is_checked_and_not_downloaded(regard: Any, tmp_path: Path) -> None:
    corpus = next(corpus for corpus in published_corpora() if corpus.files)
    (tmp_path / corpus.name).mkdir()
    (tmp_path / corpus.name / corpus.files[0].name).write_text("something else")
    said = regard("data", "get", corpus.name)
    assert said.code == 3
    assert f"source: {corpus.source}; licence: {corpus.licence}" in said.out + said.err
    assert f"{tmp_path / corpus.name / corpus.files[0].name} is not the published file" in said.err
    assert (tmp_path / corpus.name / corpus.files[0].name).read_text() == "something else"
    own = next(corpus for corpus in published_corpora() if not corpus.files)
    (tmp_path / own.name).mkdir()
    assert regard("data", "get", own.name) == (0, f"{tmp_path / own.name}\n", "")
