"""Preparing data: what comes out, what is found again in the cache, and what is said when it cannot be done."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.config import CorpusConfig, DataConfig, FilterConfig, TokenizerConfig
from regard.data import prepare as preparing
from regard.data.content_cache import set_aside
from regard.data.corpus import read_pairs
from regard.data.prepare import prepare
from regard.errors import ConfigError, DataError
from regard.model_folder.atomic import default_cache, temporary_cache_folder

REVERSE = CorpusConfig(toy="reverse", size=300)
COPY = CorpusConfig(toy="copy", size=100, weight=2.0)
VALID = CorpusConfig(toy="reverse", size=20, seed=9)
PAIR_FILES = ("src.values", "src.offsets", "tgt.values", "tgt.offsets", "store.json")
DATA = DataConfig(train=(REVERSE, COPY), valid=(VALID,), tokenizer=TokenizerConfig(vocab_size=330))


def quiet(line: str) -> None:
    pass


def tsv(path: Path, *lines: str) -> CorpusConfig:
    path.write_text("\n".join(lines), "utf-8")
    return CorpusConfig(file=str(path))


def test_prepared_data(tmp_path: Path) -> None:
    said: list[str] = []
    prepared = prepare(DATA, tmp_path, say=said.append)
    assert prepared.weights == [1.0, 2.0]
    assert [len(store) for store in prepared.train] == [report.kept for report in prepared.report]
    assert [report.read for report in prepared.report] == [300, 100]
    assert prepared.report[1].kept == 100
    assert prepared.valid == [(pair.src, pair.tgt) for pair in read_pairs(VALID)]
    assert not prepared.reused
    store, pair = prepared.train[1], next(read_pairs(COPY))
    assert prepared.tokenizer.decode_src(store.src[0].tolist()) == pair.src
    assert not store.has_text
    assert said[0] == "training a joint bpe tokenizer of 330 pieces"
    assert said[-1] == "toy copy: 100 of 100 pairs kept"


def test_the_cache_is_used(tmp_path: Path) -> None:
    first = prepare(DATA, tmp_path, say=quiet)
    weighted = dataclasses.replace(DATA, train=(dataclasses.replace(REVERSE, weight=0.5), COPY))
    second = prepare(weighted, tmp_path, say=quiet)
    assert second.reused
    assert second.weights == [0.5, 2.0]
    assert second.report == first.report
    assert second.tokenizer.files() == first.tokenizer.files()
    assert prepare(DATA, tmp_path, quiet, tokenizer=first.tokenizer).reused


@pytest.mark.parametrize(
    "change",
    [
        {"train": (REVERSE,)},
        {"train": (dataclasses.replace(REVERSE, stop=0.5), COPY)},
        {"lowercase": True},
        {"filters": FilterConfig(max_tokens=7)},
        {"tokenizer": TokenizerConfig(vocab_size=320)},
        {"tokenizer": TokenizerConfig(vocab_size=330, kind="unigram")},
        {"tokenizer": TokenizerConfig(vocab_size=330, joint=False)},
        {"tokenizer": TokenizerConfig(vocab_size=330, dropout=0.1)},
    ],
)
def test_changed_settings_are_prepared_again(tmp_path: Path, change: dict[str, object]) -> None:
    prepare(DATA, tmp_path, say=quiet)
    assert not prepare(dataclasses.replace(DATA, **change), tmp_path, quiet).reused  # type: ignore[arg-type]


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    corpus = tsv(tmp_path / "a.tsv", "one two\tthree", "four\tfive")
    data = DataConfig(train=(corpus,), tokenizer=TokenizerConfig(vocab_size=280))
    cache = tmp_path / "cache"
    assert not prepare(data, cache, quiet).reused
    assert prepare(data, cache, quiet).reused
    os.utime(tmp_path / "a.tsv", ns=(1, 1))
    assert prepare(data, cache, quiet).reused
    tsv(tmp_path / "a.tsv", "one two\tthree", "four\tnine")
    os.utime(tmp_path / "a.tsv", ns=(1, 1))  # another text of the same size and time
    again = prepare(data, cache, quiet)
    assert not again.reused
    assert again.tokenizer.decode_tgt(again.train[0].tgt[1].tolist()) == "nine"
    tsv(tmp_path / "a.tsv", "one two\tthree", "four\tsix", "seven\teight")
    again = prepare(data, cache, quiet)
    assert not again.reused
    assert len(again.train[0]) == 3


def test_texts_are_stored_for_sampling(tmp_path: Path) -> None:
    corpus = tsv(tmp_path / "a.tsv", "Ｈello  World\t你好，世界", "same\tsame", "\tempty")
    data = DataConfig(train=(corpus,), tokenizer=TokenizerConfig(vocab_size=280, dropout=0.1), lowercase=True)
    prepared = prepare(data, tmp_path / "cache", quiet)
    [store] = prepared.train
    assert (store.src_text(0), store.tgt_text(0)) == ("Hello World", "你好，世界")
    assert prepared.tokenizer.decode_src(store.src[0].tolist()) == "hello world"
    assert prepared.report[0].counts() == {
        "read": 3,
        "kept": 1,
        "empty": 1,
        "identical": 1,
        "too_long": 0,
        "lopsided": 0,
    }


def test_many_pairs_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "PAIRS_AT_ONCE", 7)
    monkeypatch.setattr(preparing, "SECONDS_BETWEEN_LINES", 0.0)
    said: list[str] = []
    chunked = prepare(DATA, tmp_path / "a", said.append)
    whole = prepare(DATA, tmp_path / "b", quiet)
    assert "encoding toy copy: 100 pairs" in said
    for one, other in zip(chunked.train, whole.train, strict=True):
        assert [row.tolist() for row in one.src] == [row.tolist() for row in other.src]  # type: ignore[attr-defined]


def test_separate_and_ready_tokenizers(tmp_path: Path) -> None:
    separate = dataclasses.replace(DATA, tokenizer=TokenizerConfig(vocab_size=330, joint=False))
    tokenizer = prepare(separate, tmp_path, quiet).tokenizer
    assert not tokenizer.joint
    names = []
    for name, content in tokenizer.files().items():
        (tmp_path / name).write_bytes(content)
        names.append(str(tmp_path / name))
    for files, joint in ((tuple(names), False), ((names[0],), True)):
        ready = dataclasses.replace(DATA, tokenizer=TokenizerConfig(files=files))
        assert prepare(ready, tmp_path, quiet).tokenizer.joint is joint


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (("absent.model",), r"data\.tokenizer\.files: .*absent\.model cannot be read: No such file"),
        (("bad.model",), r"data\.tokenizer\.files: .*bad\.model: this is not a SentencePiece model"),
        (("a", "b", "c"), "names 3 files; give one"),
    ],
)
def test_invalid_tokenizer_files(tmp_path: Path, files: tuple[str, ...], said: str) -> None:
    (tmp_path / "bad.model").write_bytes(b"not a model")
    data = dataclasses.replace(DATA, tokenizer=TokenizerConfig(files=tuple(str(tmp_path / name) for name in files)))
    with pytest.raises(ConfigError, match=said):
        prepare(data, tmp_path, quiet)


def test_damaged_cache_entries_are_made_again(tmp_path: Path) -> None:
    prepare(DATA, tmp_path, quiet)
    for path in (*tmp_path.glob("tokenizer/*/*.model"), *tmp_path.glob("pairs/*/src.values")):
        path.write_bytes(b"damaged")
    said: list[str] = []
    assert not prepare(DATA, tmp_path, said.append).reused
    assert sum(line.startswith("the cached tokenizer is damaged: ") for line in said) == 1
    assert sum(line.startswith("the prepared data is damaged: ") for line in said) == 2
    assert len([*tmp_path.glob("*/.damaged-*")]) == 3
    assert prepare(DATA, tmp_path, quiet).reused


def test_one_bit_of_the_tokenizer_or_of_the_ids_is_noticed(tmp_path: Path) -> None:
    first = prepare(DATA, tmp_path, quiet)
    ids = [row.tolist() for store in first.train for row in store.src]  # type: ignore[attr-defined]
    names = ("tokenizer/[!.]*/tokenizer.model", "tokenizer/[!.]*/entry.json", *(f"pairs/[!.]*/{n}" for n in PAIR_FILES))
    for name in names:
        path = next(tmp_path.glob(name))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        said: list[str] = []
        again = prepare(DATA, tmp_path, said.append)
        assert not again.reused
        assert any(str(path) in line for line in said), name
        assert again.tokenizer.files() == first.tokenizer.files()
        assert [row.tolist() for store in again.train for row in store.src] == ids  # type: ignore[attr-defined]


def test_a_text_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    corpus = tsv(tmp_path / "a.tsv", *(f"one {n}\t{n} two" for n in range(50)))
    data = DataConfig(train=(corpus,), tokenizer=TokenizerConfig(vocab_size=280))

    def say(line: str) -> None:
        if line.startswith("training a joint"):
            tsv(tmp_path / "a.tsv", *(f"one {n}\t{n} six" for n in range(50)))

    with pytest.raises(DataError, match=r"a\.tsv changed while it was read; run the command again"):
        prepare(data, tmp_path / "cache", say)
    assert not [*(tmp_path / "cache").glob("*/*")]


def test_what_was_set_aside_is_deleted_after_a_day(tmp_path: Path) -> None:
    folder = tmp_path / "pairs" / "entry"
    folder.mkdir(parents=True)
    os.utime(folder, (1, 1))
    aside = set_aside(folder)
    temporary_cache_folder(tmp_path / "pairs" / "other")
    assert aside.exists()
    os.utime(aside, (1, 1))
    temporary_cache_folder(tmp_path / "pairs" / "other")
    assert not aside.exists()


def test_a_failure_halfway_leaves_no_entry(tmp_path: Path) -> None:
    tsv(tmp_path / "a.tsv", "one\ttwo", "three\tfour", "five")
    good = prepare(DATA, tmp_path / "cache", quiet)
    before = sorted((tmp_path / "cache" / "pairs").iterdir())
    data = DataConfig(train=(CorpusConfig(file=str(tmp_path / "a.tsv")),))
    with pytest.raises(DataError, match=r"a\.tsv, line 3: there is no tab"):
        prepare(data, tmp_path / "cache", quiet, tokenizer=good.tokenizer)
    assert sorted((tmp_path / "cache" / "pairs").iterdir()) == before


def test_no_pair_left_after_the_filters(tmp_path: Path) -> None:
    corpus = tsv(tmp_path / "a.tsv", "same\tsame", "\tempty")
    data = DataConfig(train=(corpus,), tokenizer=TokenizerConfig(vocab_size=280))
    with pytest.raises(DataError, match=r"no training pair is left.*\n.*0 of 2 pairs kept.*\n.*max_tokens = 256"):
        prepare(data, tmp_path, quiet)


def test_no_corpora_and_empty_validation(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"add at least one \[\[data\.train\]\]"):
        prepare(DataConfig(), tmp_path, quiet)
    blank = tsv(tmp_path / "blank.tsv", "\t", "a\t ")
    with pytest.raises(DataError, match="every validation pair has an empty side"):
        prepare(dataclasses.replace(DATA, valid=(blank,)), tmp_path, quiet)


def test_every_corpus_is_checked_before_any_work(tmp_path: Path) -> None:
    absent = CorpusConfig(file=str(tmp_path / "absent.tsv"))
    said: list[str] = []
    for split in ("valid", "test"):
        with pytest.raises(DataError, match=r"absent\.tsv"):
            prepare(dataclasses.replace(DATA, **{split: (absent,)}), tmp_path, said.append)  # type: ignore[arg-type]
    assert said == []


PREPARE_AND_PRINT = """
import sys
from pathlib import Path
from regard.config import CorpusConfig, DataConfig, TokenizerConfig
from regard.data.prepare import prepare
corpora = CorpusConfig(toy="reverse", size=300), CorpusConfig(toy="copy", size=100, weight=2.0)
data = DataConfig(train=corpora, tokenizer=TokenizerConfig(vocab_size=330))
prepared = prepare(data, Path(sys.argv[1]), lambda line: None)
print([store.src[row].tolist() for store in prepared.train for row in range(len(store))])
"""


def test_concurrent_processes_share_the_cache(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PREPARE_AND_PRINT, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert printed[0] == printed[1] == printed[2] != ""
    assert prepare(DATA, tmp_path, quiet).reused
    assert not list(tmp_path.glob("*/.*"))


def test_default_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("REGARD_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == tmp_path / ".cache" / "regard"


def test_a_prefix_is_encoded_but_not_filtered(tmp_path: Path) -> None:
    corpus = tsv(tmp_path / "a.tsv", "the same\tthe same", "one thing\tanother thing")
    told = dataclasses.replace(corpus, prefix="say again: ")
    data = dataclasses.replace(DATA, train=(corpus, told), valid=())
    prepared = prepare(data, tmp_path / "cache", quiet)
    assert [report.kept for report in prepared.report] == [1, 1]  # what is the same on both sides is left out
    texts = [prepared.tokenizer.decode_src(store.src[0].tolist()) for store in prepared.train]
    assert texts == ["one thing", "say again: one thing"]


def test_at_least_one_corpus_needs_a_weight(tmp_path: Path) -> None:
    weightless = tuple(dataclasses.replace(corpus, weight=0.0) for corpus in DATA.train)
    with pytest.raises(ConfigError, match="every training corpus has weight = 0"):
        prepare(dataclasses.replace(DATA, train=weightless), tmp_path, quiet)
    one = (DATA.train[0], weightless[1])
    assert prepare(dataclasses.replace(DATA, train=one), tmp_path, quiet).weights == [1.0, 0.0]


def test_the_test_data_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_bytes(b"one\teins\ntwo\t\xff\n")
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("eins\n")
    for corpus, words in (
        (CorpusConfig(file=str(tmp_path / "bad.tsv")), "bad.tsv, line 2: byte"),
        (CorpusConfig(src=str(tmp_path / "a"), tgt=str(tmp_path / "b")), "has 2 lines but"),
    ):
        said: list[str] = []
        with pytest.raises(DataError, match=words):
            prepare(dataclasses.replace(DATA, test=(corpus,)), tmp_path / "cache", said.append)
        assert said == [], "before anything is made"
