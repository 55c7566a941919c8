"""The attention history of a training run: attention over a few sentences at several steps.

A run whose recipe sets `train.probes` has recorded one. For other runs, each checkpoint that is kept is loaded, and
gives its attention over a few validation sentences and their references.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from regard.inspect.wire import pack
from regard.pipelines.model_translator import ModelTranslator
from regard.serve.responses import AttentionHistory, AttentionSnapshot
from regard.train.probes import Probe, ProbeHistory, ProbeOutput, Snapshot, named_maps

ATTENTION_TAPS = ("*.weights",)


def pack_history(name: str, history: ProbeHistory, after: int, forced: bool = False) -> bytes:
    """The snapshots after a step. `forced`: the translations are given references, not the model's own."""
    snapshots = tuple(one for one in history.snapshots if one.step > after)
    history = dataclasses.replace(history, snapshots=snapshots)
    described = tuple(AttentionSnapshot(one.step, one.outputs) for one in snapshots)
    header = AttentionHistory(name, forced, history.probes, described, history.previous_steps)
    return pack(header, named_maps(history))


def checkpoint_snapshot(folder: Path, step: int, pairs: list[tuple[str, str]]) -> tuple[tuple[Probe, ...], Snapshot]:
    """The attention of a checkpoint over sentences and their references."""
    translator = ModelTranslator(folder)
    translator.check_attention()
    probes, written, maps = [], [], []
    for source, reference in pairs:
        trace = translator.trace(source, reference, ATTENTION_TAPS)
        probes.append(Probe(source, trace.src_tokens))
        written.append(ProbeOutput(trace.tgt_tokens, tuple(round(float(one), 4) for one in trace.probabilities)))
        maps.append({path: np.rint(value * 255).astype(np.uint8) for path, value in trace.values.items()})
    return tuple(probes), Snapshot(step, tuple(written), tuple(maps))
