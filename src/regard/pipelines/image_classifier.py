"""The façade of a Vision Transformer: a model folder in; what is on a picture, and where it looked, out.

from regard import ImageClassifier
look = ImageClassifier("runs/vit-fashion/model")
view = look("boot.png")
view.opinion.label, view.looked_at_YX
"""

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
from regard.pipelines.text_encoder import Opinion

AT_ONCE = 64  # images


@dataclass(frozen=True)
class View:
    """What a model makes of a picture."""

    opinion: Opinion
    looked_at_YX: np.ndarray  # the share of each patch, row by row; they add up to 1
    pixels_CYX: np.ndarray  # the picture at the size in which the model saw it, from 0 to 1


class ImageClassifier:
    """A trained Vision Transformer, ready to look at pictures. Nothing here needs knowledge of torch."""

    def __init__(self, folder: str | Path) -> None:
        folder = find_folder(folder)
        description = read_description(folder)
        self.folder = folder
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = read_model(folder, description.model, ViT, "look at images").to(self.device)
        n_labels = self.model.config.n_labels
        self.labels = description.labels or tuple(map(str, range(n_labels)))

    def __call__(self, picture: str | Path | np.ndarray) -> View:
        """What is on one picture: a file, or its pixels CYX from 0 to 1, already of the model's size."""
        return self.look([picture])[0]

    def look(self, pictures: Sequence[str | Path | np.ndarray]) -> list[View]:
        """What is on each picture."""
        pixels = [self.pixels(picture) for picture in pictures]
        batches = [pixels[start : start + AT_ONCE] for start in range(0, len(pixels), AT_ONCE)]
        return [view for batch in batches for view in self.views(batch)]

    def pixels(self, picture: str | Path | np.ndarray) -> np.ndarray:
        if isinstance(picture, np.ndarray):
            return picture
        return read_image(Path(picture), self.model.config.image_size, self.model.config.channels)

    def views(self, pixels: list[np.ndarray]) -> list[View]:
        seen, logits_BO = self.run(np.stack(pixels), ("layers.*.attention.weights",))
        probability_BO = logits_BO.float().softmax(dim=-1)
        layers_BHLL = [seen[path].float().cpu().numpy() for path in seen.paths()]
        across = self.model.patches_across
        return [
            View(
                Opinion.of(self.labels, probability_BO[number]),
                rollout([layer[number] for layer in layers_BHLL]).reshape(across, across),
                pixels[number],
            )
            for number in range(len(pixels))
        ]

    def trace(self, picture: str | Path | np.ndarray, taps: Sequence[str] = ("*",)) -> Recording:
        """Every number on the way through one picture, by the names of the taps."""
        return self.run(self.pixels(picture)[None], taps)[0]

    @torch.inference_mode()
    def run(self, pixels_BCYX: np.ndarray, taps: Sequence[str]) -> tuple[Recording, torch.Tensor]:
        config = self.model.config
        images = torch.from_numpy(scaled(pixels_BCYX, config.mean, config.std)).to(self.device)
        with record(self.model, *taps) as seen:
            logits_BO = self.model(images)
        return seen, logits_BO
