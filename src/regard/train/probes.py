"""How attention took shape: what a model did with a few sentences, moment by moment, while it was trained.

A *probe* is a sentence that the recipe names (`train.probes`). From random weights on, at moments further and further
apart, it is translated greedily, and every self- and cross-attention map over it and that translation is kept, in 8
bits a weight. The run's folder has every moment; the model's folder has about sixteen of them, the last of which is
the model itself. Both are one safetensors file: an array "step/probe/tap" of H × L × M for each map, and in the
metadata, as JSON, the sentences and what they became. A run that starts from a model that remembers its own training
goes on with that history, and counts its steps from there.

Shapes: L target length or source length, M source length or target length, H heads.
"""

from __future__ import annotations

import dataclasses
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
from regard.train.validation import exactly

GREEDY = DecodeConfig(beam=1, max_length_ratio=1.5, max_length_extra=6)  # an untrained model never ends by itself
GROWTH = 1.15  # between one moment and the next
MOST_MOMENTS = 16  # beside a model
MOST_BYTES = 2_900_000  # beside a model
MOST_PIECES = 64  # of a probe
DATA = "regard"  # the metadata's only key


@dataclass(frozen=True)
class Probe:
    """A sentence, and its pieces, of which the last is the end of the sentence."""

    text: str
    src: tuple[str, ...]


@dataclass(frozen=True)
class Written:
    """What the model made of a probe: pieces, and the probability it gave each."""

    tgt: tuple[str, ...]
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class Snapshot:
    step: int
    written: tuple[Written, ...]  # one a probe
    maps: tuple[Mapping[str, np.ndarray], ...]  # one a probe: weights_HLM in 0…255 by tap


@dataclass(frozen=True)
class ProbeHistory:
    """The probes, and their moments in order."""

    probes: tuple[Probe, ...]
    moments: tuple[Snapshot, ...] = field(default=(), repr=False)
    before: int = 0  # steps of the trainings before this one; those of the moments count from the first

    @classmethod
    def begin(cls, texts: Sequence[str], tokenizer: TokenizerPair, model: TranslationModel) -> ProbeHistory:
        """Without a moment yet; without a probe, too, where the model has no attention to look at."""
        if not attention_taps(model):
            return cls(())
        longest = model.longest_target
        probes, most = [], MOST_PIECES if longest is None else min(MOST_PIECES, longest - 1)
        for number, (text, ids) in enumerate(zip(texts, tokenizer.encode_src(texts), strict=True)):
            if not 0 < len(ids) <= most:
                raise ConfigError(
                    f"train.probes[{number}] = {text[:40]!r} has {len(ids)} pieces; here it may have from 1 to {most}"
                )
            probes.append(Probe(text, (*tokenizer.src.pieces(ids), "</s>")))
        return cls(tuple(probes))

    def after(self, other: ProbeHistory) -> ProbeHistory:
        """This one, with what the model that the training starts from remembers of the same sentences."""
        if not other.moments or any(probe not in other.probes for probe in self.probes):
            return self
        places = [other.probes.index(probe) for probe in self.probes]
        moments = [
            Snapshot(one.step, tuple(one.written[i] for i in places), tuple(one.maps[i] for i in places))
            for one in other.moments
        ]
        return dataclasses.replace(self, moments=tuple(moments), before=moments[-1].step)

    def is_due(self, step: int) -> bool:
        """Whether this step is a moment: every one at first, then rarer and rarer."""
        if not self.probes:
            return False
        last = self.moments[-1].step if self.moments else -1
        return self.before + step >= max(last + 1, GROWTH * last)

    def with_moment(self, moment: Snapshot) -> ProbeHistory:
        """One moment more; where there is one of that step already, it is replaced."""
        earlier = tuple(one for one in self.moments if one.step < moment.step)
        return dataclasses.replace(self, moments=(*earlier, moment))

    def until(self, step: int) -> ProbeHistory:
        """As it was in this step of this training."""
        return dataclasses.replace(self, moments=tuple(one for one in self.moments if one.step <= self.before + step))

    def thinned(self) -> ProbeHistory:
        """As many moments as are kept beside a model, the first and the last among them.

        They stand evenly in √step: the weights move most at the beginning, but what a person can see of it comes later.
        """
        moments = list(self.moments)
        while len(moments) > MOST_MOMENTS or (len(moments) > 2 and self.size(moments) > MOST_BYTES):
            gaps = [
                math.sqrt(after.step) - math.sqrt(before.step)
                for before, after in zip(moments, moments[2:], strict=False)
            ]
            del moments[1 + gaps.index(min(gaps))]
        return dataclasses.replace(self, moments=tuple(moments))

    def size(self, moments: Sequence[Snapshot]) -> int:
        return len(encode(dataclasses.replace(self, moments=tuple(moments))))


