from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard.inspect.wire import ArrayEntry, pack, to_json, unpack

any_array = st.sampled_from([np.uint8, np.float32]).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5))
)


@given(st.text(max_size=20), st.dictionaries(st.text(max_size=8), any_array, max_size=4))
@settings(deadline=None, max_examples=50)
def test_what_is_packed_comes_out_again(said: str, parts: dict[str, np.ndarray]) -> None:
    header, found = unpack(pack({"said": said}, parts))
    assert header["said"] == said
    assert list(found) == list(parts)
    for name, array in parts.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)


def test_the_layout_byte_by_byte() -> None:
    body = pack({}, {"a": np.array([1, 2, 3], np.uint8), "b": np.array([[1.5]], np.float32)})
    size = int.from_bytes(body[:4], "little")
    header = json.loads(body[4 : 4 + size])
    assert header == {
        "arrays": [
            {"name": "a", "dtype": "uint8", "shape": [3], "offset": 0, "bytes": 3},
            {"name": "b", "dtype": "float32", "shape": [1, 1], "offset": 8, "bytes": 4},
        ]
    }
    start = math.ceil((4 + size) / 8) * 8
    assert body[4 + size : start] == bytes(start - 4 - size)
    assert body[start:] == b"\x01\x02\x03" + bytes(5) + b"\x00\x00\xc0\x3f" + bytes(4)


def test_any_order_and_any_part_of_an_array() -> None:
    whole = np.arange(12, dtype=np.float32).reshape(3, 4)
    _, found = unpack(pack({}, {"turned": whole.T, "part": whole[:, 1], "big": whole.astype(">f4")}))
    np.testing.assert_array_equal(found["turned"], whole.T)
    np.testing.assert_array_equal(found["part"], whole[:, 1])
    np.testing.assert_array_equal(found["big"], whole)


def test_json_without_numbers_that_it_cannot_write() -> None:
    tree = {"a": [1, math.nan, math.inf], "b": {"c": np.float32(0.5), "d": (None, True, "é")}}
    assert to_json(ArrayEntry("a", "uint8", (1, 2), 0, 2)).decode() == (
        '{"name":"a","dtype":"uint8","shape":[1,2],"offset":0,"bytes":2}'
    )
    assert to_json(tree).decode() == '{"a":[1,null,null],"b":{"c":0.5,"d":[null,true,"é"]}}'
    with pytest.raises(TypeError, match="set cannot be written as JSON"):
        to_json({1, 2})
