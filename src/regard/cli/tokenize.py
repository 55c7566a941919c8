"""`regard tokenize`: encode text to tokens or ids, and decode ids."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli.inputs import complete_file, model_option, progress_bar, read_lines
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.tokenizers.protocol import Tokenizer

CHUNK_LINES = 1_000  # between updates of the progress bar


@click.command("tokenize", short_help="Encode text to tokens, or decode ids.")
@click.argument("text", required=False, shell_complete=complete_file)
@model_option
@click.option("--target", is_flag=True, help="Use the target vocabulary, if the model has two.")
@click.option("--ids", is_flag=True, help="Print token ids instead of tokens.")
@click.option("--decode", is_flag=True, help="Decode: TEXT contains ids.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line: text, pieces, ids.")
def command(text: str | None, model_path: Path | None, target: bool, ids: bool, decode: bool, as_json: bool) -> None:
    """Tokenize TEXT line by line: a text in quotes, a file, or - for standard input.

    In SentencePiece tokens, ▁ is a space, and <0xE7> is a byte of a character that is not in the vocabulary. --model
    may also be a SentencePiece .model file.

    \b
    Examples:
      regard tokenize "我爱你。"
      regard tokenize "Two dogs run." --model runs/multi30k-en-de/model
      regard tokenize input.txt --model tokenizer.model --ids > ids.txt
      regard tokenize ids.txt --model tokenizer.model --decode
    """
    if ids and decode:
        raise ConfigError("--ids and --decode cannot be combined")
    lines = read_lines(text)
    tokenizer = load_tokenizer(model_path, lines, target)
    rows: list[Row] = []
    with progress_bar("decoding" if decode else "encoding", len(lines)) as done:
        for start in range(0, len(lines), CHUNK_LINES):
            some = lines[start : start + CHUNK_LINES]
            rows += decoded(some, tokenizer, start + 1) if decode else encoded(some, tokenizer)
            done(len(some))
    shown = "text" if decode else "ids" if ids else "pieces"
    for row in rows:
        if as_json:
            click.echo(json.dumps(row, ensure_ascii=False))
        else:
            value = row[shown]
            click.echo(value if isinstance(value, str) else " ".join(map(str, value)))


Row = dict[str, str | list[int] | list[str]]


def load_tokenizer(path: Path | None, lines: list[str], target: bool) -> Tokenizer:
    """The tokenizer of a model folder (its source or target side) or of a SentencePiece file."""
    from regard.config import TranslationConfig
    from regard.model_folder.folder import read_description
    from regard.model_folder.registry import find_folder, models_for
    from regard.text.language import detect_language
    from regard.tokenizers.read import text_tokenizer, translation_tokenizer
    from regard.tokenizers.sentencepiece import SentencePieceModel, SentencePieceTokenizer

    path = find_folder(path) if path else models_for(detect_language("\n".join(lines)).language or None, None)[0].folder
    if not path.is_file():
        description = read_description(path)
        if not description.tokenizer:
            raise ConfigError(
                f"{path} is a {description.model.family} model, which has no tokenizer; give another model with --model"
            )
        if not isinstance(description.model, TranslationConfig):
            return text_tokenizer(path, description)
        both = translation_tokenizer(path, description)
        return SentencePieceTokenizer(both.tgt if target else both.src, description.lowercase)
    try:
        vocabulary = SentencePieceModel(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return SentencePieceTokenizer(vocabulary)


def encoded(lines: list[str], tokenizer: Tokenizer) -> list[Row]:
    found = tokenizer.encode(lines)
    return [{"text": line, "pieces": tokenizer.pieces(ids), "ids": ids} for line, ids in zip(lines, found, strict=True)]


def decoded(lines: list[str], tokenizer: Tokenizer, first: int) -> list[Row]:
    """Decode lines of ids; `first` is the number of the first line."""
    rows: list[Row] = []
    for number, line in enumerate(lines, start=first):
        try:
            ids = read_ids(line)
            rows.append({"text": tokenizer.decode(ids), "pieces": tokenizer.pieces(ids), "ids": ids})
        except ValueError as error:
            raise DataError(f"line {number}: {error}") from None
    return rows


def read_ids(line: str) -> list[int]:
    """Numbers separated by spaces or commas, with or without brackets."""
    words = re.split(r"[\s,]+", line.strip().removeprefix("[").removesuffix("]").strip())
    for word in filter(None, words):
        if not re.fullmatch(r"-?[0-9]{1,18}", word):
            raise ValueError(f"{word!r} is not an id; give integers separated by spaces, as --ids prints them")
    return [int(word) for word in words if word]
