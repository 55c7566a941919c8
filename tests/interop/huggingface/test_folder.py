"""Hugging Face folders: complete, sharded, damaged or of another kind."""

from __future__ import annotations

import json
import math
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import DataError, ModelFolderError
from regard.interop.huggingface.folder import HuggingFaceConfig, HuggingFaceFolder, HuggingFaceTensors
from regard.interop.huggingface.imports import import_folder
from regard.model_folder.folder import CARD, read_weights


def change(path: Path, **values: Any) -> None:
    content = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**content, **values}), "utf-8")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"model_type": "x", "size": 3, "rate": 0.5, "on": true, "none": null}')
    tensors = {"a": torch.arange(6.0).view(2, 3).bfloat16(), "b": torch.tensor([1, 2]), "c": torch.ones(1).half()}
    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path


def test_settings_by_name_and_kind(plain: Path) -> None:
    config = HuggingFaceFolder(plain).config
    assert (config.number("size"), config.real("rate"), config.real("size"), config.flag("on", False)) == (
        3,
        0.5,
        3,
        True,
    )
    assert (config.number("none", 7), config.flag("missing", True), config.get("none")) == (7, True, None)
    assert config.require("size", 3, 4) == 3
    with pytest.raises(ModelFolderError, match=r"config\.json: rate must be a whole number, not 0\.5"):
        config.number("rate")
    with pytest.raises(ModelFolderError, match="missing must be a whole number, not None"):
        config.number("missing")
    with pytest.raises(ModelFolderError, match="size must be true or false"):
        config.flag("size", False)
    with pytest.raises(ModelFolderError, match="size = 3 is not supported; Regard supports 1 or 2"):
        config.require("size", 1, 2)


def test_every_tensor_is_accounted_for(plain: Path) -> None:
    tensors = HuggingFaceFolder(plain).tensors()
    assert tensors.take("a", 2, 3).dtype == np.float32
    np.testing.assert_array_equal(tensors.take("b"), [1, 2])
    assert "a" not in tensors
    assert tensors.take_optional("a") is None
    with pytest.raises(ModelFolderError, match=r"no use for: c\. The imported model would not compute"):
        tensors.finish()
    with pytest.raises(ModelFolderError, match=r"c has the shape \(1,\), but config\.json implies \(2,\)"):
        tensors.take("c", 2)
    tensors.discard("c*")
    tensors.finish()
    with pytest.raises(ModelFolderError, match="have no z"):
        tensors.take("z")


def test_prefixes_can_be_taken_off() -> None:
    tensors = HuggingFaceTensors({"bert.a": np.zeros(1), "b": np.ones(1)}, Path("x"))
    tensors.strip("bert.")
    assert sorted(tensors.names()) == ["a", "b"]


