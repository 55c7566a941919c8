"""Settings that were renamed: stored recipes, model folders and runs with the former names still load.

`data/former_names` was written by the last version with the former names: `regard train recipe.toml --run run`.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from regard.config import MixtureConfig, RecurrentConfig, RunConfig, TransformerConfig, to_dict
from regard.config.parsing import report_former_name
from regard.config.recipe import flatten, load_recipe, run_from_dict
from regard.errors import ConfigError
from regard.model_folder.folder import read_description
from regard.train.launch import resume
from regard.train.run_folder import RunFolder

STORED = Path(__file__).parent / "data" / "former_names"
CHECKPOINT = STORED / "run" / "checkpoints" / "step-00000002"
MIXTURE = {
    "n_active": "experts_per_token",
    "n_shared": "n_shared_experts",
    "n_active_groups": "groups_per_token",
    "normalise": "normalise_gates",
    "scale": "routed_scaling_factor",
    "balance": "load_balancing",
    "balance_rate": "load_balancing_rate",
}
MODEL = {"model.sharing": "model.tie_embeddings", **{f"model.moe.{a}": f"model.moe.{b}" for a, b in MIXTURE.items()}}
RECIPE = MODEL | {
    "data.tokenizer.sampling": "data.tokenizer.dropout",
    "train.accumulate": "train.gradient_accumulation_steps",
    "train.keep": "train.keep_checkpoints",
    "train.average": "train.average_checkpoints",
    "train.valid_translate": "train.valid_translations",
    "train.samples": "train.valid_samples",
}
RUN = RECIPE | {
    "data.train.whole": "data.train.whole_file",
    "data.valid.whole": "data.valid.whole_file",
    "data.mirror": "data.horizontal_flip",
    "data.shift": "data.random_shift",
    "train.init": "train.init_from",
    "train.masked": "train.mask_probability",
}


@pytest.fixture(autouse=True)
def unreported() -> None:
    """Every test sees the messages as a new process does."""
    report_former_name.cache_clear()


def messages(names: dict[str, str]) -> list[str]:
    return sorted(f"{former} is now called {name}: please rename it" for former, name in names.items())


def test_a_stored_recipe_loads_and_each_former_key_is_named(caplog: pytest.LogCaptureFixture) -> None:
    run = load_recipe(STORED / "recipe.toml")
    assert sorted(caplog.messages) == messages(RECIPE)
    assert isinstance(run.model, TransformerConfig)
    assert (run.model.tie_embeddings, run.model.ffn) == ("output", "moe")
    moe = run.model.moe
    assert (moe.n_experts, moe.experts_per_token, moe.n_shared_experts, moe.groups_per_token) == (2, 2, 1, 1)
    assert (moe.normalise_gates, moe.routed_scaling_factor) == (False, 0.5)
    assert (moe.load_balancing, moe.load_balancing_rate) == ("loss", 0.01)
    train = run.train
    assert (train.gradient_accumulation_steps, train.keep_checkpoints, train.average_checkpoints) == (2, 1, 1)
    assert (train.valid_translations, train.valid_samples, run.data.tokenizer.dropout) == (2, 1, 0.1)


def test_a_stored_model_folder_loads_and_each_former_key_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    first = read_description(CHECKPOINT)
    assert sorted(caplog.messages) == messages(MODEL)
    assert read_description(CHECKPOINT) == first
    assert len(caplog.messages) == len(MODEL)
    recipe = to_dict(load_recipe(STORED / "recipe.toml").model)
    assert to_dict(first.model) == recipe | {"src_vocab_size": 290, "tgt_vocab_size": 290}


def test_a_stored_run_loads_and_resumes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(STORED / "run", tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    stored = folder.read_config()
    assert sorted(caplog.messages) == messages(RUN)
    recipe = load_recipe(STORED / "recipe.toml", ["train.max_steps=3"])
    changed = {name for name, value in flatten(to_dict(stored)).items() if flatten(to_dict(recipe))[name] != value}
    assert changed == {"train.max_steps", "model.src_vocab_size", "model.tgt_vocab_size"}

    said: list[str] = []

    class Listener:
        def message(self, text: str) -> None:
            said.append(text)

        def step(self, report: object) -> None: ...

        def validation(self, report: object) -> None: ...

    assert resume(recipe, folder, Listener()).step == 3
    assert any(text.startswith("resumed at step 2") for text in said)
    assert "sharing" not in folder.config.read_text("utf-8")


def test_an_override_may_use_the_former_or_the_present_name(tmp_path: Path) -> None:
    for key in ("average", "average_checkpoints"):
        (tmp_path / "recipe.toml").write_text(f"[train]\n{key} = 2\n", "utf-8")
        for override in ("train.average=3", "train.average_checkpoints=3"):
            assert load_recipe(tmp_path / "recipe.toml", [override]).train.average_checkpoints == 3
    assert load_recipe(
        tmp_path / "recipe.toml", ["model.moe.balance=loss", "model.ffn=moe"]
    ).model == TransformerConfig(ffn="moe", moe=MixtureConfig(load_balancing="loss"))


def test_a_former_name_replaces_what_a_preset_says() -> None:
    run = run_from_dict({"model": {"preset": "lstm", "sharing": "output"}})
    assert isinstance(run.model, RecurrentConfig)
    assert run.model.tie_embeddings == "output"


def test_both_names_at_once_are_an_error() -> None:
    said = r"train\.keep is the former name of train\.keep_checkpoints, and both are set: remove train\.keep"
    with pytest.raises(ConfigError, match=said):
        run_from_dict({"train": {"keep": 6, "keep_checkpoints": 7}})


def test_present_names_have_no_message(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "regard"):
        assert run_from_dict(to_dict(RunConfig())) == RunConfig()
        for name in ("en-zh", "zh-en"):
            read_description(Path(__file__).parents[2] / "src" / "regard" / "bundled" / name)
        for recipe in sorted((Path(__file__).parents[2] / "recipes").glob("*.toml")):
            load_recipe(recipe)
    assert caplog.messages == []
