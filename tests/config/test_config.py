"""Recipes: read strictly, resolved in order, and errors a person can act on."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import (
    LARGEST_SEED,
    PRESETS,
    BertConfig,
    CorpusConfig,
    DataConfig,
    DeepSeekConfig,
    FamilyConfig,
    FilterConfig,
    MixtureConfig,
    NormOrder,
    Position,
    RecurrentConfig,
    RunConfig,
    TokenizerConfig,
    TrainConfig,
    TransformerConfig,
    ViTConfig,
    convert,
    to_dict,
)
from regard.config.recipe import differences, flatten, load_recipe, parse_override, run_from_dict, to_toml
from regard.errors import ConfigError, RegardError


def recipe(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def message(folder: Path, text: str, *overrides: str) -> str:
    """What the person who wrote this recipe is told."""
    with pytest.raises(ConfigError) as caught:
        load_recipe(recipe(folder, text), overrides)
    return str(caught.value)


def test_an_empty_recipe_is_the_defaults(tmp_path: Path) -> None:
    assert load_recipe(recipe(tmp_path, "")) == RunConfig()


def test_the_defaults_are_the_papers() -> None:
    model, train, decode = TransformerConfig(), TrainConfig(), RunConfig().decode
    assert (model.position, model.norm_order, model.norm, model.ffn) == ("sinusoidal", "post", "layernorm", "relu")
    assert (model.tie_embeddings, model.dropout) == ("all", 0.1)
    assert (train.beta1, train.beta2, train.eps) == (0.9, 0.98, 1e-9)
    assert (train.warmup_steps, train.schedule, train.label_smoothing) == (4000, "inverse_sqrt", 0.1)
    assert (decode.beam, decode.length_penalty, decode.max_length_extra) == (4, 0.6, 50)


def test_the_presets_base_and_big_are_the_papers_table_3() -> None:
    names = ("n_encoder_layers", "n_decoder_layers", "d_model", "d_ff", "n_heads", "dropout")
    table = {name: tuple(PRESETS[name][key] for key in names) for name in ("base", "big")}
    assert table == {"base": (6, 6, 512, 2048, 8, 0.1), "big": (6, 6, 1024, 4096, 16, 0.3)}


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_is_a_model(name: str) -> None:
    model = run_from_dict({"model": {"preset": name}}).model
    said = flatten(PRESETS[name])
    found = flatten(to_dict(model))
    assert {key: found[key] for key in said} == said


def test_small_is_the_default() -> None:
    assert run_from_dict({"model": {"preset": "small"}}).model == TransformerConfig()


def test_a_model_is_of_the_family_that_it_names() -> None:
    assert run_from_dict({"model": {"family": "recurrent"}}).model == RecurrentConfig()
    assert run_from_dict({"model": {"family": "transformer"}}).model == TransformerConfig()
    gnmt = run_from_dict({"model": {"preset": "gnmt", "d_model": 32}}).model
    assert isinstance(gnmt, RecurrentConfig)
    assert (gnmt.d_model, gnmt.n_encoder_layers, gnmt.residual, gnmt.bidirectional) == (32, 8, True, "first")


def test_what_was_written_before_there_were_families_is_a_transformer() -> None:
    tree = to_dict(RunConfig())
    assert tree["model"].pop("family") == "transformer"
    assert run_from_dict(tree) == RunConfig()


def test_one_vocabulary_for_both_languages_is_asked_of_every_family() -> None:
    with pytest.raises(ConfigError, match="needs one vocabulary"):
        run_from_dict({"model": {"family": "recurrent"}, "data": {"tokenizer": {"joint": False}}})


def test_precedence_defaults_preset_recipe_set(tmp_path: Path) -> None:
    path = recipe(tmp_path, '[model]\npreset = "base"\nd_ff = 1000\ndropout = 0.2\n[train]\nlr = 1')
    model = load_recipe(path).model
    assert (model.n_heads, model.d_model, model.d_ff, model.dropout, model.ffn) == (8, 512, 1000, 0.2, "relu")
    run = load_recipe(path, ["model.dropout=0.25", "model.ffn=gelu", "train.seed = 7"])
    assert (run.model.d_ff, run.model.dropout, run.model.ffn, run.train.seed) == (1000, 0.25, "gelu", 7)
    assert run.train.lr == 1.0
    assert isinstance(run.train.lr, float)


def test_a_preset_that_is_set_is_every_setting_of_it(tmp_path: Path) -> None:
    path = recipe(tmp_path, '[model]\npreset = "base"\nd_ff = 1000\ndropout = 0.2\nffn = "gelu"')
    big = load_recipe(path, ["model.preset=big"]).model
    assert (big.n_heads, big.d_model, big.d_ff, big.dropout, big.ffn) == (16, 1024, 4096, 0.3, "gelu")
    for overrides in (["model.preset = big", "model.d_ff=64"], ["model.d_ff=64", "model.preset = big"]):
        model = load_recipe(path, overrides).model
        assert (model.n_heads, model.d_ff, model.dropout) == (16, 64, 0.3)
    assert load_recipe(path, ["model.preset=lstm", "model.preset=tiny"]).model.d_model == 128
    assert (
        load_recipe(recipe(tmp_path, '[model]\npreset = "gnmt"'), ["model.preset=small"]).model == TransformerConfig()
    )
    said = message(tmp_path, "[model]\nd_ff = 64", "model.preset=bigg")
    assert said == f"{tmp_path / 'recipe.toml'}: model.preset = 'bigg' is not known; did you mean 'big'?"


def test_the_last_set_wins(tmp_path: Path) -> None:
    run = load_recipe(recipe(tmp_path, ""), ["train.seed=3", "train.seed=4"])
    assert run.train.seed == 4


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("data.src_lang=zh", "zh"),
        ('data.src_lang="zh"', "zh"),
        ("data.src_lang=", ""),
        ("data.src_lang=a=b", "a=b"),
        ("data.lowercase=true", True),
        ("train.lr=3e-4", 3e-4),
        ("train.max_steps=10_000", 10_000),
        ("data.tokenizer.vocab_size=500", 500),
        ("data.filters.max_ratio=3", 3.0),
        ("data.tokenizer.kind=unigram", "unigram"),
    ],
)
def test_set_reads_toml_or_a_bare_word(tmp_path: Path, override: str, expected: Any) -> None:
    value: Any = load_recipe(recipe(tmp_path, ""), [override])
    for part in override.partition("=")[0].split("."):
        value = getattr(value, part)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize("override", ["train.lr", "=3", " =3", ""])
def test_a_set_without_a_key_or_value(tmp_path: Path, override: str) -> None:
    assert "is not of the form key=value" in message(tmp_path, "", override)


def test_set_cannot_reach_into_a_list_of_tables(tmp_path: Path) -> None:
    text = '[[data.train]]\ntoy = "copy"'
    assert "train is a list of tables; change it in the recipe" in message(tmp_path, text, "data.train.size=5")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[train]\nlerning_rate = 1\nwarmup_step = 3", "unknown key train.lerning_rate"),
        ("[train]\nwarmup_step = 3", "unknown key train.warmup_step; did you mean 'warmup_steps'?"),
        ("[trian]\nlr = 1", "unknown key trian; did you mean 'train'?"),
        ("[data.tokenizer]\nvocabsize = 300", "unknown key data.tokenizer.vocabsize; did you mean 'vocab_size'?"),
        ("[[data.train]]\nsorce = 'a'", "unknown key data.train[0].sorce; did you mean 'src'?"),
        ("xyzzy = 1", "unknown key xyzzy; it may be one of 'data', 'decode', 'model', 'train'"),
        ('[model]\npreset = "bigg"', "model.preset = 'bigg' is not known; did you mean 'big'?"),
        (
            "[model]\npreset = 3",
            f"model.preset = 3 is not known; it may be one of {', '.join(map(repr, sorted(PRESETS)))}",
        ),
        ("[train]\nseed = 1.5", "train.seed = 1.5 is not possible; it must be a whole number"),
        (f"[train]\nseed = {2**63}", f"train.seed = {2**63} is too large; the most is {2**63 - 1}"),
        ("[decode]\nseed = -1", "decode.seed = -1 is too small; the least is 0"),
        ("[[data.train]]\nseed = -1", "data.train[0].seed = -1 is too small; the least is 0"),
        ("[train]\nseed = true", "train.seed = True is not possible; it must be a whole number"),
        ("[train]\nlr = 'fast'", "train.lr = 'fast' is not possible; it must be a number"),
        ("[train]\nlr = false", "train.lr = False is not possible; it must be a number"),
        ("[data]\nlowercase = 1", "data.lowercase = 1 is not possible; it must be true or false"),
        ("[data]\nsrc_lang = 3", "data.src_lang = 3 is not possible; it must be a text"),
        ("[data]\ntrain = 'corpus.tsv'", "data.train must be a list, not 'corpus.tsv'"),
        (
            "[data]\ntrain = ['corpus.tsv']",
            "data.train[0] must be a table of settings (in JSON, an object), not 'corpus.tsv'",
        ),
        ("[data.tokenizer]\nfiles = [1]", "data.tokenizer.files[0] = 1 is not possible; it must be a text"),
        ("model = 3", "model must be a table of settings (in JSON, an object), not 3"),
        ("[model]\nn_heads = 0", "model.n_heads = 0 is too small; the least is 1"),
        ("[model]\ndropout = 1.0", "model.dropout = 1.0 is too large; it must be below 1.0"),
        ("[model]\ndropout = -0.1", "model.dropout = -0.1 is too small; the least is 0.0"),
        ("[train]\nlr = nan", "train.lr = nan must be finite"),
        ("[train]\nthreads = 100000", "train.threads = 100000 is too large; the most is 1024"),
        ("[decode]\ntop_p = 1.5", "decode.top_p = 1.5 is too large; the most is 1.0"),
        ("[decode]\ntemperature = inf", "decode.temperature = inf must be finite"),
        ("[decode]\nlength_penalty = 1000.0", "decode.length_penalty = 1000.0 is too large; the most is 10.0"),
        ("[train]\npatience = 3", "and there is no [[data.valid]]: add one, or remove train.patience"),
        ("[[data.train]]\nsize = 0", "data.train[0].size = 0 is too small; the least is 1"),
        (
            '[model]\nffn = "relu2"',
            "model.ffn = 'relu2' is not possible; it may be one of 'relu', 'gelu', 'gelu_tanh', ",
        ),
        ("[model]\nffn = ['relu']", "model.ffn = ['relu'] is not possible; it may be one of"),
        (
            "[model]\nd_model = 12\nn_heads = 5",
            "model.n_heads = 5 does not divide model.d_model = 12: every head gets d_model / n_heads dimensions, "
            "so take one of [1, 2, 3, 4, 6, 12]",
        ),
        ("[model]\nd_model = 12\nn_heads = 4\nposition = 'rotary'", "must be even; it is 3"),
        ("[model]\nsrc_vocab_size = 9", "set data.tokenizer.joint = true, or model.tie_embeddings = 'output'"),
        ("[model]\nfamily = 'recurent'", "model.family = 'recurent' is not possible; it may be one of 'transformer', "),
        ("[model]\nfamily = ['recurrent']", "model.family = ['recurrent'] is not possible; it may be one of"),
        (
            "[model]\ncell = 'gru'",
            "model.cell is a setting of the family 'recurrent', but model.family is 'transformer': "
            "remove the setting, or change model.family",
        ),
        ("[model]\npreset = 'gnmt'\nn_heads = 8", "model.n_heads is a setting of the family 'transformer'"),
        ("[model]\npreset = 'gnmt'\nfamily = 'transformer'", "is a setting of the family 'recurrent'"),
        ("[model]\nfamily = 'recurrent'\ncel = 'gru'", "unknown key model.cel; did you mean 'cell'?"),
        (
            "[model]\npreset = 'lstm'\ncell = 'gruu'",
            "model.cell = 'gruu' is not possible; it may be one of 'rnn', 'gru'",
        ),
        ("[model]\npreset = 'lstm'\ndropout = 1", "model.dropout = 1.0 is too large; it must be below 1.0"),
        ("[model]\nfamily = 'recurrent'\nsrc_vocab_size = 9", "or model.tie_embeddings = 'output'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, told: str) -> None:
    said = message(tmp_path, text)
    assert told in said
    assert said.startswith(f"{tmp_path / 'recipe.toml'}: ")


def test_a_wrong_set_is_said_too(tmp_path: Path) -> None:
    assert "train.seed = 'x' is not possible" in message(tmp_path, "", "train.seed=x")
    assert "unknown key train.sede; did you mean 'seed'?" in message(tmp_path, "", "train.sede=1")
    assert "unknown key sede" in message(tmp_path, "", "sede=1")


def test_bad_toml(tmp_path: Path) -> None:
    assert re.search(r"recipe\.toml is not valid TOML: .*line 2", message(tmp_path, "[train]\nlr = = 3"))


def test_a_byte_order_mark_is_no_part_of_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text("[train]\nseed = 5\n", "utf-8-sig")
    assert load_recipe(tmp_path / "r.toml").train.seed == 5


def test_missing_recipe(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no recipe at .*none\.toml; .* recipes/"):
        load_recipe(tmp_path / "none.toml")


def test_a_folder_or_a_path_through_a_file_is_not_a_recipe(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        load_recipe(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read: Not a directory"):
        load_recipe(recipe(tmp_path, "") / "inner.toml")


def test_a_recipe_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes('about = "我"'.encode("gbk"))
    with pytest.raises(ConfigError, match=r"not UTF-8 text \(byte 9\)"):
        load_recipe(path)


def test_config_errors_exit_with_two() -> None:
    assert issubclass(ConfigError, RegardError)
    assert ConfigError.code == 2


def test_relative_paths_are_relative_to_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
        [data.tokenizer]
        files = ["tok/zh.model", "/abs/en.model"]
        [[data.train]]
        src = "../corpus/a.zh"
        tgt = "corpus/a.en"
        [[data.valid]]
        file = "${CORPORA}/valid.tsv"
        [[data.test]]
        file = "/abs/test.tsv"
        about = "not/a/path"
        [model]
        tie_embeddings = "output"
    """
    (tmp_path / "recipes").mkdir()
    recipe(tmp_path / "recipes", text)
    monkeypatch.chdir(tmp_path)
    data = load_recipe("recipes/recipe.toml").data
    assert data.train[0].src == str(tmp_path / "corpus/a.zh")
    assert data.train[0].tgt == str(tmp_path / "recipes/corpus/a.en")
    assert data.train[0].file == ""
    assert data.valid[0].file == "${CORPORA}/valid.tsv"
    assert (data.test[0].file, data.test[0].about) == ("/abs/test.tsv", "not/a/path")
    assert data.tokenizer.files == (str(tmp_path / "recipes/tok/zh.model"), "/abs/en.model")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
