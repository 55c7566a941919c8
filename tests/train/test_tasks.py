"""What families other than translators learn: running text, hidden words, labels of texts and of images."""

from __future__ import annotations

import dataclasses
import gzip
import math
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import ImageClassifier, TextEncoder, TextGenerator
from regard.cli.display import buckets_text, spans_text
from regard.config import CorpusConfig, RunConfig
from regard.config.recipe import run_from_dict
from regard.data.batches import DataPosition
from regard.data.examples import Shuffled
from regard.data.texts import Windows, cut_evenly
from regard.errors import ConfigError, DataError
from regard.model_folder.atomic import default_cache
from regard.model_folder.folder import read_description
from regard.tokenizers.characters import CharacterTokenizer
from regard.tokenizers.sentencepiece import SentencePieceTokenizer
from regard.tokenizers.training import train_vocabulary
from regard.train.evaluate import evaluate_model
from regard.train.launch import resume, start
from regard.train.masked_lm_task import IGNORED, Masker
from regard.train.model_card import model_card
from regard.train.reports import ValidationReport
from regard.train.run_folder import RunFolder
from regard.train.span_corruption_task import sentinels_of
from regard.train.task import NoProbes
from regard.train.tasks import build_task, prepare_run

TRAIN: dict[str, Any] = {
    "max_steps": 12, "batch_tokens": 96, "lr": 1e-2, "warmup_steps": 2, "validate_every": 4, "log_every": 4,
    "label_smoothing": 0.0, "keep_checkpoints": 2, "average_checkpoints": 1, "precision": "float32",
}  # fmt: skip
SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1}
Make = Callable[..., RunConfig]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Texts, labelled texts and images, small enough for a few steps and learnable."""
    lines = [f"{'ab' * (1 + i % 4)} and {'cd' * (1 + i % 3)}." for i in range(120)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    labelled = [
        (f"good {'very ' * (i % 3)}fine", "yes") if i % 2 else (f"bad {'so ' * (i % 3)}sad", "no") for i in range(60)
    ]
    (tmp_path / "labels.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in labelled))
    random = np.random.default_rng(1)
    labels = random.integers(0, 2, 64).astype(np.uint8)
    pixels = random.integers(0, 60, (64, 8, 8)).astype(np.uint8)
    pixels[labels == 1, :4] += 150  # bright above
    for name, array in (("images", pixels), ("classes", labels)):
        head = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(head + array.tobytes()))
    return tmp_path


@pytest.fixture
def make(folder: Path) -> Make:
    """A tiny run of a kind, with changes to its [train]."""
    text, labels = str(folder / "text.txt"), str(folder / "labels.tsv")
    images, classes = str(folder / "images.gz"), str(folder / "classes.gz")
    characters = {"tokenizer": {"kind": "characters"}, "filters": {"max_tokens": 24}}
    pieces = {"tokenizer": {"vocab_size": 320}, "filters": {"max_tokens": 24}}
    moe = {"n_experts": 4, "experts_per_token": 2, "d_ff": 8}
    kinds: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "gpt": (
            {
                "train": [{"text": text, "whole_file": True, "stop": 0.8}],
                "valid": [{"text": text, "whole_file": True, "start": 0.8}],
                **characters,
            },
            {"family": "gpt", "max_positions": 32, **SIZES},
        ),
        "gpt of pieces": (
            {"train": [{"text": text}], "valid": [{"text": text, "start": 0.9}], **pieces},
            {"family": "gpt", "max_positions": 32, **SIZES},
        ),
        "gpt with spans": (
            {"train": [{"text": text}], "valid": [{"text": text, "start": 0.9}], **characters},
            {
                "family": "gpt", "max_positions": 32, **SIZES,
                "attention": {"kind": "adaptive_span", "max_span": 8, "initial_span": 1, "ramp": 2, "span_loss": 1.0},
            },
        ),
        "reformer": (
            {"train": [{"text": text}], "valid": [{"text": text, "start": 0.9}], **characters},
            {
                "family": "gpt", "max_positions": 32, **SIZES, "residual": "reversible",
                "attention": {"kind": "lsh", "n_buckets": 4, "chunk": 4, "n_rounds": 2},
            },
        ),
        "recall": (
            {
                "train": [
                    {"toy": "recall", "length": 24, "pairs": 3, "symbols": 20, "size": 40},
                    {"toy": "recall", "length": 16, "pairs": 2, "symbols": 20, "size": 40},
                ],
                "valid": [{"toy": "recall", "length": 24, "pairs": 3, "symbols": 20, "size": 40}],
            },
            {"family": "gpt", "max_positions": 24, **SIZES},
        ),
        "deepseek": (
            {"train": [{"text": text}], "valid": [{"text": text, "start": 0.9}], **characters},
            {
                "family": "deepseek", "d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 2, "n_dense_layers": 1,
                "q_rank": 8, "kv_rank": 8, "head_size": 8, "rotary_size": 4, "value_size": 8, "moe": moe,
            },
        ),
        "bert": (
            {"train": [{"text": text}], "valid": [{"text": text, "start": 0.5}], **pieces},
            {"family": "bert", "max_positions": 32, "heads": ["masked", "next"], **SIZES},
        ),
        "t5": (
            {"train": [{"text": text}], "valid": [{"text": text, "start": 0.5}], **pieces},
            {
                "family": "t5", "d_model": 16, "n_heads": 2, "head_size": 8, "d_ff": 16, "n_encoder_layers": 1,
                "n_decoder_layers": 1,
            },
        ),
        "bert classes": (
            {"train": [{"file": labels, "stop": 0.8}], "valid": [{"file": labels, "start": 0.8}], **pieces},
            {"family": "bert", "max_positions": 32, "heads": ["classes"], **SIZES},
        ),
        "vit": (
            {
                "train": [{"images": images, "labels": classes, "stop": 0.75}],
                "valid": [{"images": images, "labels": classes, "start": 0.75}],
                "label_names": ["dark", "bright"],
                "horizontal_flip": True,
                "random_shift": 1,
            },
            {"family": "vit", "image_size": 8, "patch_size": 4, **SIZES},
        ),
    }  # fmt: skip

    def make_run(kind: str, **train: Any) -> RunConfig:
        data, model = kinds[kind]
        samples = {} if model["family"] in ("bert", "vit") else {"valid_samples": 1}
        train = {**TRAIN, **samples, **train}
        return run_from_dict({"data": data, "model": {**model, "dropout": 0.1}, "train": train})

    return make_run


KINDS = (
    "gpt",
    "gpt of pieces",
    "gpt with spans",
    "reformer",
    "recall",
    "deepseek",
    "bert",
    "t5",
    "bert classes",
    "vit",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_ends_where_an_uninterrupted_run_ends(kind: str, make: Make, tmp_path: Path, heard: Any) -> None:
    whole, broken = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "broken")
    how: dict[str, Any] = {"ema": 0.9, "gradient_accumulation_steps": 2}
    start(make(kind, **how), whole, heard)
    start(make(kind, **how, max_steps=7), broken, heard)
    resume(make(kind, **how), broken, heard)
    for name in ("weights.safetensors", "training/weights.safetensors", "training/optimizer.safetensors"):
        ends = [(folder.checkpoint(12) / name).read_bytes() for folder in (whole, broken)]
        assert ends[0] == ends[1], name


@pytest.mark.parametrize(("kind", "r_drop"), [*((kind, 0.0) for kind in KINDS), ("gpt", 1.0), ("vit", 1.0)])
def test_the_loss_falls(kind: str, r_drop: float, make: Make, tmp_path: Path, heard: Any) -> None:
    start(make(kind, max_steps=60, validate_every=30, r_drop=r_drop), RunFolder(tmp_path / "run"), heard)
    first, last = heard.validations[0], heard.validations[-1]
    assert last.nll < first.nll or last.nll < 0.1
    assert heard.steps[-1].nll < heard.steps[0].nll


def test_labels_are_learnt(make: Make, tmp_path: Path, heard: Any) -> None:
    for kind in ("bert classes", "vit"):
        run = RunFolder(tmp_path / kind)
        start(make(kind, max_steps=60, validate_every=30, metric="accuracy"), run, heard)
        assert heard.validations[-1].accuracy == 1.0
    report = evaluate_model(tmp_path / "vit" / "model", make("vit"), "valid", heard.message)
    assert report.accuracy == 1.0
    assert ImageClassifier(tmp_path / "vit" / "model").labels == ("dark", "bright")
    assert [
        one.label for one in TextEncoder(tmp_path / "bert classes" / "model").classify(["good fine", "bad sad"])
    ] == [
        "yes",
        "no",
    ]


def test_experts_are_balanced_and_reported(make: Make, tmp_path: Path, heard: Any) -> None:
    start(make("deepseek"), RunFolder(tmp_path / "run"), heard)
    balances = [report.balance for report in heard.steps]
    assert all(balance is not None and 0 < balance.entropy <= 1 and balance.busiest >= 1 for balance in balances)
    assert RunFolder(tmp_path / "run").read_metrics()[0]["balance"].keys() == {"entropy", "busiest", "idle"}


def test_spans_are_learnt_clamped_and_reported(make: Make, tmp_path: Path, heard: Any) -> None:
    """A loss so large that no span pays: they fall to nothing, and no lower."""
    folder = RunFolder(tmp_path / "run")
    start(make("gpt with spans", max_steps=60), folder, heard)
    means = [report.spans.mean for report in heard.steps]
    assert means[0] < 1
    assert means == sorted(means, reverse=True)
    assert means[-1] == 0
    row = folder.read_metrics()[0]["spans"]
    assert row["mean"] == means[0]
    assert {name: len(heads) for name, heads in row["heads"].items()} == {"layers.0.attention": 2}
    assert spans_text(heard.steps[0].spans).startswith(f"mean {means[0]:.0f} tokens, longest ")


def test_buckets_are_reported(make: Make, tmp_path: Path, heard: Any) -> None:
    folder = RunFolder(tmp_path / "run")
    start(make("reformer"), folder, heard)
    buckets = heard.steps[0].buckets
    assert buckets.mean == 6  # windows of 24 tokens, 4 buckets
    assert 6 <= buckets.largest <= 24
    assert 0 < buckets.seen < 1
    assert folder.read_metrics()[0]["buckets"] == vars(buckets)
    assert buckets_text(buckets).startswith("mean 6.0 tokens, largest ")


def test_what_comes_out_can_be_used(make: Make, tmp_path: Path, heard: Any) -> None:
    start(make("gpt"), RunFolder(tmp_path / "gpt"), heard)
    assert isinstance(TextGenerator(tmp_path / "gpt" / "model")("ab"), str)
    start(make("bert"), RunFolder(tmp_path / "bert"), heard)
    assert len(TextEncoder(tmp_path / "bert" / "model").fill("abab [MASK] cd.").masks) == 1


def test_a_run_may_start_from_another_model(make: Make, tmp_path: Path, heard: Any) -> None:
    start(make("bert"), RunFolder(tmp_path / "first"), heard)
    start(make("bert classes", init_from=str(tmp_path / "first" / "model")), RunFolder(tmp_path / "second"), heard)
    (said,) = [message for message in heard.messages if "initialised " in message]
    assert not said.startswith("initialised 0 of ")
    first, second = (tmp_path / name / "model" / "tokenizer.model" for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()


def test_a_classifier_may_start_from_another(make: Make, folder: Path, tmp_path: Path, heard: Any) -> None:
    start(make("bert classes"), RunFolder(tmp_path / "first"), heard)
    other = (folder / "labels.tsv").read_text().replace("\tyes", "\tpraise").replace("\tno", "\tblame")
    (folder / "labels.tsv").write_text("hello\tgreeting\n" + other)
    start(make("bert classes", init_from=str(tmp_path / "first" / "model")), RunFolder(tmp_path / "second"), heard)
    assert read_description(tmp_path / "second" / "model").labels == ("blame", "greeting", "praise")
    (said,) = [message for message in heard.messages if "initialised " in message]
    assert not said.startswith("initialised 0 of ")


def test_lines_without_a_text_or_a_label_are_left_out(make: Make, folder: Path, tmp_path: Path, heard: Any) -> None:
    with (folder / "labels.tsv").open("a") as file:
        file.write("\n\tyes\nnothing said\t\n")
    start(make("bert classes"), RunFolder(tmp_path / "run"), heard)
    assert read_description(tmp_path / "run" / "model").labels == ("no", "yes")
    assert any("3 of 13 lines lack a text or a label" in message for message in heard.messages)


def test_a_model_is_measured_where_there_is_no_training_data(
    make: Make, folder: Path, tmp_path: Path, heard: Any
) -> None:
    """With its own labels, and on all of the data."""
    start(make("bert classes", max_steps=60), RunFolder(tmp_path / "classes"), heard)
    start(make("gpt"), RunFolder(tmp_path / "gpt"), heard)
    start(make("bert"), RunFolder(tmp_path / "bert"), heard)
    (folder / "few.tsv").write_text("bad sad\tno\n")  # one label, which alone would be refused
    (folder / "short.txt").write_text("abab and cd.\n" * 12)

    def measured(name: str, test: dict[str, str], **train: Any) -> ValidationReport:
        run = make({"classes": "bert classes"}.get(name, name), **train)
        only = dataclasses.replace(run.data, train=(), valid=(), test=(CorpusConfig(**test),))
        return evaluate_model(tmp_path / name / "model", dataclasses.replace(run, data=only), "test", heard.message)

    assert measured("classes", {"file": str(folder / "few.tsv")}).accuracy == 1.0
    for name in ("gpt", "bert"):
        few, all_of_it = (measured(name, {"text": str(folder / "text.txt")}, valid_windows=n).nll for n in (1, 0))
        assert few == all_of_it
        assert math.isfinite(measured(name, {"text": str(folder / "short.txt")}).nll)


@pytest.mark.parametrize(
    ("kind", "metric"), [("gpt", "accuracy"), ("bert", "accuracy"), ("vit", "bleu"), ("bert classes", "chrf")]
)
def test_a_metric_that_the_model_does_not_have(kind: str, metric: str, make: Make) -> None:
    with pytest.raises(ConfigError, match=f"train.metric = '{metric}' is not measured for this model; .* 'loss'"):
        make(kind, metric=metric)


def test_what_only_translators_have_is_refused(make: Make, folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"train\.probes = .* has no effect: only translation models"):
        make("gpt", probes=["ab"])
    text = {"text": str(folder / "text.txt")}
    for data, said in (
        ({"tokenizer": {"dropout": 0.1}}, "data.tokenizer.dropout = 0.1 has no effect"),
        ({"train": [{**text, "prefix": "go on: "}]}, "running text has none"),
    ):
        with pytest.raises(ConfigError, match=said):
            run_from_dict({"data": data, "model": {"family": "gpt"}})
    with pytest.raises(ConfigError, match="characters' is for language models"):
        run_from_dict({"data": {"tokenizer": {"kind": "characters"}}})


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("gpt", "# Text generation"),
        ("bert", "# Masked language model"),
        ("bert classes", "# Text classification"),
        ("vit", "# Image classification"),
    ],
)
def test_the_card_says_what_the_model_is_for(kind: str, title: str, make: Make) -> None:
    card = model_card(make(kind), 1000, 12, {"loss": 1.0})
    assert title in card.splitlines()
    assert "translation" not in card


def test_data_of_another_kind_is_refused(make: Make, folder: Path, tmp_path: Path, heard: Any) -> None:
    run = run_from_dict({"data": {"train": [{"file": str(folder / "labels.tsv")}]}, "model": {"family": "gpt"}})
    with pytest.raises(ConfigError, match="is trained on running text"):
        start(run, RunFolder(tmp_path / "a"), heard)
    run = run_from_dict({"data": {"train": [{"text": str(folder / "text.txt")}]}, "model": {"family": "vit"}})
    with pytest.raises(ConfigError, match="is trained on images"):
        start(run, RunFolder(tmp_path / "b"), heard)
    gone = {"text": str(folder / "gone.txt"), "about": "a text", "published": "somewhere"}
    run = run_from_dict({"data": {"train": [gone]}, "model": {"family": "gpt"}})
    with pytest.raises(DataError, match=r"no file .*gone.txt\n.*a text\n.*somewhere"):
        start(run, RunFolder(tmp_path / "c"), heard)
    whole = {"text": str(folder / "text.txt"), "whole_file": True}
    run = run_from_dict({"data": {"train": [whole]}, "model": {"family": "gpt"}})
    with pytest.raises(ConfigError, match="only a character vocabulary preserves line breaks"):
        start(run, RunFolder(tmp_path / "d"), heard)
    run = run_from_dict({"data": {"train": [whole]}, "model": {"family": "bert", "heads": ["tags"]}})
    with pytest.raises(ConfigError, match="no head that Regard trains"):
        start(run, RunFolder(tmp_path / "e"), heard)
    assert not [path for path in tmp_path.iterdir() if len(path.name) == 1]


@given(
    sizes=st.lists(st.integers(0, 70), min_size=1, max_size=3),
    length=st.integers(1, 20),
    rows=st.integers(1, 5),
    epoch=st.integers(0, 3),
    skipped=st.integers(0, 6),
)
@settings(max_examples=60, deadline=None)
def test_windows_can_be_taken_up_anywhere(sizes: list[int], length: int, rows: int, epoch: int, skipped: int) -> None:
    tokens = [np.arange(size, dtype=np.uint16) + 1000 * corpus for corpus, size in enumerate(sizes)]
    if all(size < length for size in sizes):
        with pytest.raises(DataError, match="less text than one window"):
            Windows(tokens, [1.0] * len(sizes), length, rows, 7)
        return
    windows = Windows(tokens, [1.0] * len(sizes), length, rows, 7)
    stream = windows.iterate(DataPosition(epoch))
    place = DataPosition(epoch)
    for _ in range(skipped):
        window_BL, place = next(stream)
        assert window_BL.shape[1] == length
        assert (np.diff(window_BL, axis=1) == 1).all()  # each is one stretch of one corpus
    assert (next(stream)[0] == next(windows.iterate(place))[0]).all()


@given(count=st.integers(1, 60), rows=st.integers(1, 7), seed=st.integers(0, 5), sort=st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_example_once_an_epoch(count: int, rows: int, seed: int, sort: bool) -> None:
    stream = Shuffled(np.ones(count), rows, seed, list(range(count)) if sort else None)
    for epoch in (0, 1):
        batches = stream.batches(epoch)
        assert sorted(np.concatenate(batches).tolist()) == list(range(count))
        second = next(stream.iterate(DataPosition(epoch, 0, len(batches) - 1)))
        assert second[1] == DataPosition(epoch + 1)


def test_weights_of_examples() -> None:
    stream = Shuffled(np.array([2.0, 0.5, 0.0, 1.25]), 2, 1, [1, 2, 3, 4])
    counts = np.array([np.bincount(np.concatenate(stream.batches(epoch)), minlength=4) for epoch in range(400)])
    assert (counts[:, 0] == 2).all()
    assert not counts[:, 2].any()
    np.testing.assert_allclose(counts.mean(axis=0), [2, 0.5, 0, 1.25], atol=0.07)
    assert stream.examples_per_epoch == 3.75
    with pytest.raises(DataError, match="an epoch would have no example"):
        Shuffled(np.array([0.2, 0.3]), 2, 1)


@pytest.mark.parametrize("pairs", [False, True])
def test_masking(pairs: bool) -> None:
    tokenizer = CharacterTokenizer("".join(chr(97 + i) for i in range(26)))
    random = np.random.default_rng(3)
    window_BL = random.integers(5, tokenizer.size, (200, 61))
    masker = Masker(tokenizer, pairs, [window_BL.flatten()], 0.15)
    batch = masker(window_BL, random)
    asked = batch.targets != IGNORED
    assert batch.n_tokens == asked.sum()
    assert 0.13 < asked.mean() < 0.17
    hidden = (batch.ids == tokenizer.mask)[asked].mean()
    kept = (batch.ids == batch.targets)[asked].mean()
    assert 0.77 < hidden < 0.83
    assert 0.08 < kept < 0.15  # left as they are, and a few replaced by themselves
    assert not asked[:, 0].any()
    assert (batch.ids[:, 0] == tokenizer.begin).all()
    assert (batch.ids[:, -1] == tokenizer.end).all()
    if pairs:
        assert 0.35 < batch.follows.mean() < 0.65
        assert batch.segments[0].tolist() == [0] * 33 + [1] * 31
        same = batch.follows == 0
        whole = np.where(asked, batch.targets, batch.ids)
        assert (whole[same][:, 33:-1] == window_BL[same][:, 31:]).all()
    else:
        assert (np.where(asked, batch.targets, batch.ids)[:, 1:-1] == window_BL).all()


def test_validation_windows_are_from_all_over() -> None:
    cut = cut_evenly(np.arange(100, dtype=np.uint16), 10, 4)
    assert [int(window[0]) for window in cut] == [0, 30, 60, 90]
    assert torch.tensor(cut[0]).dtype == torch.int64


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("gpt", r"^\d+ windows, the first '"),
        ("bert", r"^\d+ windows, the first '"),
        ("t5", r"^\d+ windows, the first '"),
        ("recall", r"^\d+ examples of (16|24) tokens$"),
        ("bert classes", r"^\d+ examples$"),
        ("vit", r"^\d+ examples$"),
    ],
)
def test_a_batch_is_described_for_errors(kind: str, said: str, make: Make, heard: Any) -> None:
    run, prepared = prepare_run(make(kind), default_cache(), heard.message)
    task = build_task(run, prepared, torch.device("cpu"), heard.message)
    batch, _ = next(iter(task.batches(DataPosition())))
    assert re.search(said, task.describe_batch(batch))
    assert task.tokens_per_epoch > 0


def test_what_has_no_data_is_not_measured(make: Make, folder: Path, tmp_path: Path, heard: Any) -> None:
    run = make("gpt", max_steps=1)
    start(run, RunFolder(tmp_path / "gpt"), heard)
    with pytest.raises(ConfigError, match=r"the recipe has no test data: set data\.test"):
        evaluate_model(tmp_path / "gpt" / "model", run, "test", heard.message)


def test_vocabularies_without_the_tokens_of_a_task_are_refused() -> None:
    letters = CharacterTokenizer("ab")
    with pytest.raises(ConfigError, match=r"no <extra_id_0>, <extra_id_1> … sentinel tokens; let Regard train one"):
        sentinels_of(letters)
    with pytest.raises(ConfigError, match=r"no \[MASK\] token; let Regard train one"):
        Masker(SentencePieceTokenizer(train_vocabulary(["a small dog"] * 4, "bpe", 280)), False, [], 0.15)


def test_recall_longer_than_the_model(make: Make, tmp_path: Path, heard: Any) -> None:
    run = make("recall")
    run = dataclasses.replace(run, model=dataclasses.replace(run.model, max_positions=20))
    with pytest.raises(ConfigError, match="data has examples of length = 24, but the model takes 20 tokens"):
        start(run, RunFolder(tmp_path / "run"), heard)
    assert not (tmp_path / "run").exists()


def test_what_is_no_model_and_no_data_has_no_task(make: Make, heard: Any) -> None:
    run = make("gpt")
    other: Any = SIZES
    with pytest.raises(AssertionError, match="'d_model': 16"):
        build_task(run, other, torch.device("cpu"), heard.message)
    object.__setattr__(run, "model", other)  # past the check of the settings
    with pytest.raises(AssertionError, match="'d_model': 16"):
        prepare_run(run, default_cache(), heard.message)
    probes = NoProbes()
    assert probes.start_history().probes == ()
    with pytest.raises(AssertionError, match="this task has no probes"):
        probes.take_snapshot(probes.start_history(), 1)
