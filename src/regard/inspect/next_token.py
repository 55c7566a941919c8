"""The prediction of the next token, and that of each decoder layer (the logit lens, nostalgebraist 2020).

The lens reads the residual stream after a decoder layer as if that layer were the last: through the final norm, where
there is one, and the output matrix.

Shapes: D model, V vocabulary, K best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regard.decode.ranking import select_best
from regard.inspect.trace import Trace


@dataclass(frozen=True)
class Candidate:
    id: int
    probability: float
    logit: float


@dataclass(frozen=True)
class Prediction:
    """A distribution over the next token: the likeliest candidates, and the token that was chosen."""

    top: tuple[Candidate, ...]
    entropy: float  # in nats
    chosen: Candidate
    rank: int  # of the chosen token, from 1


def predict(logits_V: Tensor, chosen: int, k: int) -> Prediction:
    logits_V = logits_V.float()
    log_probs_V = torch.log_softmax(logits_V, dim=0)
    probs_V = log_probs_V.exp()
    [best_K], [ids_K] = select_best(logits_V[None], min(k, len(logits_V)))
    ids = ids_K.tolist()
    top = tuple(Candidate(i, float(probs_V[i]), float(value)) for i, value in zip(ids, best_K.tolist(), strict=False))
    entropy = -float((probs_V * log_probs_V.clamp(min=-1e4)).sum())
    wanted = Candidate(chosen, float(probs_V[chosen]), float(logits_V[chosen]))
    ahead = (logits_V > logits_V[chosen]).sum() + (logits_V[:chosen] == logits_V[chosen]).sum()  # ties: the lower id
    return Prediction(top[:k], entropy, wanted, int(ahead) + 1)


def next_token(trace: Trace, step: int, chosen: int, k: int) -> Prediction:
    return predict(torch.from_numpy(trace["logits"][step]), chosen, k)


@torch.inference_mode()
def logit_lens(model: nn.Module, trace: Trace, step: int, chosen: int, k: int) -> list[Prediction]:
    """One prediction per decoder layer; none for a model whose decoder has no residual stream."""
    paths = stream_paths(model, "decoder")
    weight = next(model.parameters())
    predictions = []
    for path in paths:
        hidden_D = torch.from_numpy(np.array(trace[path][step])).to(weight.device, weight.dtype)
        logits_V = model.project(model.finish(hidden_D[None]))[0].cpu()  # type: ignore[operator]
        predictions.append(predict(logits_V, chosen, k))
    return predictions


def stream_paths(model: nn.Module, side: str) -> list[str]:
    """The taps of the residual stream after each layer of the encoder or the decoder."""
    paths = []
    for name, module in model.named_modules():
        if name.startswith(f"{side}.") and name.endswith(".around_ffn"):
            paths.append(f"{name}.{'resid' if getattr(module, 'pre', False) else 'normed'}")
    return paths
