"""Pictures and IDX files as arrays, and what is said of those that are not."""

from __future__ import annotations

import gzip
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard.config import CorpusConfig, DataConfig, ViTConfig
from regard.data.examples import prepare_images
from regard.data.identity import identity
from regard.data.images import ImageSet, augment, is_picture, read_folders, read_idx, read_idx_pair, read_image, scaled
from regard.errors import ConfigError, DataError

Image = pytest.importorskip("PIL.Image")

DRAWN = np.random.default_rng(1).integers(0, 256, (6, 6, 3), dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_a_colour_picture_is_its_pixels(tmp_path: Path) -> None:
    Image.fromarray(DRAWN).save(tmp_path / "a.png")
    image = read_image(tmp_path / "a.png", 6, 3)
    assert image.dtype == np.float32
    np.testing.assert_allclose(image, DRAWN.transpose(2, 0, 1) / 255, atol=1e-7)


def test_colour_becomes_grey_and_grey_colour(tmp_path: Path) -> None:
    Image.fromarray(DRAWN).save(tmp_path / "colour.png")
    Image.fromarray(DRAWN[..., 0]).save(tmp_path / "grey.png")
    weights = np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(read_image(tmp_path / "colour.png", 6, 1)[0], DRAWN @ weights / 255, atol=0.005)
    three = read_image(tmp_path / "grey.png", 6, 3)
    assert np.array_equal(three[0], three[1])
    np.testing.assert_allclose(three[2], DRAWN[..., 0] / 255, atol=1e-7)


def test_another_size_is_resized_and_jpeg_is_read(tmp_path: Path) -> None:
    Image.new("RGB", (30, 17), (200, 100, 50)).save(tmp_path / "a.jpg", quality=95)
    image = read_image(tmp_path / "a.jpg", 8, 3)
    assert image.shape == (3, 8, 8)
    np.testing.assert_allclose(image.mean(axis=(1, 2)) * 255, [200, 100, 50], atol=3)


def test_exif_orientation_is_applied(tmp_path: Path) -> None:
    image = Image.fromarray(DRAWN)
    turned = Image.Exif()
    turned[0x0112] = 6  # to be turned a quarter to the right
    image.save(tmp_path / "a.png", exif=turned)
    expected = np.rot90(DRAWN, -1).transpose(2, 0, 1) / 255
    np.testing.assert_allclose(read_image(tmp_path / "a.png", 6, 3), expected, atol=1e-7)


def test_sixteen_bits_are_scaled(tmp_path: Path) -> None:
    values = np.array([[0, 256], [32768, 65535]], dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    np.testing.assert_allclose(read_image(tmp_path / "a.png", 2, 1)[0] * 255, [[0, 1], [128, 255]], atol=1e-4)


def test_files_that_are_not_images(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("not a picture")
    Image.fromarray(DRAWN).save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:60])
    for name, words in (
        ("none.png", "there is no file"),
        ("a.png", "is not an image"),
        ("cut.png", r"cut\.png"),
        (".", "is a folder"),
    ):
        with pytest.raises(DataError, match=words):
            read_image(tmp_path / name, 4, 1)
    huge = (tmp_path / "whole.png").read_bytes()
    header = b"IHDR" + struct.pack(">2I", 60_000, 60_000) + huge[24:29]
    (tmp_path / "huge.png").write_bytes(huge[:12] + header + struct.pack(">I", zlib.crc32(header)) + huge[33:])
    with pytest.raises(DataError, match=r"huge\.png is too large; reduce the size"):
        read_image(tmp_path / "huge.png", 4, 1)
    with pytest.raises(ConfigError, match="1, 3 or 4 channels"):
        read_image(tmp_path / "whole.png", 4, 2)


def test_without_pillow_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ConfigError, match=r'pip install "regard\[images\]"'):
        read_image(tmp_path / "a.png", 4, 1)


