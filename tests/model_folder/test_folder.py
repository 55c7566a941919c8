"""A model folder: what was written comes back, and anything else is refused with a sentence."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.config import DecodeConfig, RecurrentConfig, RunConfig, TransformerConfig, ViTConfig
from regard.errors import ModelFolderError
from regard.model_folder.folder import (
    CARD,
    CONFIG,
    FORMAT_VERSION,
    SHORTLIST,
    SUMS,
    WEIGHTS,
    ModelDescription,
    check_sums,
    digest,
    read_description,
    read_shortlist,
    read_weights,
    write_model,
    write_shortlist,
)
from regard.model_folder.weights import write_weights
from regard.models.transformer import Transformer
from regard.pipelines.model_translator import ModelTranslator
from regard.tokenizers.training import train_vocabulary
from regard.train.run_folder import RunFolder

JOINT = {"tokenizer.model": b"joint"}
PAIR = {"source.model": b"source", "target.model": b"target"}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def weights() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(1)
    matrix = draw.standard_normal((4, 6)).astype(np.float32)
    return {"a": matrix, "b.c": matrix.T, "scalar": np.float32([2.5]), "empty": np.zeros((0, 3), np.float32)}


def describe(**changes: Any) -> ModelDescription:
    model = TransformerConfig(
        **{"d_model": 12, "n_heads": 3, "d_ff": 20, "n_encoder_layers": 1, "n_decoder_layers": 1},
        **{"src_vocab_size": 9, "tgt_vocab_size": 9, "position": "rotary", "dropout": 0.25},
    )
    plain = ModelDescription(model, DecodeConfig(beam=7, top_p=0.5), "zh", "en", True, JOINT)
    return dataclasses.replace(plain, **changes)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "a model 模型"
    path.mkdir()
    write_model(path, describe(), weights(), "# 卡片\n")
    return path


def sign(folder: Path) -> None:
    """Make SHA256SUMS right again after a change."""
    files = [path for path in sorted(folder.iterdir()) if path.name != SUMS]
    (folder / SUMS).write_text("".join(f"{digest(path)}  {path.name}\n" for path in files))


def refused(folder: Path) -> str:
    """The sentence."""
    with pytest.raises(ModelFolderError) as caught:
        read_description(folder)
    assert ModelFolderError.code == 4
    return str(caught.value)


@pytest.mark.parametrize("tokenizer", [JOINT, PAIR])
def test_what_was_written_comes_back(tmp_path: Path, tokenizer: dict[str, bytes]) -> None:
    given = describe(tokenizer=tokenizer)
    write_model(tmp_path, given, weights(), "# A card\n")
    assert read_description(tmp_path) == given
    found = read_weights(tmp_path)
    assert found.keys() == weights().keys()
    for name, weight in weights().items():
        np.testing.assert_array_equal(found[name], weight)
        assert found[name].dtype == weight.dtype
    assert (tmp_path / CARD).read_text("utf-8") == "# A card\n"


def test_a_folder_from_before_there_were_families_is_a_transformer(folder: Path) -> None:
    content = json.loads((folder / CONFIG).read_text("utf-8"))
    assert content["model"].pop("family") == "transformer"
    (folder / CONFIG).write_text(json.dumps(content), "utf-8")
    sign(folder)
    assert read_description(folder) == describe()


def test_a_model_of_another_family(folder: Path, tmp_path: Path) -> None:
    given = describe(model=RecurrentConfig(cell="gru", d_model=9, src_vocab_size=9, tgt_vocab_size=9))
    write_model(tmp_path, given, weights(), "# A card\n")
    assert read_description(tmp_path) == given
    content = json.loads((folder / CONFIG).read_text("utf-8"))
    content["model"]["family"] = "convolutional"
    (folder / CONFIG).write_text(json.dumps(content), "utf-8")
    sign(folder)
    assert "model.family = 'convolutional' is not possible; it may be one of 'transformer', " in refused(folder)


def test_it_has_the_expected_files_and_no_pickle(folder: Path) -> None:
    files = {path.name for path in folder.iterdir()}
    assert files == {CONFIG, WEIGHTS, CARD, SUMS, "tokenizer.model"}
    for path in folder.iterdir():
        assert path.read_bytes()[:1] != b"\x80"  # how every pickle of today begins
        assert path.read_bytes()[:2] != b"PK"  # how torch.save's begin
    listed = [line.split("  ") for line in (folder / SUMS).read_text().splitlines()]
    assert {name for _, name in listed} == files - {SUMS}
    for sha256, name in listed:
        assert sha256 == hashlib.sha256((folder / name).read_bytes()).hexdigest()


def test_writing_twice_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    write_model(again, describe(), weights(), "# 卡片\n")
    for path in folder.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes()


def test_a_shortlist_is_added_and_replaced(folder: Path) -> None:
    assert read_shortlist(folder) is None
    for content in (b"a shortlist", b"another"):
        write_shortlist(folder, content)
        assert read_shortlist(folder) == content
        assert read_description(folder) == describe()
    (folder / SHORTLIST).write_bytes(b"altered")
    assert refused(folder) == f"{folder / SHORTLIST} was altered or damaged: it does not match SHA256SUMS"


@pytest.mark.parametrize("before", [None, b"an older one"])
def test_an_interrupted_write_of_a_shortlist_leaves_a_valid_model(
    folder: Path, before: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every moment at which something gets its name."""
    rename, stops = Path.rename, 0
    for allowed in range(5):
        if before is not None:
            write_shortlist(folder, before)
        left = iter(range(allowed))

        def rename_or_stop(path: Path, target: Path, left: Iterator[int] = left) -> Path:
            if next(left, None) is None:
                raise KeyboardInterrupt
            return rename(path, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", rename_or_stop)
            try:
                write_shortlist(folder, b"new")
            except KeyboardInterrupt:
                stops += 1
        assert read_description(folder) == describe()
        assert read_shortlist(folder) in (before, None, b"new")
        assert not list(folder.glob(".*"))
    assert read_shortlist(folder) == b"new"
    assert stops >= 2


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, CARD, "tokenizer.model"])
def test_an_altered_byte(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    (folder / name).write_bytes(content)
    assert refused(folder) == f"{folder / name} was altered or damaged: it does not match SHA256SUMS"


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, CARD, "tokenizer.model"])
def test_a_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert refused(folder) == f"{folder} is incomplete: {name} is missing; copy the folder again"