corpora = st.builds(
    CorpusConfig,
    src=texts,
    about=texts,
    toy=st.sampled_from(["copy", "reverse"]),
    size=st.integers(1, 10**12),
    seed=st.integers(0, LARGEST_SEED),
    weight=st.floats(0, 1e300),
)
runs = st.builds(
    RunConfig,
    data=st.builds(
        DataConfig,
        src_lang=texts,
        train=st.lists(corpora, max_size=2).map(tuple),
        test=st.lists(st.builds(CorpusConfig, src=texts, about=texts), max_size=1).map(tuple),
        lowercase=st.booleans(),
        tokenizer=st.builds(TokenizerConfig, files=st.lists(texts, max_size=2).map(tuple)),
        filters=st.builds(FilterConfig, max_ratio=st.floats(1, 1e9)),
    ),
    model=st.builds(
        TransformerConfig,
        position=st.sampled_from(get_args(Position)),
        norm_order=st.sampled_from(get_args(NormOrder)),
        tie_embeddings=st.sampled_from(["output", "none"]),  # 'all' does not go with two tokenizer files
    )
    | st.builds(RecurrentConfig, d_model=st.integers(1, 9), residual=st.booleans(), tie_embeddings=st.just("output")),
    train=st.builds(TrainConfig, lr=st.floats(0, 1), eps=st.floats(0, 1e-3), seed=st.integers(0, LARGEST_SEED)),
)


