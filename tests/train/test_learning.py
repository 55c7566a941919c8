"""The whole learns: a toy task to the end, and in every precision along the same curve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.data.toy import toy_pairs
from regard.pipelines.translator import Translator
from regard.train.launch import start
from regard.train.run_folder import RunFolder

COPYING = (
    "data.train=[{toy = 'copy', size = 8000}]",
    "data.tokenizer.vocab_size=620",
    "model.norm_order=pre",
    "model.d_model=64",
    "model.d_ff=128",
    "model.dropout=0.0",
    "train.max_steps=500",
    "train.batch_tokens=512",
    "train.lr=1e-2",
    "train.warmup_steps=60",
    "train.schedule=cosine",
    "train.label_smoothing=0.0",
    "train.log_every=100",
    "train.validate_every=500",
    "train.average_checkpoints=1",
)


def test_copying_is_learnt(toy_run: Any, heard: Any, tmp_path: Path) -> None:
    outcome = start(toy_run(*COPYING), RunFolder(tmp_path / "run"), heard)
    assert outcome.model is not None
    seen = set(toy_pairs("copy", 8000, 1))
    unseen = [pair for pair in toy_pairs("copy", 150, 99) if pair not in seen][:100]
    assert len(unseen) == 100
    translations = Translator(outcome.model).translate([src for src, _ in unseen], beam=1)
    right = sum(translation.text == tgt for translation, (_, tgt) in zip(translations, unseen, strict=True))
    assert right >= 95


@pytest.mark.parametrize("low", ["bfloat16", "int8"])
def test_it_learns_along_the_curve_of_float32(low: str, toy_run: Any, heard: Any, tmp_path: Path) -> None:
    curves = {}
    for precision in ("float32", low):
        run = toy_run(
            f"train.precision={precision}", "train.max_steps=60", "train.validate_every=60", "model.d_model=32"
        )
        heard.steps.clear()
        start(run, RunFolder(tmp_path / precision), heard)
        curves[precision] = [report.loss for report in heard.steps]
        assert len(curves[precision]) == 60
    assert curves["float32"] != curves[low]  # it was another computation
    ends = {precision: sum(curve[-20:]) / 20 for precision, curve in curves.items()}
    assert ends["float32"] < 0.9 * curves["float32"][0]
    assert abs(ends[low] / ends["float32"] - 1) < 0.03
