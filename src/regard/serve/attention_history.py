"""The film of a training: the attention over a few sentences, frame by frame, as the page is sent it.

A run whose recipe names `train.probes` has recorded one. For any other, each checkpoint that it keeps is a whole
model: it is asked for its attention over a few sentences of the validation and their references.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from regard.inspect.wire import pack
from regard.pipelines.model_translator import ModelTranslator
from regard.train.probes import Probe, ProbeHistory, Snapshot, Written, describe, named_maps

ATTENTION = ("*.weights",)


def pack_film(name: str, history: ProbeHistory, after: int, forced: bool = False) -> bytes:
    """The frames after a step. `forced`: what was written is a given reference, and not the model's own."""
    moments = tuple(moment for moment in history.moments if moment.step > after)
    history = dataclasses.replace(history, moments=moments)
    return pack({"name": name, "forced": forced, **describe(history)}, named_maps(history))


def frame_of(folder: Path, step: int, pairs: list[tuple[str, str]]) -> tuple[tuple[Probe, ...], Snapshot]:
    """A checkpoint over sentences and their references."""
    translator = ModelTranslator(folder)
    translator.check_attention()
    probes, written, maps = [], [], []
    for source, reference in pairs:
        trace = translator.trace(source, reference, ATTENTION)
        probes.append(Probe(source, trace.src_tokens))
        written.append(Written(trace.tgt_tokens, tuple(round(float(one), 4) for one in trace.probabilities)))
        maps.append({path: np.rint(value * 255).astype(np.uint8) for path, value in trace.values.items()})
    return tuple(probes), Snapshot(step, tuple(written), tuple(maps))
