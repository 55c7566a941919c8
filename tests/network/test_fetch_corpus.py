"""Corpora are downloaded from a real server, which breaks connections and sends what is wrong."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import os
import re
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from regard.config import CorpusConfig
from regard.data.corpus import corpus_path, expand
from regard.data.fetch import fetch_corpus, prepare
from regard.data.published import (
    Preparation,
    PublishedCorpus,
    PublishedFile,
    data_folder,
    find_corpus,
    published_corpora,
)
from regard.errors import ConfigError, DataError, NetworkError
from regard.model_folder.atomic import make_private_folder

RAW = {
    "/train.en.gz": gzip.compress(b"Two  dogs\trun. \n A cat\n"),
    "/train.csv": b'text,category\n"Where, is\nmy card?",card\nYes,other\n',
    "/images.gz": gzip.compress(bytes.fromhex("00000803 00000003 00000001 00000002") + b"abcdef"),
    "/labels.gz": gzip.compress(bytes.fromhex("00000801 00000003") + b"\1\2\3"),
    "/input.txt": "甲\r\n".encode(),
}
EXPECTED = {
    "train.en.gz": b"Two dogs run.\nA cat\n",
    "train.tsv.gz": b"Where, is my card?\tcard\nYes\tother\n",
    "images.gz": bytes.fromhex("00000803 00000002 00000001 00000002") + b"abcd",
    "labels.gz": bytes.fromhex("00000801 00000002") + b"\1\2",
    "input.txt.gz": "甲\r\n".encode(),
}
HOW: dict[str, tuple[str, Preparation, int]] = {
    "train.en.gz": ("/train.en.gz", "spaces", 0),
    "train.tsv.gz": ("/train.csv", "csv", 0),
    "images.gz": ("/images.gz", "first", 2),
    "labels.gz": ("/labels.gz", "first", 2),
    "input.txt.gz": ("/input.txt", "unchanged", 0),
}


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))


@pytest.fixture
def corpus(web: Any, page: Any) -> PublishedCorpus:
    web.pages.update({path: page(content) for path, content in RAW.items()})
    files = tuple(
        PublishedFile(name, web.url + path, len(EXPECTED[name]), hashlib.sha256(EXPECTED[name]).hexdigest(), how, first)
        for name, (path, how, first) in HOW.items()
    )
    return PublishedCorpus("toy", "a toy corpus", "loopback", "none", files)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: gzip.decompress(path.read_bytes()) for path in folder.glob("*.gz")}


def test_a_corpus_is_prepared_as_recipes_expect_it(corpus: PublishedCorpus, web: Any) -> None:
    folder = fetch_corpus(corpus, data_folder())
    assert folder == data_folder() / "toy"
    assert contents(folder) == EXPECTED
    assert "Licence: none" in (folder / "README.md").read_text("utf-8")
    fetch_corpus(corpus, data_folder())
    assert len(web.requests) == len(RAW)  # it was there
    assert corpus_path(
        CorpusConfig(text="${REGARD_DATA}/toy/input.txt.gz"), "${REGARD_DATA}/toy/input.txt.gz"
    ).is_file()


def test_broken_connections(corpus: PublishedCorpus, web: Any, tmp_path: Path) -> None:
    """Fifty in all: a command gives up after five attempts; the files before are not downloaded again."""
    last = web.pages["/input.txt"]
    last.breaks = [n % 4 for n in range(50)]
    for _ in range(10):
        with pytest.raises(NetworkError, match=r"connection ended after . of 5 bytes\. Run the command again"):
            fetch_corpus(corpus, data_folder(), pause=0)
        assert not (data_folder() / "toy").exists()
    assert contents(fetch_corpus(corpus, data_folder(), pause=0)) == EXPECTED
    paths = [path for path, _ in web.requests]
    assert (paths.count("/train.csv"), paths.count("/input.txt")) == (1, 51)
    assert not (tmp_path / "cache" / "downloads" / "toy").exists()


def test_changed_content_is_refused(corpus: PublishedCorpus, web: Any, page: Any) -> None:
    for wrong in (b"", b"text,category\nyes,other\n", b"\xff", b"a\n"):
        web.pages["/train.csv"] = page(wrong)
        with pytest.raises(NetworkError, match=r"content is not the expected one|not a file of the expected form"):
            fetch_corpus(corpus, data_folder(), pause=0)
    web.pages["/train.csv"] = page(RAW["/train.csv"])
    web.pages["/images.gz"] = page(RAW["/images.gz"][:-9])
    with pytest.raises(NetworkError, match=r"images\.gz is cut off"):
        fetch_corpus(corpus, data_folder(), pause=0)
    assert not (data_folder() / "toy").exists()


def test_a_corpus_that_is_there_is_checked(corpus: PublishedCorpus, web: Any) -> None:
    folder = fetch_corpus(corpus, data_folder())
    path = folder / "train.en.gz"
    for content, problem in ((gzip.compress(b"other\n"), "SHA-256 is another"), (b"x", "another"), (None, "missing")):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(DataError, match=rf"train\.en\.gz is .*{problem}.* Rename or delete"):
            fetch_corpus(corpus, data_folder())
        path.touch()
    assert len(web.requests) == len(RAW)  # nothing is overwritten


def test_what_a_command_left_that_was_killed_at_its_end_is_deleted(corpus: PublishedCorpus, tmp_path: Path) -> None:
    fetch_corpus(corpus, data_folder())
    waiting = tmp_path / "cache" / "downloads" / "toy"
    waiting.mkdir()
    (waiting / "train.en.gz").write_bytes(b"x")
    fetch_corpus(corpus, data_folder())
    assert not waiting.exists()


def test_the_cache_is_private_and_old_downloads_are_deleted(corpus: PublishedCorpus, tmp_path: Path) -> None:
    corpus = dataclasses.replace(corpus, files=corpus.files[:1])
    old, new = (tmp_path / "cache" / "downloads" / name for name in ("old", "new"))
    for folder, days in ((old, 8), (new, 6)):
        make_private_folder(folder)
        (folder / "model.safetensors.part").write_bytes(b"half")
        for path in (folder / "model.safetensors.part", folder):
            os.utime(path, (time.time() - days * 86400,) * 2)
    fetch_corpus(corpus, data_folder())
    assert [path.name for path in old.parent.iterdir()] == ["new"]
    for path in (tmp_path / "cache", old.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_damaged_file_in_the_cache_is_downloaded_again(corpus: PublishedCorpus, web: Any, tmp_path: Path) -> None:
    web.pages["/input.txt"].status = 404
    with pytest.raises(NetworkError, match="404"):
        fetch_corpus(corpus, data_folder(), pause=0)
    waiting = tmp_path / "cache" / "downloads" / "toy" / "train.en.gz"
    waiting.write_bytes(gzip.compress(b"other\n"))
    web.pages["/input.txt"].status = 200
    assert contents(fetch_corpus(corpus, data_folder(), pause=0)) == EXPECTED


@pytest.mark.parametrize("content", [b"x", b"\0\0\x08\x03\0\0\0\0", b"text\nonly\n", b"\xff\xff\xff"])
def test_files_of_another_form(content: bytes) -> None:
    with pytest.raises(NetworkError, match="not a file of the expected form"):
        prepare(PublishedFile("a.gz", "http://localhost/a", 1, "", "first", 1), content)
    with pytest.raises(NetworkError, match="not a file of the expected form"):
        prepare(PublishedFile("a.gz", "http://localhost/a", 1, "", "csv"), b"text,label\n" + content)


def test_what_is_not_packed_is_refused() -> None:
    with pytest.raises(NetworkError, match=r"http://localhost/a\.gz is not a gzip file: .* Nothing was stored"):
        prepare(PublishedFile("a.gz", "http://localhost/a.gz", 1, "", "unchanged"), b"plain text")


def test_a_csv_file_with_a_cell_that_is_too_long() -> None:
    with pytest.raises(NetworkError, match=r"not a file of the expected form: field larger than field limit"):
        prepare(PublishedFile("a.gz", "http://localhost/a", 1, "", "csv"), b"text,label\n" + b"a" * 200_000 + b",b\n")


def test_the_table() -> None:
    corpora = published_corpora()
    names = [corpus.name for corpus in corpora]
    assert len(set(names)) == len(names)
    for corpus in corpora:
        assert all((corpus.about, corpus.source, corpus.licence))
        for file in corpus.files:
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
            assert file.url.startswith("https://")
            assert file.name.endswith(".gz")
            assert (file.first > 0) == (file.preparation == "first")


def test_what_recipes_need_is_in_the_table() -> None:
    recipes = Path(__file__).parents[2] / "recipes"
    texts = [path.read_text("utf-8") for path in [*recipes.glob("*.toml"), *recipes.glob("*.py")]]
    needed = {match for text in texts for match in re.findall(r"\$\{REGARD_DATA\}/([^/\"]+)/([^/\"]+)", text)}
    known = {corpus.name: {file.name for file in corpus.files} for corpus in published_corpora()}
    assert needed
    for name, file in needed:
        assert not known[name] or file in known[name], f"{name}/{file}"


def test_errors_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="did you mean 'multi30k'"):
        find_corpus("multi30")
    with pytest.raises(ConfigError, match=r"put together from several files .* Source: GitHub .* Licence: CC-BY"):
        fetch_corpus(find_corpus("tatoeba-zh-en"), tmp_path)
    wanted = "${REGARD_DATA}/multi30k/train.en.gz"
    with pytest.raises(DataError, match="Or download the corpus: regard data get multi30k"):
        corpus_path(CorpusConfig(src=wanted, tgt=wanted), wanted)


def test_without_the_variable_the_folder_of_the_user_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    with pytest.raises(DataError, match="REGARD_DATA, which is not set"):
        expand("${REGARD_DATA}/a")
    (tmp_path / "share" / "regard" / "data").mkdir(parents=True)
    assert expand("${REGARD_DATA}/a") == tmp_path / "share" / "regard" / "data" / "a"


def test_a_file_that_is_too_long(corpus: PublishedCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.fetch.MAX_DOWNLOAD", 3)
    with pytest.raises(NetworkError, match="more than 3 bytes"):
        fetch_corpus(dataclasses.replace(corpus), data_folder(), pause=0)