@given(run=runs)
@settings(max_examples=80, deadline=None)
def test_a_resolved_run_is_a_recipe_of_itself(run: RunConfig) -> None:
    again = run_from_dict(tomllib.loads(to_toml(run)))
    assert again == run
    assert differences(run, again) == []
    assert run_from_dict(to_dict(run)) == run


def test_what_to_toml_writes_can_be_read_by_load_recipe(tmp_path: Path) -> None:
    first = load_recipe(recipe(tmp_path, '[model]\npreset = "tiny"\n[[data.train]]\nsrc = "a"\ntgt = "b"'))
    (tmp_path / "elsewhere").mkdir()
    assert load_recipe(recipe(tmp_path / "elsewhere", to_toml(first))) == first


def test_differences_are_by_dotted_name() -> None:
    old = run_from_dict({"data": {"train": [{"toy": "copy"}]}})
    new = run_from_dict(
        {"data": {"train": [{"toy": "copy", "size": 5}]}, "train": {"lr": 0.5}, "model": {"ffn": "gelu"}}
    )
    assert differences(old, new) == [
        ("data.train.0.size", 10_000, 5),
        ("model.ffn", "relu", "gelu"),
        ("train.lr", 0.0, 0.5),
    ]
    assert differences(old, old) == []


def test_differences_show_a_corpus_that_came_or_went() -> None:
    old, new = RunConfig(), run_from_dict({"data": {"valid": [{"toy": "copy"}]}})
    found = {name: (before, after) for name, before, after in differences(old, new)}
    assert found["data.valid.0.toy"] == (None, "copy")
    assert all(name.startswith("data.valid") for name in found)


