"""Attention history: attention maps over a few probe sentences during training.

A *probe* is a sentence of the setting `train.probes`. A *snapshot* is its greedy translation at a training step, with
all self- and cross-attention maps, 8 bits per weight. Snapshots are taken from step 0 on, at growing intervals. The run
folder stores all of them, the model folder about sixteen; the last one is the final model. Both are a safetensors file:
an array "step/probe/tap" of H × L × M per map, and the sentences and translations as JSON in the metadata. A run that
is initialised from a model with an attention history continues that history and its step numbers.

Shapes: L target length or source length, M source length or target length, H heads.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from regard.config import DecodeConfig
from regard.core.taps import record, tap_paths
from regard.decode.hypotheses import Hypothesis
from regard.decode.search import pad_sources, search
from regard.errors import ConfigError, RunError
from regard.models.translation_model import TranslationModel
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.special_ids import BOS
from regard.train.validation import evaluation_mode

GREEDY = DecodeConfig(beam=1, max_length_ratio=1.5, max_length_extra=6)  # an untrained model does not generate EOS
GROWTH = 1.15  # ratio of the steps of consecutive snapshots
MAX_SNAPSHOTS = 16  # in a model folder
MAX_BYTES = 2_900_000  # in a model folder
MAX_TOKENS = 64  # of a probe
DATA = "regard"  # the metadata's only key: their order in a file is not fixed
CHECKSUM = "sha256"  # in the JSON


@dataclass(frozen=True)
class Probe:
    """A sentence and its tokens, including end of sentence."""

    text: str
    src: tuple[str, ...]


@dataclass(frozen=True)
class ProbeOutput:
    """The tokens of a greedy translation and their probabilities."""

    tgt: tuple[str, ...]
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class Snapshot:
    step: int
    outputs: tuple[ProbeOutput, ...]  # one per probe
    maps: tuple[Mapping[str, np.ndarray], ...]  # one per probe: weights_HLM in 0…255 by tap


@dataclass(frozen=True)
class ProbeHistory:
    """The probes, and their snapshots in order."""

    probes: tuple[Probe, ...]
    snapshots: tuple[Snapshot, ...] = field(default=(), repr=False)
    previous_steps: int = 0  # of earlier runs; the steps of the snapshots include them

    @classmethod
    def begin(cls, texts: Sequence[str], tokenizer: TokenizerPair, model: TranslationModel) -> ProbeHistory:
        """An empty history; without probes if the model has no attention."""
        if not attention_taps(model):
            return cls(())
        longest = model.longest_target
        probes, most = [], MAX_TOKENS if longest is None else min(MAX_TOKENS, longest - 1)
        for number, (text, ids) in enumerate(zip(texts, tokenizer.encode_src(texts), strict=True)):
            if not 0 < len(ids) <= most:
                raise ConfigError(
                    f"train.probes[{number}] = {text[:40]!r} has {len(ids)} tokens; a probe must have 1 to {most}"
                )
            probes.append(Probe(text, (*tokenizer.src.pieces(ids), "</s>")))
        return cls(tuple(probes))

    def after(self, other: ProbeHistory) -> ProbeHistory:
        """This history, preceded by the initial model's history of the same sentences."""
        if not other.snapshots or any(probe not in other.probes for probe in self.probes):
            return self
        indices = [other.probes.index(probe) for probe in self.probes]
        snapshots = [
            Snapshot(one.step, tuple(one.outputs[i] for i in indices), tuple(one.maps[i] for i in indices))
            for one in other.snapshots
        ]
        return dataclasses.replace(self, snapshots=tuple(snapshots), previous_steps=snapshots[-1].step)

    def is_due(self, step: int) -> bool:
        """Whether a snapshot is due at this step: at every step at first, then at growing intervals."""
        if not self.probes:
            return False
        last = self.snapshots[-1].step if self.snapshots else -1
        return self.previous_steps + step >= max(last + 1, GROWTH * last)

    def with_snapshot(self, snapshot: Snapshot) -> ProbeHistory:
        """With another snapshot, which replaces one of the same step."""
        earlier = tuple(one for one in self.snapshots if one.step < snapshot.step)
        return dataclasses.replace(self, snapshots=(*earlier, snapshot))

    def until(self, step: int) -> ProbeHistory:
        """The history up to a step of this run."""
        return dataclasses.replace(
            self, snapshots=tuple(one for one in self.snapshots if one.step <= self.previous_steps + step)
        )

    def thinned(self) -> ProbeHistory:
        """Reduced to the snapshots for a model folder; the first and the last always remain.

        They are spaced evenly in √step.
        """
        snapshots = list(self.snapshots)
        while len(snapshots) > MAX_SNAPSHOTS or (len(snapshots) > 2 and self.size(snapshots) > MAX_BYTES):
            gaps = [
                math.sqrt(after.step) - math.sqrt(before.step)
                for before, after in zip(snapshots, snapshots[2:], strict=False)
            ]
            del snapshots[1 + gaps.index(min(gaps))]
        return dataclasses.replace(self, snapshots=tuple(snapshots))

    def size(self, snapshots: Sequence[Snapshot]) -> int:
        return len(encode(dataclasses.replace(self, snapshots=tuple(snapshots))))


