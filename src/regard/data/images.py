"""Images as arrays: image files, read with Pillow (pip install "regard[images]"), and the IDX files of MNIST.

Pixels are numbers from 0 to 1; `scaled` normalises them to (pixel − mean) / std. An image of another size is resized to
the model's size without cropping, so the aspect ratio of a non-square image changes.

Shapes: N images, C channels, Y rows of pixels, X columns.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # of Pillow, by the number of channels
UNSIGNED_BYTE = 0x08  # type code in the IDX format


@dataclass(frozen=True)
class ImageSet:
    """Images of one size with their classes, as bytes."""

    pixels_NCYX: np.ndarray  # uint8
    labels_N: np.ndarray  # int64

    def __len__(self) -> int:
        return len(self.labels_N)

    def select(self, numbers: np.ndarray) -> ImageSet:
        return ImageSet(self.pixels_NCYX[numbers], self.labels_N[numbers])


def scaled(pixels: np.ndarray, mean: Sequence[float], std: Sequence[float]) -> np.ndarray:
    """(pixel − mean) / std, of one image CYX or many NCYX; bytes are scaled to 0 … 1."""
    values = pixels.astype(np.float32) / 255 if pixels.dtype == np.uint8 else pixels.astype(np.float32)
    mean_C11, std_C11 = (np.asarray(numbers, np.float32)[:, None, None] for numbers in (mean, std))
    return np.asarray((values - mean_C11) / std_C11, np.float32)


def augment(pixels_NCYX: np.ndarray, flip: bool, shift: int, random: np.random.Generator) -> np.ndarray:
    """Augmented images: half of them flipped horizontally, each shifted by up to `shift` pixels, edges repeated."""
    if flip:
        flipped_N111 = (random.random(len(pixels_NCYX)) < 0.5)[:, None, None, None]
        pixels_NCYX = np.where(flipped_N111, pixels_NCYX[..., ::-1], pixels_NCYX)
    if shift:
        rows, columns = pixels_NCYX.shape[2:]
        framed = np.pad(pixels_NCYX, ((0, 0), (0, 0), (shift, shift), (shift, shift)), mode="edge")
        windows = np.lib.stride_tricks.sliding_window_view(framed, (rows, columns), axis=(2, 3))
        down_N, right_N = random.integers(0, 2 * shift + 1, (2, len(framed)))
        pixels_NCYX = windows[np.arange(len(framed)), :, down_N, right_N]
    return pixels_NCYX


def read_image(path: Path, size: int, channels: int) -> np.ndarray:
    """image_CYX of an image file, resized to `size` × `size`, from 0 to 1."""
    if channels not in MODES:
        raise ConfigError(f"an image has 1, 3 or 4 channels (grey, RGB, RGBA), not {channels}")
    image = open_image(path).convert(MODES[channels])
    if image.size != (size, size):
        from PIL.Image import Resampling

        image = image.resize((size, size), Resampling.BILINEAR)
    pixels = np.asarray(image, np.float32) / 255
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def open_image(path: Path) -> Image:
    """A decoded image file, rotated by its EXIF orientation."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        raise ConfigError('reading images needs Pillow, which is not installed: pip install "regard[images]"') from None
    try:
        with PIL.Image.open(path) as image:
            image.load()
            if image.mode.startswith("I"):  # sixteen bits, which Pillow would cut off at 255 rather than scale
                return PIL.Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).clip(0, 255).astype(np.uint8))
            return PIL.ImageOps.exif_transpose(image)
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder; give an image file") from None
    except PIL.UnidentifiedImageError:
        raise DataError(f"{path} is not an image that Pillow can read, such as PNG or JPEG") from None
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning):
        raise DataError(f"{path} is too large; reduce the size of the image first") from None
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def is_picture(name: str) -> bool:
    """Whether a file name has the suffix of an image."""
    return name.lower().endswith(SUFFIXES)


def read_idx(path: Path) -> np.ndarray:
    """An array of bytes in the IDX format, plain or .gz.

    Two zero bytes, one for the type, one for the number of dimensions; the dimensions, four bytes each; the numbers.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is damaged: {error}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(content) < 4 or content[:2] != b"\0\0":
        raise DataError(f"{path} is not an IDX file: it does not begin with two zero bytes")
    kind, n_dimensions = content[2], content[3]
    if kind != UNSIGNED_BYTE:
        raise DataError(f"{path} has data of type 0x{kind:02x}; Regard reads bytes, 0x{UNSIGNED_BYTE:02x}")
    start = 4 + 4 * n_dimensions
    if len(content) < start:
        raise DataError(f"{path} is truncated within its header")
    shape = struct.unpack(f">{n_dimensions}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise DataError(f"{path} has {len(content) - start:,} numbers, but its header says {math.prod(shape):,}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_idx_pair(images: Path, labels: Path) -> ImageSet:
    """Grey images and their classes, as MNIST and Fashion-MNIST are published."""
    pixels, numbers = read_idx(images), read_idx(labels)
    if pixels.ndim != 3 or numbers.ndim != 1:
        raise DataError(f"{images} has {pixels.ndim} dimensions and {labels} {numbers.ndim}; images have 3, classes 1")
    if len(pixels) != len(numbers):
        raise DataError(f"{images} has {len(pixels):,} images, but {labels} has {len(numbers):,} classes")
    return ImageSet(pixels[:, None], numbers.astype(np.int64))


def read_folders(
    folder: Path, size: int, channels: int, known: tuple[str, ...] = ()
) -> tuple[ImageSet, tuple[str, ...]]:
    """Images in one folder per class, and the class names in the order of their indices: `known`, or those of the
    folders."""
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}")
    own = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    names = known or tuple(own)
    if unknown := sorted(set(own) - set(names)):
        raise DataError(
            f"{folder / unknown[0]} is not one of the classes {', '.join(names)}; list all classes in data.label_names"
        )
    found = [
        (path, names.index(name))
        for name in own
        for path in sorted((folder / name).iterdir())
        if path.is_file() and is_picture(path.name)
    ]
    if not found:
        raise DataError(f"{folder} has no images: it needs one folder per class, with images in it")
    pixels = [np.rint(read_image(path, size, channels) * 255).astype(np.uint8) for path, _ in found]
    return ImageSet(np.stack(pixels), np.array([number for _, number in found], np.int64)), names
