"""The weights file: bf16 as torch rounds it, float32 as it was."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors.torch import load_file, save_file

from regard.errors import ModelFolderError
from regard.model_folder.weights import (
    StoredAs,
    StoredTensor,
    check_types,
    from_bfloat16,
    from_int8,
    header_of,
    read_header,
    read_tensor,
    read_weights,
    to_bfloat16,
    to_int8,
    write_weights,
)

EDGES = [0.0, -0.0, 1.0, -1.5, 1e-45, 1e-40, 3.4e38, -3.4028235e38, 1.17549435e-38, float("inf"), float("-inf")]


def torch_rounded(array: np.ndarray) -> np.ndarray:
    return torch.from_numpy(array).to(torch.bfloat16).float().numpy()


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=50))
def test_rounding_is_torch_s(numbers: list[float]) -> None:
    array = np.array(numbers, np.float32)
    np.testing.assert_array_equal(from_bfloat16(to_bfloat16(array)), torch_rounded(array))


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
def test_rounding_of_any_bits(bits: list[int]) -> None:
    array = np.array(bits, np.uint32).view(np.float32)
    np.testing.assert_array_equal(from_bfloat16(to_bfloat16(array)), torch_rounded(array))


def test_ties_and_edges() -> None:
    halfway = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x7FC00000, 0xFFFFFFFF], np.uint32)
    array = np.concatenate([np.array(EDGES, np.float32), halfway.view(np.float32)])
    np.testing.assert_array_equal(from_bfloat16(to_bfloat16(array)), torch_rounded(array))


def some_weights() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(1)
    matrix = draw.standard_normal((5, 7)).astype(np.float32)
    return {"a": matrix, "b.c": matrix.T, "one": np.float32([2.5]), "none": np.zeros((0, 3), np.float32)}


def test_a_half_and_a_quarter_of_the_space(tmp_path: Path) -> None:
    weights = {"a": np.random.default_rng(2).standard_normal((64, 64)).astype(np.float32)}
    formats: list[StoredAs] = ["float32", "bfloat16", "int8"]
    for stored_as in formats:
        write_weights(tmp_path / stored_as, weights, stored_as)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes["bfloat16"] < 0.55 * sizes["float32"]
    assert sizes["int8"] < 0.3 * sizes["float32"]
    headers = [read_header(tmp_path, name) for name in formats]
    assert [header.tensors["a"].type for header in headers] == ["F32", "BF16", "I8"]
    assert [header.shapes for header in headers] == [{"a": (64, 64)}] * 3


@given(
    arrays(
        np.float32,
        array_shapes(min_dims=2, max_dims=3, min_side=0),
        elements=st.floats(-(2.0**100), 2.0**100, width=32),
    )
)
def test_int8_is_within_half_a_step_of_each_number(array: np.ndarray) -> None:
    integers, scale = to_int8(array)
    assert (integers.dtype, scale.dtype, scale.shape) == (np.int8, np.float32, array.shape[:-1])
    step = np.abs(array).max(axis=-1, initial=0)[..., None] / 127
    assert (np.abs(from_int8(integers, scale).astype(np.float64) - array) <= 0.5001 * step + 1e-44).all()
    again, same_scale = to_int8(from_int8(integers, scale))
    np.testing.assert_allclose(same_scale, scale, rtol=1e-6, atol=1e-44)
    np.testing.assert_array_equal(
        again[scale > 1e-38], integers[scale > 1e-38]
    )  # rounding a second time changes nothing


def test_int8_is_for_matrices(tmp_path: Path) -> None:
    write_weights(tmp_path / "w", some_weights(), "int8")
    ours, stored = read_weights(tmp_path, "w"), load_file(tmp_path / "w")
    assert list(read_header(tmp_path, "w").weights) == ["one", "a", "b.c", "none"]
    np.testing.assert_array_equal(ours["one"], some_weights()["one"])
    for name in ("a", "b.c", "none"):
        assert stored[name].dtype == torch.int8
        assert ours[name].dtype == np.float32
        np.testing.assert_array_equal(ours[name], stored[name] * stored[name + ".int8_scale"][:, None])
    assert ours.keys() == some_weights().keys()


@pytest.mark.parametrize("scale", [None, torch.ones(3), torch.ones(2, dtype=torch.float64), torch.ones(2, 1)])
def test_int8_without_its_scales_is_refused(tmp_path: Path, scale: torch.Tensor | None) -> None:
    scales = {} if scale is None else {"a.int8_scale": scale}
    save_file({"a": torch.ones(2, 3, dtype=torch.int8), **scales}, tmp_path / "w")
    with pytest.raises(ModelFolderError, match="w has 'a' in int8 without the scales of its rows"):
        check_types(read_header(tmp_path, "w"), tmp_path / "w")


def test_scales_that_are_too_large_are_refused(tmp_path: Path) -> None:
    save_file({"a": torch.full((1, 3), 127, dtype=torch.int8), "a.int8_scale": torch.tensor([3e38])}, tmp_path / "w")
    with pytest.raises(ModelFolderError, match="w: 'a' has a number that is NaN or infinite"):
        read_weights(tmp_path, "w")


def test_float32_comes_back_exactly(tmp_path: Path) -> None:
    write_weights(tmp_path / "w", some_weights())
    for name, array in read_weights(tmp_path, "w").items():
        np.testing.assert_array_equal(array, some_weights()[name])


def test_bf16_is_what_other_programs_read(tmp_path: Path) -> None:
    write_weights(tmp_path / "w", some_weights(), "bfloat16")
    ours, theirs = read_weights(tmp_path, "w"), load_file(tmp_path / "w")
    assert ours.keys() == some_weights().keys()
    assert {tensor.dtype for tensor in theirs.values()} == {torch.bfloat16}
    for name, array in ours.items():
        assert array.dtype == np.float32
        assert array.flags.writeable
        np.testing.assert_array_equal(array, theirs[name].float().numpy())
        np.testing.assert_array_equal(array, torch_rounded(np.ascontiguousarray(some_weights()[name])))


def test_what_other_programs_write_is_read(tmp_path: Path) -> None:
    given = {"half": torch.randn(3, 4).bfloat16(), "whole": torch.randn(2)}
    save_file(given, tmp_path / "w")
    for name, array in read_weights(tmp_path, "w").items():
        np.testing.assert_array_equal(array, given[name].float().numpy())


@pytest.mark.parametrize("content", [b"", b"abc", b"\xff" * 40, b"\x08\x00\x00\x00\x00\x00\x00\x00not json"])
def test_damaged_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w").write_bytes(content)
    with pytest.raises(ModelFolderError):
        read_weights(tmp_path, "w")


def test_a_bf16_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    write_weights(tmp_path / "w", some_weights(), "bfloat16")
    (tmp_path / "w").write_bytes((tmp_path / "w").read_bytes()[:-3])
    with pytest.raises(ModelFolderError):
        read_weights(tmp_path, "w")


@pytest.mark.parametrize("stored_as", ["float32", "bfloat16"])
def test_a_file_that_is_not_as_long_as_its_header_says(tmp_path: Path, stored_as: StoredAs) -> None:
    path = tmp_path / "weights.safetensors"
    write_weights(path, {"a": np.ones((2, 3), np.float32), "b": np.ones(5, np.float32)}, stored_as)
    content = path.read_bytes()
    assert read_header(tmp_path, path.name).shapes == {"a": (2, 3), "b": (5,)}
    assert read_header(tmp_path, path.name).numbers == 11
    for damaged in (b"", content[:4], content[:20], content[:-1], content + b"\0", b"\xff" * 8 + content[8:]):
        path.write_bytes(damaged)
        with pytest.raises(ModelFolderError, match=r"weights\.safetensors is damaged: .*; copy the folder again"):
            read_header(tmp_path, path.name)
    save_file({}, path, metadata={"format": "pt"})
    assert read_header(tmp_path, path.name).shapes == {}


def write_raw(path: Path, header: bytes, numbers: bytes = b"") -> None:
    path.write_bytes(len(header).to_bytes(8, "little") + header + numbers)


def entry(dtype: object = "F32", shape: object = (2,), place: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": place}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("[]", "its header is not an object"),
        ("no JSON", "is not JSON"),
        ('{"a": {}}', "does not describe 'a' by dtype, shape and data_offsets"),
        ('{"a": 1, "a": 2}', "the key 'a' is given twice"),
        ("[" * 100_000, "is nested too deeply"),
        ('{"a": ' * 70 + "1" + "}" * 70, "is nested too deeply: the most is 64 levels"),
        ({"a": entry(dtype="F8_E4M3")}, "numbers of the type 'F8_E4M3', which Regard does not read"),
        ({"a": entry(dtype=["F32"])}, "which Regard does not read"),
        ({"a": entry(shape=2)}, "no possible shape or place for 'a'"),
        ({"a": entry(shape=[-2])}, "no possible shape or place for 'a'"),
        ({"a": entry(shape=[True, 2])}, "no possible shape or place for 'a'"),
        ({"a": entry(shape=[10**30])}, "no possible shape or place for 'a'"),
        ({"a": entry(shape=[1] * 9 + [2])}, "no possible shape or place for 'a'"),
        ({"a": entry(place=[0])}, "no possible shape or place for 'a'"),
        ({"a": entry(shape=[3])}, "the shape of 'a' does not fit its place"),
        ({"a": entry(shape=[0, 2**59], place=(0, 0))}, "the shape of 'a' does not fit its place"),
        ({"a": entry(), "b": entry()}, "'b' does not begin where the tensor before it ends"),
        ({"a": entry(shape=[1], place=(4, 8))}, "'a' does not begin where the tensor before it ends"),
        ({"a": entry(shape=[1], place=(0, 4))}, "its length is not the one in its header"),
        ({"a": entry(shape=[2**40], place=(0, 2**42))}, "its length is not the one in its header"),
    ],
)
def test_headers_that_describe_no_file(tmp_path: Path, header: str | dict[str, object], message: str) -> None:
    write_raw(tmp_path / "w", (header if isinstance(header, str) else json.dumps(header)).encode(), bytes(8))
    with pytest.raises(ModelFolderError, match=message) as caught:
        read_weights(tmp_path, "w")
    assert str(tmp_path / "w") in str(caught.value)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("stored_as", ["float32", "bfloat16"])
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, number: float, stored_as: StoredAs) -> None:
    weights = {"good": np.ones(3, np.float32), "bad": np.array([[1, number], [2, 3]], np.float32)}
    write_weights(tmp_path / "w", weights, stored_as)
    with pytest.raises(ModelFolderError, match="w: 'bad' has a number that is NaN or infinite"):
        read_weights(tmp_path, "w")
    with pytest.raises(ModelFolderError, match="'bad' has a number that is NaN or infinite"):
        write_weights(tmp_path / "int8", weights, "int8")
    assert not (tmp_path / "int8").exists()


def test_every_type_that_torch_writes(tmp_path: Path) -> None:
    numbers = torch.tensor([0, 1, 3])
    kinds = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8]
    given = {str(kind): numbers.to(kind) for kind in [*kinds, torch.bool]}
    save_file(given, tmp_path / "w")
    found = read_weights(tmp_path, "w")
    for kind in kinds:
        kept = kind not in (torch.float16, torch.bfloat16)
        assert found[str(kind)].dtype == (given[str(kind)].numpy().dtype if kept else np.float32)
        np.testing.assert_array_equal(found[str(kind)], [0, 1, 3])
    np.testing.assert_array_equal(found["torch.bool"], [False, True, True])


def test_an_unknown_format_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="'int4'"):
        write_weights(tmp_path / "w", some_weights(), "int4")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"^w: .*No such file or directory"):
        write_weights(tmp_path / "absent" / "w", some_weights())


def test_a_file_that_ends_within_a_tensor(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(bytes(12))
    with (
        (tmp_path / "w").open("rb") as file,
        pytest.raises(ModelFolderError, match=r"w is damaged: it ends within 'a'; copy the folder again"),
    ):
        read_tensor(file, 4, StoredTensor("F32", (4,), 0, 16), "a", tmp_path / "w")


def test_a_file_whose_reading_fails() -> None:
    """The memory of this process, where nothing is at the address 0: an input/output error."""
    path = Path("/proc/self/mem")
    with path.open("rb") as file:
        with pytest.raises(ModelFolderError, match=r"^/proc/self/mem cannot be read: Input/output error"):
            header_of(file, path)
        with pytest.raises(ModelFolderError, match=r"^/proc/self/mem cannot be read: Input/output error"):
            read_tensor(file, 0, StoredTensor("F32", (4,), 0, 16), "a", path)
