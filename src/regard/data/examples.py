"""Examples with a label, all in memory: texts or images, in batches whose order comes from (seed, epoch) alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.config import CorpusConfig, DataConfig, ViTConfig
from regard.data.batches import Place
from regard.data.corpus import check, chosen_part, expand, read_pairs
from regard.data.images import ImageSet, read_folders, read_idx_pair
from regard.data.prepare import Say
from regard.data.texts import get_lexicon
from regard.errors import ConfigError, DataError
from regard.text.lexicon import Lexicon

Numbers = npt.NDArray[np.int64]
POOL = 50  # batches that are sorted by length together


@dataclass
class PreparedLabels:
    """Texts as tokens, with the numbers of their labels."""

    lexicon: Lexicon
    labels: tuple[str, ...]
    train: list[tuple[list[int], int]]
    valid: list[tuple[list[int], int]]


@dataclass
class PreparedImages:
    labels: tuple[str, ...]
    train: ImageSet
    valid: ImageSet | None


def prepare_labels(data: DataConfig, lexicon: Lexicon, labels: tuple[str, ...] = ()) -> PreparedLabels:
    """Read and encode; the labels are those of the training texts, in the order of the alphabet."""
    check([*data.train, *data.valid])
    splits = [[pair for corpus in part for pair in labelled(corpus)] for part in (data.train, data.valid)]
    names = labels or data.label_names or tuple(sorted({label for _, label in splits[0]}))
    if len(names) < 2:
        raise DataError(f"every training text has the label {names[0]!r}: there is nothing to tell apart")
    number = {name: i for i, name in enumerate(names)}
    if unknown := {label for pairs in splits for _, label in pairs} - number.keys():
        raise DataError(
            f"the label {sorted(unknown)[0]!r} is not among those of the training texts: {', '.join(names)}"
        )
    train, valid = (
        [(ids, number[label]) for ids, (_, label) in zip(lexicon.encode([t for t, _ in pairs]), pairs, strict=True)]
        for pairs in splits
    )
    return PreparedLabels(lexicon, names, train, valid)


def label_lexicon(data: DataConfig, cache: Path, say: Say) -> Lexicon:
    """A vocabulary of the training texts, where no model is gone on from."""
    return get_lexicon(data, (text for corpus in data.train for text, _ in labelled(corpus)), cache, say)


def labelled(corpus: CorpusConfig) -> list[tuple[str, str]]:
    """(text, label) of a corpus."""
    return [(pair.src, pair.tgt.strip()) for pair in read_pairs(corpus)]


def prepare_images(data: DataConfig, model: ViTConfig) -> PreparedImages:
    if not data.train:
        raise ConfigError("there is no training corpus; give at least one [[data.train]] with images in the recipe")
    train, found = read_images(data.train, model)
    names = data.label_names or found
    valid = read_images(data.valid, model)[0] if data.valid else None
    if any(images.labels_N.max(initial=0) >= len(names) for images in (train, valid) if images is not None):
        raise DataError(f"there are images of more classes than the {len(names)} that have names: {', '.join(names)}")
    return PreparedImages(names, train, valid)


def read_images(corpora: Sequence[CorpusConfig], model: ViTConfig) -> tuple[ImageSet, tuple[str, ...]]:
    sets: list[ImageSet] = []
    names: tuple[str, ...] = ()
    for corpus in corpora:
        if not corpus.images:
            raise ConfigError("this model learns from images: give each [[data.train]] and [[data.valid]] `images`")
        if corpus.labels:
            found = read_idx_pair(expand(corpus.images), expand(corpus.labels))
        else:
            found, names = read_folders(expand(corpus.images), model.image_size, model.channels)
        sets.append(found.select(chosen_part(corpus, len(found))))
    whole = ImageSet(np.concatenate([s.pixels_NCYX for s in sets]), np.concatenate([s.labels_N for s in sets]))
    expected = (model.channels, model.image_size, model.image_size)
    if whole.pixels_NCYX.shape[1:] != expected:
        raise DataError(
            f"the images are {whole.pixels_NCYX.shape[1:]} (channels, height, width), but the model's settings say "
            f"{expected}: change model.image_size and model.channels"
        )
    return whole, names or tuple(str(number) for number in range(int(whole.labels_N.max()) + 1))


class Shuffled:
    """An endless stream of the numbers of examples; with lengths, those of like length together."""

    def __init__(self, count: int, rows: int, seed: int, lengths: Sequence[int] | None = None) -> None:
        self._count, self._rows, self._seed = count, max(rows, 1), seed % 2**63
        self._lengths = None if lengths is None else np.array(lengths)

    def iterate(self, place: Place) -> Iterator[tuple[Numbers, Place]]:
        epoch, number = place.epoch, place.batch
        while True:
            batches = self.batches(epoch)
            for i in range(number, len(batches)):
                yield batches[i], Place(epoch, 0, i + 1) if i + 1 < len(batches) else Place(epoch + 1)
            epoch, number = epoch + 1, 0

    def batches(self, epoch: int) -> list[Numbers]:
        random: Any = np.random.default_rng((self._seed, epoch))
        order = random.permutation(self._count)
        if self._lengths is not None:
            pool = self._rows * POOL
            pools = [order[start : start + pool] for start in range(0, len(order), pool)]
            order = np.concatenate([own[np.argsort(self._lengths[own], kind="stable")] for own in pools])
        cut = [order[start : start + self._rows] for start in range(0, len(order), self._rows)]
        return [cut[i] for i in random.permutation(len(cut))]
