"""`regard tokenize`: text into the pieces that a model sees, and back."""

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

LINES_AT_ONCE = 1_000


@click.command("tokenize", short_help="Cut text into pieces, or join them.")
@click.argument("text", required=False, shell_complete=complete_file)
@model_option
@click.option("--target", is_flag=True, help="With the vocabulary of the target language, where there are two.")
@click.option("--ids", is_flag=True, help="Give the number of each piece instead of the piece.")
@click.option("--decode", is_flag=True, help="The other way: TEXT holds ids; give the text they stand for.")
@click.option("--json", "as_json", is_flag=True, help="An object a line: text, pieces, ids.")
def command(text: str | None, model_path: Path | None, target: bool, ids: bool, decode: bool, as_json: bool) -> None:
    """Cut TEXT into pieces: words in quotes, a file, or - for standard input; line by line.

    A piece that begins with ▁ begins a word; <0xE7> is a byte of a character that the vocabulary lacks. --model may
    also be a bare SentencePiece .model file.

    \b
    Examples:
      regard tokenize "我爱你。"
      regard tokenize "Two dogs run." --model runs/multi30k-en-de/model
      regard tokenize input.txt --model tokenizer.model --ids > ids.txt
      regard tokenize ids.txt --model tokenizer.model --decode
    """
    if ids and decode:
        raise ConfigError("--ids and --decode are opposite ways; give one of them")
    lines = read_lines(text)
    lexicon = load_lexicon(model_path, lines, target)
    rows: list[Row] = []
    with progress_bar("decoding" if decode else "encoding", len(lines)) as done:
        for start in range(0, len(lines), LINES_AT_ONCE):
            some = lines[start : start + LINES_AT_ONCE]
            rows += decoded(some, lexicon, start + 1) if decode else encoded(some, lexicon)
            done(len(some))
    shown = "text" if decode else "ids" if ids else "pieces"
    for row in rows:
        if as_json:
            click.echo(json.dumps(row, ensure_ascii=False))
        else:
            value = row[shown]
            click.echo(value if isinstance(value, str) else " ".join(map(str, value)))


Row = dict[str, str | list[int] | list[str]]


def load_lexicon(path: Path | None, lines: list[str], target: bool) -> Tokenizer:
    """The tokenizer of a model folder, one side of it where it has two, or that of a SentencePiece file."""
    from regard.config import TranslationConfig
    from regard.model_folder.folder import read_description
    from regard.model_folder.registry import find_folder, models_for
    from regard.text.language import detect_language
    from regard.tokenizers.pair import TokenizerPair
    from regard.tokenizers.protocol import read_tokenizer
    from regard.tokenizers.sentencepiece import SentencePieceModel, SentencePieceTokenizer

    path = find_folder(path) if path else models_for(detect_language("\n".join(lines)).language or None, None)[0].folder
    if not path.is_file():
        description = read_description(path)
        if not description.tokenizer:
            raise ConfigError(
                f"{path} has no tokenizer, which a {description.model.family} model can do without; name another "
                f"model with --model"
            )
        if not isinstance(description.model, TranslationConfig):
            return read_tokenizer(description.tokenizer, description.lowercase)
        both = TokenizerPair.from_files(description.tokenizer, description.lowercase)
        return SentencePieceTokenizer(both.tgt if target else both.src, description.lowercase)
    try:
        vocabulary = SentencePieceModel(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return SentencePieceTokenizer(vocabulary)


def encoded(lines: list[str], lexicon: Tokenizer) -> list[Row]:
    found = lexicon.encode(lines)
    return [{"text": line, "pieces": lexicon.pieces(ids), "ids": ids} for line, ids in zip(lines, found, strict=True)]


def decoded(lines: list[str], lexicon: Tokenizer, first: int) -> list[Row]:
    """The texts of lines of ids, of which the first has that number."""
    rows: list[Row] = []
    for number, line in enumerate(lines, start=first):
        try:
            ids = read_ids(line)
            rows.append({"text": lexicon.decode(ids), "pieces": lexicon.pieces(ids), "ids": ids})
        except ValueError as error:
            raise DataError(f"line {number}: {error}") from None
    return rows


def read_ids(line: str) -> list[int]:
    """Numbers with spaces or commas between them, perhaps in brackets."""
    words = re.split(r"[\s,]+", line.strip().removeprefix("[").removesuffix("]").strip())
    for word in filter(None, words):
        if not re.fullmatch(r"-?[0-9]{1,18}", word):
            raise ValueError(f"{word!r} is not an id; give whole numbers with spaces between, as --ids writes them")
    return [int(word) for word in words if word]