def test_several_files(marian_folder: Any, tmp_path: Path) -> None:
    folder = marian_folder()
    import_folder(folder, tmp_path / "whole")
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    halves = {"one.safetensors": names[:10], "two.safetensors": names[10:]}
    for file, some in halves.items():
        save_file({name: tensors[name] for name in some}, folder / file)
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    where = {name: file for file, some in halves.items() for name in some}
    index.write_text(json.dumps({"weight_map": where}))
    import_folder(folder, tmp_path / "parts")
    for name, array in read_weights(tmp_path / "whole").items():
        np.testing.assert_array_equal(read_weights(tmp_path / "parts")[name], array)
    index.write_text(json.dumps({"weight_map": {**where, "more": "two.safetensors"}}))
    with pytest.raises(ModelFolderError, match=r"is incomplete: no file of .* has more"):
        import_folder(folder, tmp_path / "ours")
    index.write_text(json.dumps({"weight_map": {"a": "../../one.safetensors"}}))
    with pytest.raises(ModelFolderError, match="which is not a safetensors file of this folder"):
        import_folder(folder, tmp_path / "ours")
    index.write_text(json.dumps({"weight_map": where}))
    (folder / "two.safetensors").unlink()
    with pytest.raises(ModelFolderError, match=r"names two\.safetensors, which is missing"):
        import_folder(folder, tmp_path / "ours")
    index.write_text("{}")
    with pytest.raises(ModelFolderError, match="has no weight_map"):
        import_folder(folder, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_a_float64_that_float32_cannot_hold_is_refused(plain: Path) -> None:
    save_file({"a": torch.tensor([1e300, 1.0], dtype=torch.float64)}, plain / "model.safetensors")
    with pytest.raises(ModelFolderError, match="'a' has a number that is NaN or infinite"):
        HuggingFaceFolder(plain).tensors()


class Dangerous:
    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('code of a pickle was run')",))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "model.pt", "tf_model.h5"])
def test_a_pickle_is_not_opened(plain: Path, name: str) -> None:
    (plain / "model.safetensors").unlink()
    (plain / name).write_bytes(pickle.dumps({"a": Dangerous()}, protocol=2))
    with pytest.raises(ModelFolderError, match=rf"does not open {re.escape(name)}: .* a pickle, which can run code"):
        HuggingFaceFolder(plain).tensors()


def test_code_in_an_allowed_pickle_is_not_run(plain: Path) -> None:
    (plain / "model.safetensors").unlink()
    (plain / "pytorch_model.bin").write_bytes(pickle.dumps({"a": Dangerous()}, protocol=2))
    with pytest.raises(ModelFolderError, match=r"pytorch_model\.bin is not a pickle of tensors only"):
        HuggingFaceFolder(plain, allow_pickle=True).tensors()
    torch.save([1, 2], plain / "pytorch_model.bin")
    with pytest.raises(ModelFolderError, match="is not a dictionary of named tensors"):
        HuggingFaceFolder(plain, allow_pickle=True).tensors()


def test_tensors_of_an_allowed_pickle(plain: Path) -> None:
    tensors = load_file(plain / "model.safetensors")
    (plain / "model.safetensors").unlink()
    torch.save(tensors, plain / "pytorch_model.bin")
    found = HuggingFaceFolder(plain, allow_pickle=True).tensors()
    assert sorted(found.names()) == sorted(tensors)
    for name in found.names():
        np.testing.assert_array_equal(found.take(name), tensors[name].float().numpy())


def test_an_index_that_names_a_pickle(plain: Path) -> None:
    (plain / "model.safetensors").rename(plain / "some.bin")
    (plain / "model.safetensors.index.json").write_text('{"weight_map": {"a": "some.bin"}}')
    with pytest.raises(ModelFolderError, match=r"names 'some\.bin', which is not a safetensors file of this folder"):
        HuggingFaceFolder(plain).tensors()


def test_links_into_the_hub_s_cache_only(plain: Path, tmp_path: Path) -> None:
    snapshot, blobs = tmp_path / "repository" / "snapshots" / "0a1b", tmp_path / "repository" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, name in enumerate(("config.json", "model.safetensors")):
        (plain / name).rename(blobs / str(number))
        (snapshot / name).symlink_to(f"../../blobs/{number}")
    assert HuggingFaceFolder(snapshot).config.number("size") == 3
    assert sorted(HuggingFaceFolder(snapshot).tensors().names()) == ["a", "b", "c"]
    (tmp_path / "secret").write_text("{}")
    (snapshot / "generation_config.json").symlink_to(tmp_path / "secret")
    with pytest.raises(ModelFolderError, match=r"generation_config\.json is a link out of the folder"):
        HuggingFaceFolder(snapshot)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", None, r"has no config\.json"),
        ("config.json", b"{", r"config\.json is not JSON"),
        ("config.json", b"[]", "must hold an object, not a list"),
        ("config.json", b"{}", "has no model_type"),
        (
            "config.json",
            b'{"model_type": "whisper"}',
            "model_type 'whisper', which Regard does not support; it imports bert",
        ),
        ("model.safetensors", None, r"has no weights: neither model\.safetensors nor model\.safetensors\.index\.json"),
        ("model.safetensors", b"damaged", r"model\.safetensors is damaged"),
        ("vocab.json", None, r"has no vocab\.json"),
        ("vocab.json", b'{"a": 0, "b": 2}', "without a gap"),
        ("vocab.json", b'{"a": 0, "b": 1}', "has no <pad> and no <unk> and no </s>"),
        ("source.spm", b"damaged", r"source\.spm and vocab\.json: this is not a SentencePiece model"),
        ("source.spm", b"", r"source\.spm and vocab\.json: this is not a SentencePiece model"),
        ("target.spm", b"", r"target\.spm and vocab\.json: this is not a SentencePiece model"),
        ("target.spm", b"\x00garbage", r"target\.spm and vocab\.json: this is not a SentencePiece model"),
        ("config.json", b"[" * 100_000, r"config\.json is nested too deeply"),
        ("vocab.json", b'{"a":' * 100_000, "this list of pieces is nested too deeply"),
        ("generation_config.json", b"[" * 100_000, r"generation_config\.json is nested too deeply"),
    ],
)
def test_damaged_folders(marian_folder: Any, tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    folder = marian_folder()
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(ModelFolderError, match=message):
        import_folder(folder, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"normalize_before": True}, "normalize_before = True is not supported"),
        ({"decoder_ffn_dim": 50}, "decoder_ffn_dim = 50"),
        ({"activation_function": "tanh"}, "activation_function = 'tanh'"),
        ({"encoder_layers": 1}, r"no use for: model\.encoder\.layers\.1\.fc1\.bias, .* and 11 more"),
        ({"encoder_layers": 3}, r"have no model\.encoder\.layers\.2"),
        ({"vocab_size": 20}, "vocab_size is 20, but the list of source pieces"),
        ({"decoder_start_token_id": 900}, "decoder_start_token_id = 900, but token ids go from 0 to"),
        ({"d_model": 33}, "d_model = 33 is odd; Regard imports even sizes only"),
        ({"d_model": 16}, r"has the shape \(32, 32\), but config\.json implies \(16, 16\)"),
    ],
)
def test_other_models_are_refused(marian_folder: Any, tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    folder = marian_folder()
    change(folder / "config.json", **settings)
    with pytest.raises(ModelFolderError, match=message):
        import_folder(folder, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length_penalty": -1.0}, r"decode\.length_penalty = -1\.0 is too small"),
        ({"num_beams": 200}, r"decode\.beam = 200 is too large; the most is 100"),
        ({"max_length": 1}, r"decode\.max_length_extra = 0 is too small"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(
    marian_folder: Any, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    folder = marian_folder()
    change(folder / "generation_config.json", **settings)
    with pytest.raises(ModelFolderError, match=f"has settings that Regard does not support: {message}"):
        import_folder(folder, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_positions_that_were_learnt_are_refused(marian_folder: Any, tmp_path: Path) -> None:
    folder = marian_folder()
    tensors = load_file(folder / "model.safetensors")
    tensors["model.encoder.embed_positions.weight"] = torch.randn(128, 32)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelFolderError, match="is not the table of sinusoids"):
        import_folder(folder, tmp_path / "ours")


def test_other_formats_and_folders_that_are_there(marian_folder: Any, tmp_path: Path) -> None:
    folder = marian_folder()
    with pytest.raises(ModelFolderError, match="exists already"):
        import_folder(folder, tmp_path)
    with pytest.raises(ModelFolderError, match="there is no folder at"):
        import_folder(tmp_path / "nowhere", tmp_path / "ours")
    (folder / "model.safetensors").rename(folder / "tf_model.h5")
    with pytest.raises(ModelFolderError, match=r"does not open tf_model\.h5"):
        import_folder(folder, tmp_path / "ours")


def test_the_model_card(marian_folder: Any, tmp_path: Path) -> None:
    folder = marian_folder()
    change(folder / "generation_config.json", early_stopping=True, num_beams=6, length_penalty=0.8, max_length=100)
    said: list[str] = []
    described = import_folder(folder, tmp_path / "ours", said.append).description
    assert (described.src_lang, described.tgt_lang) == ("en", "ne")
    decode = described.decode
    assert (decode.beam, decode.beam_rule, decode.length_penalty) == (6, "huggingface", 0.8)
    assert (decode.max_length_ratio, decode.max_length_extra) == (0.0, 99)
    assert said == ["early_stopping = True is ignored: the search continues until no active hypothesis can win"]
    card = (tmp_path / "ours" / CARD).read_text("utf-8")
    assert "# opus" in card
    assert "en → ne" in card


@pytest.mark.parametrize(
    ("ask", "value", "message"),
    [
        ("number", 10**12, r"a = 1000000000000 is too large; the most is \d"),
        ("texts", "x", "a must be a list of texts, not 'x'"),
        ("texts", ["x", 1], "a must be a list of texts, not "),
        ("text", 3, "a must be a text, not 3"),
        ("table", [], "a must be an object, not "),
        ("tables", [{}, 2], "a must be a list of objects, not "),
        ("real", "x", "a must be a number, not 'x'"),
        ("real", True, "a must be a number, not True"),
        ("real", math.inf, "a = inf is too large"),
    ],
)
def test_settings_of_another_kind_are_named(ask: str, value: Any, message: str) -> None:
    config = HuggingFaceConfig({"a": value}, Path("config.json"))
    with pytest.raises(ModelFolderError, match=rf"^config\.json: {message}"):
        getattr(config, ask)("a")


def test_class_names_are_texts() -> None:
    config = HuggingFaceConfig({"id2label": {"0": "good", "1": 2}}, Path("config.json"))
    with pytest.raises(ModelFolderError, match=r"config\.json: id2label must name every class with a text"):
        config.class_names(2)


def test_the_rows_of_a_matrix_only() -> None:
    tensors = HuggingFaceTensors({"a": np.zeros((3, 2)), "b": np.zeros(4)}, Path("x"))
    assert tensors.rows("a") == 3
    with pytest.raises(ModelFolderError, match=r"x: b must be a matrix; its shape is \(4,\)"):
        tensors.rows("b")
    with pytest.raises(ModelFolderError, match="x: c must be a matrix; its shape is missing"):
        tensors.rows("c")


def test_a_tensor_with_and_without_a_prefix_is_refused() -> None:
    tensors = HuggingFaceTensors({"bert.a": np.zeros(1), "a": np.ones(1)}, Path("x"))
    with pytest.raises(ModelFolderError, match=r"x: the weights have some tensor both with and without 'bert\.'"):
        tensors.strip("bert.")
    assert sorted(tensors.names()) == ["a", "bert.a"]


def test_allowed_pickles_in_several_files(plain: Path) -> None:
    tensors = load_file(plain / "model.safetensors")
    (plain / "model.safetensors").unlink()
    torch.save({"a": tensors["a"]}, plain / "one.bin")
    torch.save({"b": tensors["b"], "c": tensors["c"]}, plain / "two.bin")
    index = plain / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "one.bin", "b": "two.bin", "c": "two.bin"}}))
    found = HuggingFaceFolder(plain, allow_pickle=True).tensors()
    assert sorted(found.names()) == ["a", "b", "c"]
    np.testing.assert_array_equal(found.take("a"), tensors["a"].float().numpy())
    index.write_text(json.dumps({"weight_map": {"a": "one.bin", "b": "two.bin"}}))
    with pytest.raises(ModelFolderError, match=r"does not say that 'c' is in two\.bin, where it is"):
        HuggingFaceFolder(plain, allow_pickle=True).tensors()