def test_missing_or_damaged_sums(folder: Path) -> None:
    whole = (folder / SUMS).read_bytes()
    for damaged in (b"", b"nothing\n", b"\xff\xfe\x00", b"\n".join(whole.splitlines()[:1])):
        (folder / SUMS).write_bytes(damaged)
        assert refused(folder) == f"{folder / SUMS} is damaged; copy the folder again"
    (folder / SUMS).unlink()
    assert refused(folder).startswith(
        f"{folder} is not a model folder: it has no SHA256SUMS; copy the folder again, or"
    )
    (folder / CONFIG).unlink()
    assert refused(folder) == f"{folder} is not a model folder: it has no SHA256SUMS"


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_truncated_weights(folder: Path, keep: int) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:keep])
    assert "was altered or damaged" in refused(folder)
    sign(folder)
    with pytest.raises(ModelFolderError) as caught:
        read_weights(folder)
    assert str(caught.value).startswith(f"{folder / WEIGHTS} is ")


def change_config(folder: Path, **changes: Any) -> None:
    content = json.loads((folder / CONFIG).read_text("utf-8")) | changes
    (folder / CONFIG).write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    sign(folder)


def test_a_newer_format(folder: Path) -> None:
    change_config(folder, format_version=FORMAT_VERSION + 1, model={"from": "the future"})
    assert refused(folder) == f"{folder} is of format 2; this version of Regard reads up to 1. Update Regard."


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format_version": None}, "it has no format_version"),
        ({"format_version": "1"}, "it has no format_version"),
        ({"format_version": True}, "it has no format_version"),
        ({"format_version": 0}, "it has no format_version"),
        ({"src_lang": None}, "src_lang is missing"),
        ({"src_lang": 3}, "src_lang = 3 is not possible; it must be a text"),
        ({"src_lang": "e" * 101}, "src_lang has 101 characters; the most is 100"),
        ({"tgt_lang": "en\x1b[2J"}, "tgt_lang has characters that cannot be printed"),
        ({"lowercase": 1}, "lowercase = 1 is not possible; it must be true or false"),
        ({"tasks": "translate"}, "tasks must be a list"),
        ({"tasks": [1]}, "tasks[0] = 1 is not possible; it must be a text"),
        ({"labels": {"a": 1}}, "labels must be a list"),
        ({"colour": "red"}, "unknown key colour"),
        ({"model": None}, "model is missing"),
        ({"model": {"d_model": 10**401}}, "a whole number has 402 digits; the most is 400"),
        ({"model": {"d_model": 10**30}}, "is too large; the most is 18446744073709551615"),
        ({"model": {"d_model": 10**12, "n_heads": 3}}, "does not divide"),
        ({"model": {"d_model": 8, "d_ff": 8, "n_encoder_layers": 10**7}}, "asks for 10,000,003 layers, but weights"),
        ({"model": {"d_model": 8, "d_ff": 10**7}}, "model.d_ff = 10,000,000, but weights.safetensors has only"),
        ({"model": {"d_modle": 8}}, "unknown key model.d_modle; did you mean 'd_model'?"),
        ({"decode": {"beam": 0}}, "decode.beam = 0 is too small"),
    ],
)
def test_settings_that_are_not_a_models(folder: Path, changes: dict[str, Any], words: str) -> None:
    change_config(folder, **changes)
    assert words in refused(folder)
    assert str(folder) in refused(folder)


