"""How a text is segmented: normalised text, pieces, bytes of characters without a piece, merges in order.

Byte-pair encoding (Sennrich et al. 2016) starts from characters and merges the adjacent pair that was learnt earliest,
until no adjacent pair is a piece. SentencePiece stores that order as the pieces' scores, so the merges can be replayed
here. If the replay does not end in SentencePiece's own pieces, no merges are reported.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.text.normalise import SPACE_MARK, normalise
from regard.tokenizers.sentencepiece import PieceKind, SentencePieceModel

# The list of merges grows with the square of the text's length.
MERGES_UP_TO = 400  # characters


@dataclass(frozen=True)
class TokenPiece:
    id: int
    piece: str
    text: str  # what it decodes to; a character made of several bytes is given to the first
    kind: PieceKind


@dataclass(frozen=True)
class Merge:
    left: str
    right: str
    result: str
    place: int  # index of the result among the symbols
    symbols: tuple[str, ...]  # of the whole text, after this merge


@dataclass(frozen=True)
class Segmentation:
    text: str
    normalised: str
    pieces: tuple[TokenPiece, ...]
    start: tuple[str, ...]  # the symbols before the first merge
    merges: tuple[Merge, ...]  # empty for unigram models and for long texts


def segment(vocabulary: SentencePieceModel, text: str, lowercase: bool = False) -> Segmentation:
    [ids] = vocabulary.encode([text.lower() if lowercase else text])
    pieces = describe(vocabulary, ids)
    normalised = normalise(text.lower() if lowercase else text)
    if vocabulary.kind != "bpe" or len(normalised) > MERGES_UP_TO:
        return Segmentation(text, normalised, pieces, (), ())
    return Segmentation(text, normalised, pieces, *replay_merges(vocabulary, pieces))


def describe(vocabulary: SentencePieceModel, ids: Sequence[int]) -> tuple[TokenPiece, ...]:
    """Each piece with its text and kind."""
    kinds = [vocabulary.kind_of(i) for i in ids]
    pieces = vocabulary.pieces(ids)
    shown = (piece.replace(SPACE_MARK, " ") for piece in pieces)
    texts = [text if kind == "normal" else "" for text, kind in zip(shown, kinds, strict=True)]
    for first, character in byte_characters(pieces, kinds):
        texts[first] = character
    columns = zip(ids, pieces, texts, kinds, strict=True)
    return tuple(TokenPiece(i, piece, text, kind) for i, piece, text, kind in columns)


def byte_characters(pieces: Sequence[str], kinds: Sequence[PieceKind]) -> Iterator[tuple[int, str]]:
    """(index of its first byte, character) for each character that is encoded as bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    first: int | None = None
    for number, (piece, kind) in enumerate(zip(pieces, kinds, strict=True)):
        if kind != "byte":
            decoder.reset()
            first = None
            continue
        first = number if first is None else first
        character = decoder.decode(bytes.fromhex(piece[3:5]))
        if character:
            yield first, character
            first = None


def replay_merges(
    vocabulary: SentencePieceModel, pieces: Sequence[TokenPiece]
) -> tuple[tuple[str, ...], tuple[Merge, ...]]:
    """The characters, and the merges that turn them into these pieces."""
    symbols: list[str] = []
    wanted: list[str] = []
    for piece in pieces:
        if piece.kind == "normal":
            symbols.extend(piece.piece)
            wanted.append(piece.piece)
        elif piece.text or piece.kind != "byte":  # a character that is never merged
            symbols.append(piece.text or piece.piece)
            wanted.append(symbols[-1])
    start, ranks, merges = tuple(symbols), vocabulary.merge_ranks, []
    while True:
        pairs = [(ranks.get(symbols[i] + symbols[i + 1]), i) for i in range(len(symbols) - 1)]
        possible = [(rank, i) for rank, i in pairs if rank is not None]
        if not possible:
            break
        _, place = min(possible)  # of equals, the leftmost
        left, right = symbols[place : place + 2]
        symbols[place : place + 2] = [left + right]
        merges.append(Merge(left, right, left + right, place, tuple(symbols)))
    return (start, tuple(merges)) if symbols == wanted else ((), ())