def test_scaling() -> None:
    pixels = np.full((2, 3, 4, 4), 255, np.uint8)
    out = scaled(pixels, (0.5,), (0.5,))
    assert out.dtype == np.float32
    assert np.array_equal(out, np.ones((2, 3, 4, 4)))
    each = scaled(np.zeros((3, 2, 2), np.float32), (0.1, 0.2, 0.3), (0.5, 1.0, 2.0))
    np.testing.assert_allclose(each[:, 0, 0], [-0.2, -0.2, -0.15], atol=1e-7)


@given(array=arrays.arrays(np.uint8, arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)))
def test_idx_files_round_trip(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray) -> None:
    folder = tmp_path_factory.mktemp("idx")
    (folder / "a").write_bytes(idx(array))
    (folder / "a.gz").write_bytes(gzip.compress(idx(array)))
    for name in ("a", "a.gz"):
        found = read_idx(folder / name)
        assert found.shape == array.shape
        assert np.array_equal(found, array)


@given(content=st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "a"
    path.write_bytes(content)
    try:
        found = read_idx(path)
    except DataError:
        return
    assert found.dtype == np.uint8
    assert content.endswith(found.tobytes())


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a", b"\0\0\x0d\x01\0\0\0\0", "type 0x0d"),
        ("a", b"PK\3\4", "two zero bytes"),
        ("a", b"\0\0\x08\x03\0\0", "truncated within its header"),
        ("a", b"\0\0\x08\x01\0\0\0\x05abc", "has 3 numbers, but its header says 5"),
        ("a.gz", b"\0\0\x08\x01", "is damaged"),
        ("a.gz", gzip.compress(b"\0\0\x08\x01", mtime=0)[:-4], "is damaged"),
    ],
)
def test_damaged_idx_files(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=words):
        read_idx(tmp_path / name)


def test_images_with_their_classes(tmp_path: Path) -> None:
    pixels, labels = DRAWN.transpose(2, 0, 1), np.array([4, 0, 9], np.uint8)
    (tmp_path / "i").write_bytes(idx(pixels))
    (tmp_path / "l").write_bytes(idx(labels))
    found = read_idx_pair(tmp_path / "i", tmp_path / "l")
    assert found.pixels_NCYX.shape == (3, 1, 6, 6)
    assert found.labels_N.tolist() == [4, 0, 9]
    assert found.labels_N.dtype == np.int64
    assert len(found) == 3
    assert found.select(np.array([2, 0])).labels_N.tolist() == [9, 4]
    (tmp_path / "l").write_bytes(idx(labels[:2]))
    with pytest.raises(DataError, match=r"has 3 images, but .* has 2 classes"):
        read_idx_pair(tmp_path / "i", tmp_path / "l")
    with pytest.raises(DataError, match="images have 3, classes 1"):
        read_idx_pair(tmp_path / "l", tmp_path / "i")
    with pytest.raises(DataError, match="there is no file"):
        read_idx(tmp_path / "none")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_idx(tmp_path)


def test_images_that_do_not_fit_the_settings(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(idx(DRAWN.transpose(2, 0, 1)))
    (tmp_path / "l").write_bytes(idx(np.array([4, 0, 9], np.uint8)))
    corpus = CorpusConfig(images=str(tmp_path / "i"), labels=str(tmp_path / "l"))
    model = ViTConfig(image_size=6, patch_size=3, channels=1)
    assert prepare_images(DataConfig(train=(corpus,)), model).labels == tuple("0123456789")
    with pytest.raises(DataError, match="the images have more classes than the 2 named ones: a, b"):
        prepare_images(DataConfig(train=(corpus,), label_names=("a", "b")), model)
    with pytest.raises(DataError, match=r"are \(1, 6, 6\) .* say \(1, 12, 12\): change model\.image_size"):
        prepare_images(DataConfig(train=(corpus,)), ViTConfig(image_size=12, patch_size=3, channels=1))


def test_a_folder_of_images_is_known_by_its_names_and_contents(tmp_path: Path) -> None:
    corpus = CorpusConfig(images=str(tmp_path / "all"))
    (tmp_path / "all" / "cat").mkdir(parents=True)
    (tmp_path / "all" / "cat" / "a.png").write_bytes(b"one")
    first = identity(corpus)
    assert identity(corpus) == first
    (tmp_path / "all" / "cat" / "a.png").write_bytes(b"two")
    second = identity(corpus)
    (tmp_path / "all" / "cat" / "a.png").rename(tmp_path / "all" / "cat" / "b.png")
    assert len({str(one) for one in (first, second, identity(corpus))}) == 3


def test_a_folder_for_each_class(tmp_path: Path) -> None:
    for name, value in (("dog", 10), ("cat", 200)):
        (tmp_path / name).mkdir()
        Image.new("L", (5, 5), value).save(tmp_path / name / "one.png")
    (tmp_path / "dog" / "notes.txt").write_text("not a picture")
    (tmp_path / ".hidden").mkdir()
    found, names = read_folders(tmp_path, 4, 1)
    assert isinstance(found, ImageSet)
    assert names == ("cat", "dog")
    assert found.labels_N.tolist() == [0, 1]
    assert found.pixels_NCYX[:, 0, 0, 0].tolist() == [200, 10]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="has no images"):
        read_folders(tmp_path / "empty", 4, 1)
    with pytest.raises(DataError, match="there is no folder"):
        read_folders(tmp_path / "none", 4, 1)