def test_flatten_names_every_setting() -> None:
    flat = flatten(to_dict(RunConfig()))
    assert flat["data.tokenizer.vocab_size"] == 8000
    assert flat["data.train"] == []
    parts = (DataConfig, TokenizerConfig, FilterConfig, TransformerConfig, MixtureConfig)
    leaves = sum(len(dataclasses.fields(part)) for part in parts) - 3
    assert len(flat) == leaves + len(dataclasses.fields(TrainConfig)) + len(dataclasses.fields(RunConfig().decode))


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunConfig().train.lr = 3.0  # type: ignore[misc]


def test_every_default_is_within_its_own_range() -> None:
    assert run_from_dict(to_dict(RunConfig())) == RunConfig()


def test_reading_a_recipe_does_not_load_torch() -> None:
    program = (
        "import sys, regard.config; heavy = {'torch', 'numpy'} & set(sys.modules); sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_learned_positions_must_cover_the_longest_sentence() -> None:
    with pytest.raises(ConfigError, match="max_positions = 64 learned positions are too few"):
        run_from_dict({"model": {"position": "learned", "max_positions": 64}})
    run_from_dict({"model": {"position": "learned", "max_positions": 64}, "data": {"filters": {"max_tokens": 63}}})


def test_a_beam_has_an_end() -> None:
    with pytest.raises(ConfigError, match="the most is 100"):
        run_from_dict({"decode": {"beam": 1_000_000}})


def test_a_home_folder_in_a_recipe_is_not_anchored(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text('[[data.train]]\nfile = "~/pairs.tsv"\n')
    assert load_recipe(tmp_path / "r.toml").data.train[0].file == "~/pairs.tsv"


def test_a_table_within_a_preset_is_changed_setting_by_setting() -> None:
    run = run_from_dict({"model": {"preset": "deepseek-v3", "n_layers": 2, "moe": {"n_experts": 16}}})
    assert isinstance(run.model, DeepSeekConfig)
    assert (run.model.n_layers, run.model.moe.n_experts, run.model.moe.experts_per_token) == (2, 16, 8)
    assert run_from_dict(to_dict(run)) == run


def test_experts_are_a_feed_forward_choice() -> None:
    run = run_from_dict({"model": {"ffn": "moe", "moe": {"n_experts": 4, "gate": "softmax"}}})
    assert isinstance(run.model, TransformerConfig)
    assert (run.model.ffn, run.model.moe.n_experts, run.model.moe.experts_per_token) == ("moe", 4, 2)
    with pytest.raises(ConfigError, match=r"unknown key model\.moe\.n_expert; did you mean 'n_experts'\?"):
        run_from_dict({"model": {"ffn": "moe", "moe": {"n_expert": 4}}})
    with pytest.raises(ConfigError, match=r"model\.moe\.gate = 'hard' is not possible"):
        run_from_dict({"model": {"moe": {"gate": "hard"}}})


def test_an_old_model_folder_has_no_experts() -> None:
    old = {name: value for name, value in to_dict(TransformerConfig()).items() if name not in ("moe", "output_bias")}
    assert convert(FamilyConfig, old, "model") == TransformerConfig()


def test_brackets_that_are_nested_too_deeply(tmp_path: Path) -> None:
    path = recipe(tmp_path, f"model = {'[' * 100_000}")
    with pytest.raises(ConfigError, match=r"\.toml is not a recipe: its brackets are nested too deeply"):
        load_recipe(path)
    with pytest.raises(ConfigError, match=r"^--set model\.mean is not a setting: its brackets are nested too deeply"):
        parse_override(f"model.mean={'[' * 100_000}")


def test_what_a_bert_is_for_follows_from_its_heads() -> None:
    uses = {heads: str(BertConfig(heads=heads).use) for heads in ((), ("masked",), ("classes",), ("tags",))}
    assert uses[()] == "it embeds text, with regard.TextEncoder in Python: without a head it gives vectors only"
    assert "it predicts masked tokens, with regard fill" in uses[("masked",)]
    assert uses[("classes",)] == uses[("tags",)] == 'it classifies text, with regard classify "…"'


def test_pixels_have_a_range() -> None:
    with pytest.raises(ConfigError, match=r"model\.mean = \[1e\+30\] is too large; pixels are from 0 to 1"):
        ViTConfig(mean=(1e30,))
