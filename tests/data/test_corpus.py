"""Corpora of every kind, and what a person is told about a bad one."""

import dataclasses
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import CorpusConfig, ViTConfig
from regard.config.recipe import load_recipe
from regard.data.corpus import Pair, check, chosen_part, expand, read_pairs
from regard.data.examples import read_images
from regard.data.texts import read_texts
from regard.data.toy import toy_pairs
from regard.errors import ConfigError, DataError

RECIPES = Path(__file__).parents[2] / "recipes"
PAIRS = [Pair("我爱你。", "I love you.", 1), Pair("", "nothing", 2), Pair("a\u2028b\x85c", "d\x0ce", 3)]


def write(path: Path, content: bytes) -> str:
    if path.suffix == ".gz":
        content = gzip.compress(content)
    if path.suffix == ".zst":
        content = zstandard.compress(content)
    path.write_bytes(content)
    return str(path)


def aligned(folder: Path, src: bytes, tgt: bytes, ending: str = "") -> CorpusConfig:
    return CorpusConfig(src=write(folder / f"a.zh{ending}", src), tgt=write(folder / f"a.en{ending}", tgt))


def one_file(folder: Path, name: str, content: bytes) -> CorpusConfig:
    return CorpusConfig(file=write(folder / name, content))


def joined(texts: list[str], end: str = "\n") -> bytes:
    return "".join(text + end for text in texts).encode()


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_every_kind_gives_the_same_pairs(tmp_path: Path, ending: str, line_end: str) -> None:
    bom = b"\xef\xbb\xbf"
    src, tgt = joined([p.src for p in PAIRS], line_end), joined([p.tgt for p in PAIRS], line_end)
    assert list(read_pairs(aligned(tmp_path, bom + src, tgt, ending))) == PAIRS
    tsv = bom + joined([f"{p.src}\t{p.tgt}\tmore" for p in PAIRS], line_end)
    assert list(read_pairs(one_file(tmp_path, f"a.tsv{ending}", tsv))) == PAIRS
    jsonl = joined([json.dumps({"src": p.src, "tgt": p.tgt, "n": 1}) for p in PAIRS], line_end)
    assert list(read_pairs(one_file(tmp_path, f"a.jsonl{ending}", jsonl))) == PAIRS


def test_blank_lines_are_pairs_with_empty_sides(tmp_path: Path) -> None:
    assert list(read_pairs(aligned(tmp_path, b"a\n\nb", b"x\n\ny"))) == [("a", "x", 1), ("", "", 2), ("b", "y", 3)]
    assert list(read_pairs(one_file(tmp_path, "a.tsv", b"a\tx\n\n"))) == [("a", "x", 1), ("", "", 2)]
    assert list(read_pairs(one_file(tmp_path, "a.jsonl", b'\n{"src":"a","tgt":"x"}'))) == [("", "", 1), ("a", "x", 2)]


def test_a_prefix_precedes_every_source_that_is_not_empty(tmp_path: Path) -> None:
    corpus = dataclasses.replace(aligned(tmp_path, b"a\n\nb", b"x\n\ny"), prefix="to x: ")
    assert list(read_pairs(corpus)) == [("to x: a", "x", 1), ("", "", 2), ("to x: b", "y", 3)]
    toys = list(read_pairs(CorpusConfig(toy="copy", size=3, prefix="copy: ")))
    assert [pair.src for pair in toys] == [f"copy: {pair.tgt}" for pair in toys]


@given(count=st.integers(1, 50), cut=st.floats(0, 1), seed=st.integers(0, 5))
def test_two_parts_of_a_shuffled_file_are_all_of_it(count: int, cut: float, seed: int) -> None:
    both = [
        chosen_part(CorpusConfig(shuffle=True, seed=seed, **side), count).tolist()
        for side in ({"stop": cut}, {"start": cut})
    ]
    assert sorted(both[0] + both[1]) == list(range(count))