def test_images_are_recognised_by_their_suffix() -> None:
    assert is_picture("A photo.JPEG")
    assert not is_picture("a sentence about a.png file")


@given(flip=st.booleans(), shift=st.integers(0, 3), seed=st.integers(0, 99))
def test_an_augmented_image_is_the_image_flipped_or_not_and_shifted(flip: bool, shift: int, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (5, 2, 6, 7), dtype=np.uint8)
    found = augment(pixels, flip, shift, np.random.default_rng(seed))
    assert (found.dtype, found.shape) == (pixels.dtype, pixels.shape)
    steps = range(-shift, shift + 1)
    for before, after in zip(pixels, found, strict=True):
        flipped = [before, before[..., ::-1]] if flip else [before]
        rows, columns = np.arange(6), np.arange(7)
        possible = [
            image[:, np.clip(rows + down, 0, 5)][:, :, np.clip(columns + right, 0, 6)]
            for image in flipped
            for down in steps
            for right in steps
        ]
        assert any(np.array_equal(after, one) for one in possible)


def test_every_augmentation_occurs_and_the_seed_decides() -> None:
    pixels = np.tile(np.arange(36, dtype=np.uint8).reshape(1, 1, 6, 6), (2000, 1, 1, 1))
    found = augment(pixels, True, 1, np.random.default_rng(1))
    kinds, counts = np.unique(found.reshape(2000, -1), axis=0, return_counts=True)
    assert len(kinds) == 2 * 3 * 3
    assert counts.min() > 2000 / 18 / 2
    assert np.array_equal(found, augment(pixels, True, 1, np.random.default_rng(1)))
    assert not np.array_equal(found, augment(pixels, True, 1, np.random.default_rng(2)))


def test_classes_have_the_same_numbers_in_every_folder(tmp_path: Path) -> None:
    for split, names in (("train", ("cat", "dog", "horse")), ("valid", ("cat", "horse")), ("more", ("cat", "cow"))):
        for name in names:
            (tmp_path / split / name).mkdir(parents=True)
            Image.fromarray(DRAWN).save(tmp_path / split / name / "a.png")
    train, valid, more = (CorpusConfig(images=str(tmp_path / split)) for split in ("train", "valid", "more"))
    model = ViTConfig(image_size=6, patch_size=3, channels=3)
    prepared = prepare_images(DataConfig(train=(train,), valid=(valid,)), model)
    assert prepared.labels == ("cat", "dog", "horse")
    assert prepared.valid is not None
    assert prepared.valid.labels_N.tolist() == [0, 2]
    assert prepare_images(DataConfig(train=(valid,)), model, prepared.labels).train.labels_N.tolist() == [0, 2]
    with pytest.raises(DataError, match=r"more/cow is not one of the classes.*cat, dog, horse.*data.label_names"):
        prepare_images(DataConfig(train=(train, more)), model)
    named = DataConfig(train=(train, more), label_names=("cow", "horse", "dog", "cat"))
    assert prepare_images(named, model).train.labels_N.tolist() == [3, 2, 1, 3, 0]
