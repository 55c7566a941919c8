"""Labelled texts and images, all in memory, and a stream of shuffled batches, determined by (seed, epoch)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.config import CorpusConfig, DataConfig, ViTConfig
from regard.data.batches import DataPosition
from regard.data.corpus import check, check_training, chosen_part, corpus_name, corpus_path, read_pairs
from regard.data.images import ImageSet, read_folders, read_idx_pair
from regard.data.prepare import Say
from regard.data.texts import get_tokenizer
from regard.errors import ConfigError, DataError
from regard.tokenizers.protocol import Tokenizer

Numbers = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float64]  # per training example: how often it occurs in an epoch
POOL = 50  # batches that are sorted by length together


@dataclass
class PreparedLabels:
    """Texts as token ids, with the index of their label."""

    tokenizer: Tokenizer
    labels: tuple[str, ...]
    train: list[tuple[list[int], int]]
    weights: Weights
    valid: list[tuple[list[int], int]]


@dataclass
class PreparedImages:
    labels: tuple[str, ...]
    train: ImageSet
    weights: Weights
    valid: ImageSet | None


def prepare_labels(
    data: DataConfig, cache: Path, say: Say, tokenizer: Tokenizer | None = None, labels: tuple[str, ...] = ()
) -> PreparedLabels:
    """Read and encode labelled texts. Default labels: those of the training texts, in alphabetical order."""
    check_training(data)
    check([*data.train, *data.valid])
    corpora = [labelled(corpus, say) for corpus in data.train]
    train = [one for corpus in corpora for one in corpus]
    valid = [one for corpus in data.valid for one in labelled(corpus, say)]
    names = labels or data.label_names or tuple(sorted({label for _, label in train}))
    if len(names) < 2:
        raise DataError(f"every training text has the label {''.join(names)!r}: classification needs two or more")
    number = {name: i for i, name in enumerate(names)}
    if unknown := {label for _, label in (*train, *valid)} - number.keys():
        raise DataError(f"the label {sorted(unknown)[0]!r} is not one of the known labels: {', '.join(names)}")
    if tokenizer is None:
        tokenizer = get_tokenizer(data, (text for text, _ in train), cache, say)

    def encoded(examples: list[tuple[str, str]]) -> list[tuple[list[int], int]]:
        ids = tokenizer.encode([text for text, _ in examples])
        return [(one, number[label]) for one, (_, label) in zip(ids, examples, strict=True)]

    return PreparedLabels(tokenizer, names, encoded(train), weights_of(data.train, corpora), encoded(valid))


def labelled(corpus: CorpusConfig, say: Say) -> list[tuple[str, str]]:
    """(text, label) of a corpus."""
    pairs = [(pair.src, pair.tgt.strip()) for pair in read_pairs(corpus)]
    whole = [(text, label) for text, label in pairs if text.strip() and label]
    if left_out := len(pairs) - len(whole):
        say(f"{corpus_name(corpus)}: {left_out:,} of {len(pairs):,} lines lack a text or a label and are left out")
    return whole


def weights_of(corpora: Sequence[CorpusConfig], examples: Sequence[Sized]) -> Weights:
    return np.repeat([corpus.weight for corpus in corpora], [len(some) for some in examples])


def prepare_images(data: DataConfig, model: ViTConfig, labels: tuple[str, ...] = ()) -> PreparedImages:
    """Read all images. The classes are `labels`, else those in the settings, else those of the training images."""
    check_training(data)
    names = labels or data.label_names
    sets: list[ImageSet] = []
    for corpus in (*data.train, *data.valid):
        images, names = read_images(corpus, model, names)
        sets.append(images)
    train, valid = sets[: len(data.train)], sets[len(data.train) :]
    whole = joined(train)
    names = names or tuple(str(number) for number in range(int(whole.labels_N.max(initial=0)) + 1))
    if any(images.labels_N.max(initial=0) >= len(names) for images in sets):
        raise DataError(f"the images have more classes than the {len(names)} named ones: {', '.join(names)}")
    return PreparedImages(names, whole, weights_of(data.train, train), joined(valid) if valid else None)


def read_images(corpus: CorpusConfig, model: ViTConfig, names: tuple[str, ...]) -> tuple[ImageSet, tuple[str, ...]]:
    """The images of a corpus, and the names of their classes: `names`, or those of its folders."""
    if not corpus.images:
        raise ConfigError("this model is trained on images: set `images` in each [[data.train]] and [[data.valid]]")
    if corpus.labels:
        found = read_idx_pair(corpus_path(corpus, corpus.images), corpus_path(corpus, corpus.labels))
    else:
        found, names = read_folders(corpus_path(corpus, corpus.images), model.image_size, model.channels, names)
    expected = (model.channels, model.image_size, model.image_size)
    if found.pixels_NCYX.shape[1:] != expected:
        raise DataError(
            f"the images of {corpus.images} are {found.pixels_NCYX.shape[1:]} (channels, height, width), but the "
            f"model's settings say {expected}: change model.image_size and model.channels"
        )
    return found.select(chosen_part(corpus, len(found))), names


def joined(sets: Sequence[ImageSet]) -> ImageSet:
    return ImageSet(np.concatenate([s.pixels_NCYX for s in sets]), np.concatenate([s.labels_N for s in sets]))


class Shuffled:
    """An endless stream of batches of example indices; with `lengths`, a batch has examples of similar length."""

    def __init__(self, weights: Weights, rows: int, seed: int, lengths: Sequence[int] | None = None) -> None:
        self._weights, self._rows, self._seed = weights, max(rows, 1), seed % 2**63
        self._lengths = None if lengths is None else np.array(lengths)
        self.examples_per_epoch = float(weights.sum())
        if self.examples_per_epoch < 1:
            raise DataError("an epoch would have no examples: raise the weight of a training corpus that is not empty")

    def iterate(self, place: DataPosition) -> Iterator[tuple[Numbers, DataPosition]]:
        epoch, number = place.epoch, place.batch
        while True:
            batches = self.batches(epoch)
            for i in range(number, len(batches)):
                yield batches[i], DataPosition(epoch, 0, i + 1) if i + 1 < len(batches) else DataPosition(epoch + 1)
            epoch, number = epoch + 1, 0

    def batches(self, epoch: int) -> list[Numbers]:
        random: Any = np.random.default_rng((self._seed, epoch))
        order = random.permutation(self.chosen(random))
        if self._lengths is not None and len(order):
            pool = self._rows * POOL
            pools = [order[start : start + pool] for start in range(0, len(order), pool)]
            order = np.concatenate([own[np.argsort(self._lengths[own], kind="stable")] for own in pools])
        cut = [order[start : start + self._rows] for start in range(0, len(order), self._rows)]
        return [cut[i] for i in random.permutation(len(cut))]

    def chosen(self, random: Any) -> Numbers:
        """The examples of an epoch: one of weight 2.5 occurs twice, and with probability 0.5 once more."""
        whole, part = np.divmod(self._weights, 1)
        times = whole + (random.random(len(part)) < part if part.any() else 0)
        return np.repeat(np.arange(len(times)), times.astype(np.int64))