def test_a_file_with_one_class_after_the_other_may_be_shuffled() -> None:
    plain, mixed = (chosen_part(CorpusConfig(start=0.5, shuffle=shuffle), 100) for shuffle in (False, True))
    assert plain.min() == 50
    assert 10 < np.count_nonzero(mixed < 50) < 40


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_part_of_a_corpus_keeps_pairs_together_and_in_order(tmp_path: Path, shuffle: bool) -> None:
    lines = [f"{number:02}" for number in range(40)]
    whole = aligned(tmp_path, "\n".join(lines).encode(), "\n".join(lines).encode())
    first, rest = (
        list(read_pairs(dataclasses.replace(whole, shuffle=shuffle, **side)))
        for side in ({"stop": 0.25}, {"start": 0.25})
    )
    assert len(first) == 10
    assert all(pair.src == pair.tgt == lines[pair.line - 1] for pair in first)
    assert [pair.line for pair in first] == sorted(pair.line for pair in first)
    assert sorted([*first, *rest]) == list(read_pairs(whole))
    assert (first == list(read_pairs(whole))[:10]) is not shuffle


def test_other_jsonl_fields(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b'{"zh": "a", "en": "x"}\n')
    assert list(read_pairs(CorpusConfig(file=path, src_field="zh", tgt_field="en"))) == [("a", "x", 1)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])), min_size=1))
