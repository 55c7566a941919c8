"""Running text: what is read, which tokenizer it gets, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.config import CorpusConfig, DataConfig, TokenizerConfig
from regard.data.texts import check_texts, get_tokenizer, read_texts
from regard.errors import ConfigError, DataError
from regard.tokenizers.training import train_vocabulary

CHARACTERS = TokenizerConfig(kind="characters", vocab_size=300)


def text(path: Path, content: str, **settings: int) -> CorpusConfig:
    path.write_text(content, "utf-8")
    return CorpusConfig(text=str(path), **settings)  # type: ignore[arg-type]


def quiet(line: str) -> None:
    pass


def test_a_column_of_a_table(tmp_path: Path) -> None:
    corpus = text(tmp_path / "a.tsv", "1\tone\nno tab\n2\t\n3\tthree\tmore\n", column=2)
    assert [*read_texts(corpus)] == ["one", "three"]


def test_a_text_without_text_is_refused(tmp_path: Path) -> None:
    good, empty = text(tmp_path / "good", "one\n"), text(tmp_path / "empty", "\n  \n")
    check_texts(DataConfig(train=(good,)))
    for data in (DataConfig(train=(good, empty)), DataConfig(train=(good,), valid=(empty,))):
        with pytest.raises(DataError, match="empty is empty; running text needs at least one line with text"):
            check_texts(data)


def test_a_tokenizer_from_a_file(tmp_path: Path) -> None:
    vocabulary = train_vocabulary(["the cat sat"] * 5, "bpe", 290)
    for name in ("one.model", "two.model"):
        (tmp_path / name).write_bytes(vocabulary.proto)
    (tmp_path / "bad.model").write_bytes(b"not a model")

    def made(*names: str) -> list[list[int]]:
        settings = TokenizerConfig(files=tuple(str(tmp_path / name) for name in names))
        data = DataConfig(lowercase=True, tokenizer=settings)
        return get_tokenizer(data, iter(()), tmp_path / "cache", quiet).encode(["The CAT"])

    assert made("one.model") == vocabulary.encode(["the cat"])
    for names, said in (
        (("one.model", "two.model"), r"has one vocabulary: list one file in data\.tokenizer\.files"),
        (("absent.model",), r"data\.tokenizer\.files: .*absent\.model cannot be read: No such file"),
        (("bad.model",), r"data\.tokenizer\.files: .*bad\.model: this is not a SentencePiece model"),
    ):
        with pytest.raises(ConfigError, match=said):
            made(*names)
    assert not (tmp_path / "cache").exists()


def test_a_damaged_tokenizer_in_the_cache_is_made_again(tmp_path: Path) -> None:
    data = DataConfig(train=(text(tmp_path / "a", "床前明月光\n"),), tokenizer=CHARACTERS)
    said: list[str] = []
    first = get_tokenizer(data, read_texts(data.train[0]), tmp_path / "cache", said.append)
    assert get_tokenizer(data, iter(()), tmp_path / "cache", said.append).files() == first.files()
    assert said == []
    [stored] = tmp_path.glob("cache/tokenizer/*/characters.txt")
    stored.write_bytes(b"damaged")
    again = get_tokenizer(data, read_texts(data.train[0]), tmp_path / "cache", said.append)
    assert again.files() == first.files()
    [line] = said
    [aside] = tmp_path.glob("cache/tokenizer/.damaged-*")
    assert line.startswith("the cached tokenizer is damaged: ")
    assert line.endswith(f"making it again, the damaged one is {aside}")
    assert (aside / "characters.txt").read_bytes() == b"damaged"