@pytest.mark.parametrize("content", ["{", "[]", "3", '"text"'])
def test_settings_that_are_no_settings(folder: Path, content: str) -> None:
    (folder / CONFIG).write_text(content)
    sign(folder)
    assert refused(folder).startswith(f"{folder / CONFIG} is not ")


@pytest.mark.parametrize("name", ["../x", "/etc/hostname", "a\\b", "training/../../x"])
def test_sums_of_files_elsewhere(folder: Path, name: str) -> None:
    with (folder / SUMS).open("a") as file:
        file.write(f"{'0' * 64}  {name}\n")
    assert (
        refused(folder) == f"{folder / SUMS} names {name!r}, which is not a file of this folder; do not use the folder"
    )


def test_sums_that_name_a_file_twice(folder: Path) -> None:
    first = (folder / SUMS).read_text().splitlines()[0]
    (folder / SUMS).write_text((folder / SUMS).read_text() + first + "\n")
    assert "names README.md twice" in refused(folder)


def test_files_that_are_links_out_of_the_folder(folder: Path, tmp_path: Path) -> None:
    for name in (CONFIG, WEIGHTS, "tokenizer.model"):
        (folder / name).rename(tmp_path / name)
        (folder / name).symlink_to(tmp_path / name)
        assert refused(folder) == f"{folder / name} is a link out of the folder; put the file itself there"
        (folder / name).unlink()
        (tmp_path / name).rename(folder / name)
    assert read_description(folder) == describe()


def test_a_tokenizer_that_the_sums_do_not_know_is_not_the_model_s(tmp_path: Path) -> None:
    write_model(tmp_path, describe(tokenizer=PAIR), weights(), "")
    (tmp_path / "tokenizer.model").write_bytes(b"planted")
    assert read_description(tmp_path).tokenizer == PAIR


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000, "[" * 1000 + "]" * 1000])
def test_nested_settings(folder: Path, content: str) -> None:
    (folder / CONFIG).write_text(content)
    sign(folder)
    assert refused(folder) == f"{folder / CONFIG} is nested too deeply: the most is 64 levels"