def attention_taps(model: TranslationModel) -> list[str]:
    return [path for path in tap_paths(model) if path.endswith(".weights")]


def look(model: TranslationModel, tokenizer: TokenizerPair, history: ProbeHistory, step: int) -> Snapshot:
    """This moment of a model that is being trained. No random number is drawn."""
    sources = tokenizer.encode_src([probe.text for probe in history.probes])
    with exactly(model):
        found = search(model, sources, GREEDY, model.output.weight.device)
        pairs = [(ids, hypotheses[0]) for ids, hypotheses in zip(sources, found, strict=True)]
        maps = [attention_maps(model, ids, best) for ids, best in pairs]
    return Snapshot(history.before + step, tuple(written(tokenizer, best) for _, best in pairs), tuple(maps))


def written(tokenizer: TokenizerPair, best: Hypothesis) -> Written:
    end = ("</s>",) if best.finished else ()
    probabilities = (round(math.exp(log_prob), 4) for log_prob in best.token_log_probs)
    return Written((*tokenizer.tgt.pieces(best.ids), *end), tuple(probabilities))


@torch.inference_mode()
def attention_maps(model: TranslationModel, src_ids: Sequence[int], best: Hypothesis) -> dict[str, np.ndarray]:
    """weights_HLM by tap, with a row of the decoder for each piece that was written."""
    device = model.output.weight.device
    fed = [BOS, *best.ids] if best.finished else [BOS, *best.ids[:-1]]
    with record(model, *attention_taps(model)) as recording:
        model(pad_sources([src_ids], device), torch.tensor([fed], device=device))
    maps = {}
    for path, passed in recording.values.items():
        weights_HLM = torch.cat(passed, dim=-2)[0]  # a recurrent decoder looks once a word
        maps[path] = (weights_HLM.float() * 255).round().to(torch.uint8).cpu().numpy()
    return maps


def encode(history: ProbeHistory) -> bytes:
    """The contents of the file."""
    return save(named_maps(history), {DATA: json.dumps(describe(history), ensure_ascii=False)})


def named_maps(history: ProbeHistory) -> dict[str, np.ndarray]:
    """Every map of every moment, as "step/probe/tap"."""
    return {
        f"{moment.step}/{number}/{path}": weights_HLM
        for moment in history.moments
        for number, maps in enumerate(moment.maps)
        for path, weights_HLM in maps.items()
    }


def describe(history: ProbeHistory) -> dict[str, Any]:
    """The rest, as JSON has it."""
    return {
        "probes": [dataclasses.asdict(probe) for probe in history.probes],
        "moments": [
            {"step": moment.step, "written": [dataclasses.asdict(one) for one in moment.written]}
            for moment in history.moments
        ],
        "before": history.before,
    }


def read_history(path: Path) -> ProbeHistory:
    """What `encode` wrote; refused with a sentence where it is something else."""
    try:
        with safe_open(path, framework="numpy") as file:
            described = json.loads((file.metadata() or {})[DATA])
            maps: dict[tuple[str, str], dict[str, np.ndarray]] = {}
            for name in file.keys():  # noqa: SIM118 (it is not a dictionary)
                step, number, tap = name.split("/", 2)
                maps.setdefault((step, number), {})[tap] = file.get_tensor(name)
        probes = tuple(Probe(one["text"], tuple(one["src"])) for one in described["probes"])
        moments = tuple(moment_from(one, maps) for one in described["moments"])
        return ProbeHistory(probes, moments, described.get("before", 0))
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise RunError(f"{path} cannot be read: {error!r}. It is only for looking at: it may be deleted.") from None


def moment_from(described: Mapping[str, Any], maps: Mapping[tuple[str, str], dict[str, np.ndarray]]) -> Snapshot:
    step = described["step"]
    texts = [Written(tuple(one["tgt"]), tuple(one["probabilities"])) for one in described["written"]]
    return Snapshot(step, tuple(texts), tuple(maps[str(step), str(number)] for number in range(len(texts))))