def attention_taps(model: TranslationModel) -> list[str]:
    return [path for path in tap_paths(model) if path.endswith(".weights")]


def take_snapshot(model: TranslationModel, tokenizer: TokenizerPair, history: ProbeHistory, step: int) -> Snapshot:
    """A snapshot of the model at a step. Uses no random numbers."""
    sources = tokenizer.encode_src([probe.text for probe in history.probes])
    with evaluation_mode(model):
        found = search(model, sources, GREEDY, model.output.weight.device)
        pairs = [(ids, hypotheses[0]) for ids, hypotheses in zip(sources, found, strict=True)]
        maps = [attention_maps(model, ids, best) for ids, best in pairs]
    return Snapshot(
        history.previous_steps + step, tuple(probe_output(tokenizer, best) for _, best in pairs), tuple(maps)
    )


def probe_output(tokenizer: TokenizerPair, best: Hypothesis) -> ProbeOutput:
    end = ("</s>",) if best.finished else ()
    probabilities = (round(math.exp(log_prob), 4) for log_prob in best.token_log_probs)
    return ProbeOutput((*tokenizer.tgt.pieces(best.ids), *end), tuple(probabilities))


@torch.inference_mode()
def attention_maps(model: TranslationModel, src_ids: Sequence[int], best: Hypothesis) -> dict[str, np.ndarray]:
    """weights_HLM by tap, with one decoder row per output token."""
    device = model.output.weight.device
    fed = [BOS, *best.ids] if best.finished else [BOS, *best.ids[:-1]]
    with record(model, *attention_taps(model)) as recording:
        model(pad_sources([src_ids], device), torch.tensor([fed], device=device))
    maps = {}
    for path, passed in recording.values.items():
        weights_HLM = torch.cat(passed, dim=-2)[0]  # a recurrent decoder attends once per token
        maps[path] = (weights_HLM.float() * 255).round().to(torch.uint8).cpu().numpy()
    return maps


def encode(history: ProbeHistory) -> bytes:
    """The contents of the safetensors file."""
    maps, described = named_maps(history), describe(history)
    described[CHECKSUM] = checksum(maps, described)
    return save(maps, {DATA: json.dumps(described, ensure_ascii=False)})


def checksum(maps: Mapping[str, np.ndarray], described: Mapping[str, Any]) -> str:
    """Of all that a file says, so that the one in a run folder needs no other file beside it."""
    found = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for name in sorted(maps):
        found.update(f"\0{name} {maps[name].dtype} {maps[name].shape}\0".encode())
        found.update(np.ascontiguousarray(maps[name]).tobytes())
    return found.hexdigest()


def named_maps(history: ProbeHistory) -> dict[str, np.ndarray]:
    """Every map of every snapshot, as "step/probe/tap"."""
    return {
        f"{snapshot.step}/{number}/{path}": weights_HLM
        for snapshot in history.snapshots
        for number, maps in enumerate(snapshot.maps)
        for path, weights_HLM in maps.items()
    }


def describe(history: ProbeHistory) -> dict[str, Any]:
    """The metadata, as JSON."""
    return {
        "probes": [dataclasses.asdict(probe) for probe in history.probes],
        "moments": [
            {"step": snapshot.step, "written": [dataclasses.asdict(one) for one in snapshot.outputs]}
            for snapshot in history.snapshots
        ],
        "before": history.previous_steps,
    }


def read_history(path: Path) -> ProbeHistory:
    """Read a file written by `encode`."""
    try:
        with safe_open(path, framework="numpy") as file:
            described = json.loads((file.metadata() or {})[DATA])
            named = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is not a dictionary)
        expected = described.pop(CHECKSUM, None)  # version 0.1 wrote none
        if expected is not None and expected != checksum(named, described):
            raise ValueError("it was altered or damaged: it does not match its checksum")
        maps: dict[tuple[str, str], dict[str, np.ndarray]] = {}
        for name, weights_HLM in named.items():
            step, number, tap = name.split("/", 2)
            maps.setdefault((step, number), {})[tap] = weights_HLM
        probes = tuple(Probe(one["text"], tuple(one["src"])) for one in described["probes"])
        snapshots = tuple(snapshot_from(one, maps) for one in described["moments"])
        return ProbeHistory(probes, snapshots, described.get("before", 0))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise RunError(f"{path} cannot be read: {error!r}. Training does not need it: it can be deleted.") from None


def snapshot_from(described: Mapping[str, Any], maps: Mapping[tuple[str, str], dict[str, np.ndarray]]) -> Snapshot:
    step = described["step"]
    texts = [ProbeOutput(tuple(one["tgt"]), tuple(one["probabilities"])) for one in described["written"]]
    return Snapshot(step, tuple(texts), tuple(maps[str(step), str(number)] for number in range(len(texts))))