def test_weights_that_are_not_finite(folder: Path) -> None:
    write_weights(folder / WEIGHTS, weights() | {"a": np.full((4, 6), np.nan, np.float32)})
    sign(folder)
    with pytest.raises(ModelFolderError, match=r"weights\.safetensors: 'a' has a number that is NaN or infinite"):
        read_weights(folder)


@pytest.mark.parametrize("dtype", [np.int64, np.float16])
def test_weights_of_another_type(folder: Path, dtype: Any) -> None:
    write_weights(folder / WEIGHTS, weights() | {"a": np.ones((4, 6), dtype)})
    sign(folder)
    assert "has numbers of the types" in refused(folder)


@pytest.mark.parametrize("tokenizer", [{}, {"source.model": b"source"}])
def test_no_tokenizer(tmp_path: Path, tokenizer: dict[str, bytes]) -> None:
    write_model(tmp_path, describe(tokenizer=tokenizer), weights(), "")
    assert refused(tmp_path).startswith(f"{tmp_path} is not a valid model folder: ")
    assert ".model" in refused(tmp_path)


def test_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert refused(tmp_path / "nothing") == f"there is no model folder at {tmp_path / 'nothing'}"
    assert refused(tmp_path / "file") == f"there is no model folder at {tmp_path / 'file'}: it is a file"
    assert refused(tmp_path / "file" / "in it") == f"there is no model folder at {tmp_path / 'file' / 'in it'}"


def test_a_run_is_not_a_model_but_has_one(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    with run.created(RunConfig()):
        assert refused(run.path) == (
            f"{run.path} is not a model folder: it has no SHA256SUMS; it is a run: its model is {run.model} once "
            f"training has ended, or one of its checkpoints"
        )


def test_an_extra_file_is_no_harm(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    check_sums(folder)


def test_a_tokenizer_of_another_size(tmp_path: Path) -> None:
    vocabulary = train_vocabulary(["a small dog", "two small dogs"] * 4, "bpe", 280)
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1}
    model = TransformerConfig(**sizes, src_vocab_size=vocabulary.size - 1, tgt_vocab_size=vocabulary.size - 1)
    given = {name: p.detach().numpy() for name, p in Transformer(model).named_parameters()}
    write_model(tmp_path, describe(model=model, tokenizer={"tokenizer.model": vocabulary.proto}), given, "")
    with pytest.raises(ModelFolderError, match="the tokenizer and the model do not belong together"):
        ModelTranslator(tmp_path)


def test_weights_that_do_not_fit_the_settings(tmp_path: Path) -> None:
    vocabulary = train_vocabulary(["a small dog", "two small dogs"] * 4, "bpe", 280)
    size = vocabulary.size
    model = TransformerConfig(
        d_model=8, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1, src_vocab_size=size, tgt_vocab_size=size
    )
    right = {name: p.detach().numpy() for name, p in Transformer(model).named_parameters()}
    first = next(iter(right))
    wrong = {
        "right": right,
        "missing": {name: weight for name, weight in right.items() if name != first},
        "extra": right | {"another": right[first]},
        "shape": right | {first: right[first][:-1]},
    }
    for name, given in wrong.items():
        path = tmp_path / name
        path.mkdir()
        write_model(path, describe(model=model, tokenizer={"tokenizer.model": vocabulary.proto}), given, "")
        if name == "right":
            assert ModelTranslator(path).model.config == model
            continue
        with pytest.raises(ModelFolderError, match=rf"{name}: the weights do not fit the sizes in config\.json: "):
            ModelTranslator(path)


def test_other_labels_than_the_model_has(tmp_path: Path) -> None:
    model = ViTConfig(image_size=8, patch_size=4, n_labels=3, d_model=8, n_heads=2, d_ff=8, n_layers=1)
    write_model(tmp_path, describe(model=model, labels=("a", "b"), tokenizer={}), weights(), "")
    assert refused(tmp_path) == f"{tmp_path / CONFIG} has 2 labels, but model.n_labels is 3"
