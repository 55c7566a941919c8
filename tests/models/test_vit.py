"""The Vision Transformer: patches, dependencies, and that it learns."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.config import ViTConfig
from regard.core.taps import hook_taps, record, tap_paths
from regard.errors import ConfigError
from regard.models.vit import PatchEmbedding, ViT, cut_patches


def small_config(**changes: Any) -> ViTConfig:
    sizes: dict[str, Any] = {
        "image_size": 8, "patch_size": 4, "channels": 2, "d_model": 12, "n_heads": 3, "d_ff": 16, "n_layers": 2,
        "n_labels": 5,
    }  # fmt: skip
    return ViTConfig(**{**sizes, **changes})


def model_of(**changes: Any) -> ViT:
    torch.manual_seed(0)
    model = ViT(small_config(**changes)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.requires_grad_(False)


IMAGES = torch.randn(3, 2, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def test_patches_are_in_row_order_with_all_their_pixels() -> None:
    image = torch.arange(2 * 4 * 6).view(1, 2, 4, 6)
    patches = cut_patches(image, 2)
    assert patches.shape == (1, 6, 8)
    for number, (down, across) in enumerate((y, x) for y in range(2) for x in range(3)):
        square = image[0, :, 2 * down : 2 * down + 2, 2 * across : 2 * across + 2]
        assert patches[0, number].tolist() == square.flatten().tolist()


def test_the_patch_embedding_is_a_convolution_with_stride_equal_to_kernel_size() -> None:
    embedding = PatchEmbedding(12, 4, 2).double()
    with torch.no_grad():
        for parameter in embedding.parameters():
            parameter.normal_()
    out = embedding(IMAGES)
    expected = F.conv2d(IMAGES, embedding.patches.weight.view(12, 2, 4, 4), embedding.patches.bias, stride=4)
    close(out[:, 1:], expected.flatten(2).mT)
    close(out[:, 0], embedding.class_token_D.expand(3, -1))


def test_batch_mates_are_irrelevant() -> None:
    model = model_of()
    together = model(IMAGES)
    assert together.shape == (3, 5)
    for number in range(3):
        close(model(IMAGES[number : number + 1])[0], together[number])


def test_the_output_depends_on_every_patch_and_its_position() -> None:
    model = model_of()
    logits = model(IMAGES[:1])
    for down in (0, 4):
        for across in (0, 4):
            changed = IMAGES[:1].clone()
            changed[:, :, down : down + 4, across : across + 4] += 1
            assert (model(changed) - logits).abs().max() > 1e-6
    swapped = torch.cat([IMAGES[:1, :, 4:], IMAGES[:1, :, :4]], dim=2)
    assert (model(swapped) - logits).abs().max() > 1e-6


def test_taps_record_the_attention_to_patches() -> None:
    model = model_of()
    with record(model) as seen:
        logits = model(IMAGES)
    assert set(seen.paths()) == set(tap_paths(model))
    weights = seen["layers.1.attention.weights"]
    assert weights.shape == (3, 3, 5, 5)
    close(weights.sum(-1), torch.ones(3, 3, 5, dtype=torch.float64))
    close(seen["logits"], logits)
    assert seen["embedded"].shape == (3, 5, 12)
    # An attention that looks at the class token alone, in all layers, knows nothing of the image.
    with hook_taps(
        model, {"layers.*.attention.weights": lambda _, w: torch.zeros_like(w).index_fill(3, torch.tensor([0]), 1.0)}
    ):
        blind = model(IMAGES)
    close(blind[0], blind[1])


def test_bf16_and_initial_values() -> None:
    torch.manual_seed(0)
    model = ViT(small_config())
    model.eval().compute_dtype = torch.bfloat16
    assert model(IMAGES.float()).dtype == torch.bfloat16
    model.compute_dtype = None
    assert not model(IMAGES).any(), "no class is preferred at first"
    assert model.embedding.class_token_D.abs().max() > 0


def test_an_image_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"= \(2, 8, 8\), not \(2, 8, 12\)"):
        model_of()(torch.zeros(1, 2, 8, 12))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"patch_size": 3}, "model.patch_size = 3 does not divide"),
        ({"n_heads": 5}, "model.n_heads = 5 does not divide"),
        ({"mean": (0.1, 0.2, 0.3)}, "model.mean has 3 numbers; it needs one, or 2"),
        ({"std": (0.0,)}, "must be at least 1e-06"),
    ],
)
def test_impossible_sizes_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        small_config(**changes)


def test_it_learns() -> None:
    """Plain torch: in which quarter of the image is the light?"""
    torch.manual_seed(0)
    model = ViT(small_config(channels=1, n_labels=4, dropout=0.0)).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def batch() -> tuple[Tensor, Tensor]:
        labels = torch.randint(0, 4, (32,))
        images = torch.randn(32, 1, 8, 8) * 0.5
        for image, label in zip(images, labels.tolist(), strict=True):
            image[:, label // 2 * 4 : label // 2 * 4 + 4, label % 2 * 4 : label % 2 * 4 + 4] += 2.0
        return images, labels

    for _ in range(200):
        images, labels = batch()
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    images, labels = batch()
    assert (model.eval()(images).argmax(-1) == labels).float().mean() > 0.9