def test_a_model_that_fails_its_trial_is_not_imported(marian_folder: Any, tmp_path: Path) -> None:
    folder, seen = marian_folder(), []

    def fail(path: Path) -> None:
        seen.append(path)
        raise DataError(f"{path} translates nothing")

    with pytest.raises(ModelFolderError, match=f"^{folder} was not imported: {tmp_path / 'ours'} translates nothing$"):
        import_folder(folder, tmp_path / "ours", trial=fail)
    assert seen != [tmp_path / "ours"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [folder.name]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.encoder.embed_positions.weight": torch.zeros(9)}, r"has the shape \(9,\), not 32 columns"),
        ({"model.shared.weight": torch.zeros(7, 32)}, r"the embeddings have the shape \(7, 32\), but config\.json and"),
        ({"model.shared.weight": None}, r"have no model\.shared\.weight"),
    ],
)
def test_tables_of_another_shape_are_refused(
    marian_folder: Any, tmp_path: Path, changes: dict[str, torch.Tensor | None], message: str
) -> None:
    folder = marian_folder()
    tensors = load_file(folder / "model.safetensors")
    assert "model.shared.weight" in tensors
    changed = {name: tensor for name, tensor in {**tensors, **changes}.items() if tensor is not None}
    save_file(changed, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelFolderError, match=message):
        import_folder(folder, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