def test_zstd_lines_of_any_text(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("zstd") / "a.zst"
    whole = joined(["first", *texts])
    half = len(whole) // 2
    path.write_bytes(zstandard.compress(whole[:half]) + zstandard.compress(whole[half:]))
    corpus = CorpusConfig(src=str(path), tgt=str(path))
    assert [pair.src for pair in read_pairs(corpus)] == ["first", *texts]


def test_unequal_line_counts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.zh has 3 lines but .*a\.en has 1; line n"):
        list(read_pairs(aligned(tmp_path, b"a\nb\nc\n", b"x\n")))
    with pytest.raises(DataError, match=r"a\.zh has 1 lines but .*a\.en has 3"):
        list(read_pairs(aligned(tmp_path, b"a\n", b"x\ny\nz")))


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.zh, line 2: byte 3 of the line \(0xff\) is not UTF-8; convert"):
        list(read_pairs(aligned(tmp_path, b"a\nbc\xffd\n", b"x\ny\n")))


@pytest.mark.parametrize(
    ("name", "packed", "said"),
    [
        ("a.tsv.gz", gzip.compress(b"a\tb\n" * 9999, mtime=0)[:-20], "damaged or not a gzip file"),
        ("a.tsv.gz", b"plain text\tnot gzip\n", "damaged or not a gzip file"),
        ("a.tsv.gz", gzip.compress(b"a\tb\n" * 9999, mtime=0)[:40] + b"\xff" * 30, "damaged or not a gzip file"),
        (
            "a.tsv.zst",
            zstandard.compress(b"a\tb\n" * 9999)[:-4],
            "damaged or not a Zstandard file .*is truncated",
        ),
        ("a.tsv.zst", b"plain text\tnot zstd\n", "damaged or not a Zstandard file"),
    ],
)
def test_damaged_packing(tmp_path: Path, name: str, packed: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(packed)
    with pytest.raises(DataError, match=said):
        list(read_pairs(CorpusConfig(file=str(tmp_path / name))))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", b"a\tb\nno tab\n", r"a\.tsv, line 2: there is no tab"),
        ("a.jsonl", b"{oops\n", r"a\.jsonl, line 1: not JSON"),
        ("a.jsonl", b"[" * 100_000, r"a\.jsonl, line 1: not JSON"),
        ("a.jsonl", b"\n[1, 2]\n", r"a\.jsonl, line 2: a line must be a JSON object, not '\[1, 2\]'"),
        ("a.jsonl", b'{"src": "a", "target": "b"}', r"line 1: there is no field 'tgt' \(it has 'src', 'target'\)"),
        ("a.jsonl", b'{"src": "a", "tgt": 3}', r"line 1: the field 'tgt' must be a text, not 3"),
    ],
)
def test_malformed_lines(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    with pytest.raises(DataError, match=said):
        list(read_pairs(one_file(tmp_path, name, content)))


@pytest.mark.parametrize(
    ("corpus", "said"),
    [
        (CorpusConfig(), "This one has none of them"),
        (CorpusConfig(src="a", tgt="b", file="c.tsv"), r"This one has src = 'a', tgt = 'b', file = 'c\.tsv'"),
        (CorpusConfig(file="c.tsv", toy="copy"), "toy = 'copy'"),
        (CorpusConfig(src="a"), "the corpus with src = 'a' lacks tgt"),
        (CorpusConfig(tgt="b"), "the corpus with tgt = 'b' lacks src"),
        (CorpusConfig(file="c.txt"), r"file = 'c\.txt' must end in \.tsv or \.jsonl"),
    ],
)
def test_settings_without_a_corpus(corpus: CorpusConfig, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check([corpus])


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*absent\.tsv\n  Correct the path in the recipe"):
        check([CorpusConfig(file=str(tmp_path / "absent.tsv"))])
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(DataError, match=r"folder\.tsv is a folder"):
        check([CorpusConfig(file=str(tmp_path / "folder.tsv"))])


def test_missing_published_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = CorpusConfig(
        file="${REGARD_DATA}/x/a.tsv", about="captions", published="https://example.org/x", licence="CC-BY 4.0"
    )
    described = ["Corpus: captions", "Published at: https://example.org/x", "Licence: CC-BY 4.0"]
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    with pytest.raises(DataError) as raised:
        check([corpus])
    assert str(raised.value).split("\n  ") == [
        f"there is no file {tmp_path}/x/a.tsv",
        *described,
        f"Set REGARD_DATA to the folder that contains x/a.tsv (it is {tmp_path})",
    ]
    monkeypatch.delenv("REGARD_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "empty"))
    with pytest.raises(DataError) as raised:
        check([corpus])
    assert str(raised.value).split("\n  ") == [
        "the environment variable REGARD_DATA is not set",
        *described,
        "Set REGARD_DATA to the folder that contains x/a.tsv (export REGARD_DATA=/path/to/data)",
    ]


def test_every_kind_of_corpus_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", "/nowhere")
    said = "REGARD_DATA is not set\n  Corpus: poems\n"
    with pytest.raises(DataError, match=said):
        list(read_texts(CorpusConfig(text="${REGARD_DATA}/a.txt", about="poems")))
    with pytest.raises(DataError, match=said):
        read_images(CorpusConfig(images="${REGARD_DATA}/a", about="poems"), ViTConfig(), ())


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_says_where_its_corpora_are_published(recipe: Path) -> None:
    data = load_recipe(recipe).data
    for corpus in (*data.train, *data.valid, *data.test):
        files = "".join((corpus.src, corpus.file, corpus.text, corpus.images))
        assert "REGARD_DATA" not in files or (corpus.about and corpus.published), files


def test_expand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", "/data")
    monkeypatch.setenv("CORPUS", "c")
    assert expand("${REGARD_DATA}/$CORPUS/a.gz") == Path("/data/c/a.gz")
    monkeypatch.delenv("REGARD_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", "/nowhere")
    with pytest.raises(DataError, match="needs the environment variable REGARD_DATA, which is not set"):
        expand("${REGARD_DATA}/a")
    monkeypatch.delenv("CORPUS")
    with pytest.raises(DataError, match="needs the environment variable CORPUS, which is not set"):
        expand("${CORPUS}/a")


def test_check_finds_empty_corpora(tmp_path: Path) -> None:
    check([one_file(tmp_path, "good.tsv", b"a\tb\n"), CorpusConfig(toy="reverse")])
    with pytest.raises(DataError, match=r"empty\.tsv is empty; a corpus needs at least one sentence pair"):
        check([one_file(tmp_path, "empty.tsv", b"")])


def test_toy_tasks() -> None:
    copies = list(toy_pairs("copy", 200, seed=1))
    assert len(copies) == 200
    assert all(src == tgt and 2 <= len(src.split()) <= 10 for src, tgt in copies)
    assert all(src.split() == tgt.split()[::-1] for src, tgt in toy_pairs("reverse", 200, seed=1))
    assert copies == list(toy_pairs("copy", 200, seed=1)) != list(toy_pairs("copy", 200, seed=2))
    assert next(read_pairs(CorpusConfig(toy="reverse", seed=1))) == (*next(toy_pairs("reverse", 1, 1)), 1)
