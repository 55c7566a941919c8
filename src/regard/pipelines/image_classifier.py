"""`ImageClassifier`: image classification with a Vision Transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from regard.core.taps import Recording, record
from regard.data.images import read_image, scaled
from regard.inspect.patches import rollout
from regard.model_folder.folder import read_description
from regard.model_folder.registry import find_folder
from regard.models.load import read_model
from regard.models.vit import ViT
from regard.pipelines.classification import Classification

BATCH_SIZE = 64


@dataclass(frozen=True)
class ClassifiedImage:
    classification: Classification
    attention_YX: np.ndarray  # attention of the class token to each patch (attention rollout); sums to 1
    pixels_CYX: np.ndarray  # the image at the size of the model's input, from 0 to 1


class ImageClassifier:
    """Classify images with a Vision Transformer.

    Parameters
    ----------
    folder : str or Path
        A model folder, or the name of an installed model.

    Examples
    --------
    >>> from regard import ImageClassifier
    >>> classify = ImageClassifier("runs/vit-fashion/model")
    >>> classify("boot.png").classification.label
    'ankle boot'
    """

    def __init__(self, folder: str | Path) -> None:
        folder = find_folder(folder)
        description = read_description(folder)
        self.folder = folder
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = read_model(folder, description.model, ViT, "classify images").to(self.device)
        n_labels = self.model.config.n_labels
        self.labels = description.labels or tuple(map(str, range(n_labels)))

    def __call__(self, image: str | Path | np.ndarray) -> ClassifiedImage:
        """Classify one image: a file, or pixels_CYX from 0 to 1 of the model's size."""
        return self.classify([image])[0]

    def classify(self, images: Sequence[str | Path | np.ndarray]) -> list[ClassifiedImage]:
        """Classify each image."""
        pixels = [self.pixels(image) for image in images]
        batches = [pixels[start : start + BATCH_SIZE] for start in range(0, len(pixels), BATCH_SIZE)]
        return [classified for batch in batches for classified in self.classify_batch(batch)]

    def pixels(self, image: str | Path | np.ndarray) -> np.ndarray:
        if isinstance(image, np.ndarray):
            return image
        return read_image(Path(image), self.model.config.image_size, self.model.config.channels)

    def classify_batch(self, pixels: list[np.ndarray]) -> list[ClassifiedImage]:
        recording, logits_BO = self.run(np.stack(pixels), ("layers.*.attention.weights",))
        probability_BO = logits_BO.float().softmax(dim=-1).cpu().numpy()
        layers_BHLL = [recording[path].float().cpu().numpy() for path in recording.paths()]
        across = self.model.patches_across
        return [
            ClassifiedImage(
                Classification.from_probabilities(self.labels, probability_BO[number]),
                rollout([layer[number] for layer in layers_BHLL]).reshape(across, across),
                pixels[number],
            )
            for number in range(len(pixels))
        ]

    def trace(self, image: str | Path | np.ndarray, taps: Sequence[str] = ("*",)) -> Recording:
        """All values that the model computes for an image, at the chosen taps."""
        return self.run(self.pixels(image)[None], taps)[0]

    @torch.inference_mode()
    def run(self, pixels_BCYX: np.ndarray, taps: Sequence[str]) -> tuple[Recording, torch.Tensor]:
        config = self.model.config
        images = torch.from_numpy(scaled(pixels_BCYX, config.mean, config.std)).to(self.device)
        with record(self.model, *taps) as recording:
            logits_BO = self.model(images)
        return recording, logits_BO
