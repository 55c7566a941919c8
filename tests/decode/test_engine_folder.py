"""The engine from a model folder, in every format of its weights; its tables of positions; the search without torch."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from regard.config import DecodeConfig, Position, TransformerConfig, WindowAttentionConfig
from regard.core.positions import build_positions
from regard.decode.engine import Engine, engine_from_folder
from regard.decode.engine_positions import PositionTable
from regard.decode.engine_shape import shape_of
from regard.decode.model_engine import build_engine
from regard.errors import ModelFolderError
from regard.model_folder.folder import WEIGHTS, ModelDescription, write_model
from regard.model_folder.weights import StoredAs, map_weights
from regard.models.load import load_weights
from regard.models.transformer import Transformer
from regard.processes import python_command
from regard.tokenizers.special_ids import EOS

SIZES: dict[str, Any] = {
    **{"d_model": 32, "n_heads": 2, "d_ff": 48, "n_encoder_layers": 1, "n_decoder_layers": 2},
    **{"src_vocab_size": 50, "tgt_vocab_size": 50},
}
SHAPES: list[dict[str, Any]] = [
    {"output_bias": True},
    {"tie_embeddings": "none", "norm_order": "pre", "norm": "rmsnorm", "position": "learned", "max_positions": 30},
    {"tie_embeddings": "output", "position": "rotary", "ffn": "swiglu", "tgt_vocab_size": 45},
    {"position": "relative", "ffn": "moe"},
]
SOURCES = [[5, 6, 7, EOS], [9, EOS]]


def write(folder: Path, config: TransformerConfig, stored_as: StoredAs = "float32") -> ModelDescription:
    torch.manual_seed(3)
    weights = {name: parameter.detach().numpy() for name, parameter in Transformer(config).named_parameters()}
    description = ModelDescription(config, DecodeConfig(), "en", "de", False, {"characters.txt": b"ab"})
    folder.mkdir()
    write_model(folder, description, weights, "", stored_as=stored_as)
    return description


def found(engine: Engine | None) -> Any:
    assert engine is not None, "this test needs a C++ compiler"
    return engine.beam_search(SOURCES, beam=3, length_penalty=0.6, max_lengths=[9, 5], n_best=2)


@pytest.mark.parametrize("stored_as", get_args(StoredAs))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_folder_gives_what_its_model_gives(shape: dict[str, Any], stored_as: StoredAs, tmp_path: Path) -> None:
    """Bit for bit, in every format of the file."""
    config = TransformerConfig(**{**SIZES, **shape})
    description = write(tmp_path / "model", config, stored_as)
    model = Transformer(config)
    load_weights(model, tmp_path / "model")
    for form in ("float32", "int8"):
        assert found(engine_from_folder(tmp_path / "model", description, form)) == found(build_engine(model, form))


def test_mapped_weights_are_those_of_the_file(tmp_path: Path) -> None:
    write(tmp_path / "model", TransformerConfig(**SIZES))
    mapped, read = map_weights(tmp_path / "model", WEIGHTS), load_file(tmp_path / "model" / WEIGHTS)
    assert mapped.keys() == read.keys()
    assert all(np.array_equal(mapped[name], read[name]) for name in read)
    with pytest.raises(ValueError, match="read-only"):
        next(iter(mapped.values()))[0] = 1


@pytest.mark.parametrize("stored_as", ["float32", "bfloat16"])
@pytest.mark.parametrize("damage", [b"\xff\xff\xff\x7f", b"\x80\x7f\x80\x7f"])  # NaN; infinity, of which bf16 has two
def test_numbers_that_are_not_finite_are_refused(stored_as: StoredAs, damage: bytes, tmp_path: Path) -> None:
    write(tmp_path / "model", TransformerConfig(**SIZES), stored_as)
    path = tmp_path / "model" / WEIGHTS
    content = path.read_bytes()
    path.write_bytes(content[:-4] + damage)
    if damage[:2] == b"\x80\x7f" and stored_as == "float32":
        path.write_bytes(content[:-4] + b"\x00\x00\x80\x7f")
    with pytest.raises(ModelFolderError, match="NaN or infinite"):
        map_weights(tmp_path / "model", WEIGHTS)


def test_a_folder_with_other_weights_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "model", TransformerConfig(**SIZES))
    other = TransformerConfig(**{**SIZES, "d_ff": 44})
    description = ModelDescription(other, DecodeConfig(), "en", "de", False, {})
    with pytest.raises(ModelFolderError, match=r"decoder\.0\.ffn\.down\.weight is \(32, 48\) in .*implies \(32, 44\)"):
        engine_from_folder(tmp_path / "model", description, "float32")


def test_a_folder_without_an_engine_has_none(tmp_path: Path) -> None:
    description = write(tmp_path / "model", TransformerConfig(**SIZES, attention=WindowAttentionConfig()))
    assert engine_from_folder(tmp_path / "model", description, "float32") is None


@pytest.mark.parametrize("position", get_args(Position))
@pytest.mark.parametrize("side", ["src", "tgt"])
def test_tables_of_positions_are_those_of_the_model(position: Position, side: str) -> None:
    torch.manual_seed(2)
    config = TransformerConfig(d_model=48, n_heads=3, position=position, max_positions=300)
    positions = build_positions(position, 48, 3, 300, two_sided=side == "src")
    weights = {}
    for name, parameter in positions.named_parameters():
        torch.nn.init.normal_(parameter)
        weights[f"{side}_positions.{name}"] = parameter.detach().numpy()
    shape = shape_of(config)
    stack = shape.encoder if side == "src" else shape.decoder
    assert stack is not None
    tables = PositionTable(shape, stack, weights).up_to(300)
    with torch.no_grad():
        added_LD, bias_HLM = positions.add(torch.zeros(1, 300, 48), 0)[0], positions.bias(300, 300)
        x_11LK = torch.ones(1, 1, 300, 16)
        rotated_LK = positions.rotate(x_11LK, 0)[0, 0]
    if position in ("sinusoidal", "learned"):
        assert tables.rows is not None
        assert np.array_equal(tables.rows[:300], added_LD.numpy())
    elif position == "rotary":
        assert tables.rows is not None
        cos, sin = tables.rows[:300, :8], tables.rows[:300, 8:]
        np.testing.assert_allclose(np.concatenate([cos - sin, cos + sin], axis=1), rotated_LK.numpy(), atol=1e-6)
    if bias_HLM is None:
        assert tables.bias is None
        return
    assert tables.bias is not None
    offset_LM = np.arange(300)[None] - np.arange(300)[:, None] + tables.length - 1
    seen = slice(None) if side == "src" else np.tri(300, dtype=bool)  # a decoder sees its past
    assert np.array_equal(tables.bias[:, offset_LM][:, seen], bias_HLM.numpy()[:, seen])


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from pathlib import Path
from regard.config import DecodeConfig
from regard.decode.engine import engine_from_folder
from regard.decode.engine_search import engine_search
from regard.model_folder.folder import read_description
folder = Path(sys.argv[1])
engine = engine_from_folder(folder, read_description(folder), "int8")
print(len(engine_search(engine, [[5, 6, 7], [9], []], DecodeConfig(beam=3), workers=2)))
"""


def test_the_engine_searches_without_torch(tmp_path: Path) -> None:
    write(tmp_path / "model", TransformerConfig(**SIZES))
    command = python_command("-c", WITHOUT_TORCH, str(tmp_path / "model"))
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_unknown_positions_and_families_are_refused() -> None:
    shape = shape_of(TransformerConfig(**SIZES))
    assert shape.encoder is not None
    with pytest.raises(AssertionError, match="'spiral'"):
        PositionTable(dataclasses.replace(shape, position="spiral"), shape.encoder, {})  # type: ignore[arg-type]
    table = PositionTable(shape, shape.encoder, {})
    table.kind = "spiral"  # type: ignore[assignment]
    with pytest.raises(AssertionError, match="'spiral'"):
        table.rows(3)
    other: Any = SIZES
    with pytest.raises(AssertionError, match="d_model"):
        shape_of(other)
