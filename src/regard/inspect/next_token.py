"""What a model would say next, and what each of its layers would have said (the logit lens, nostalgebraist 2020).

The lens reads the residual stream after a decoder layer as if it were the last: through the last norm, where there
is one, and the output matrix.

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
class Guess:
    id: int
    probability: float
    logit: float


@dataclass(frozen=True)
class Opinion:
    """A distribution over the next token: its best guesses, and what it holds of the token that was chosen."""

    top: tuple[Guess, ...]
    entropy: float  # in nats
    chosen: Guess
    rank: int  # of the chosen token, from 1


def opinion(logits_V: Tensor, chosen: int, k: int) -> Opinion:
    logits_V = logits_V.float()
    log_probs_V = torch.log_softmax(logits_V, dim=0)
    probs_V = log_probs_V.exp()
    [best_K], [ids_K] = select_best(logits_V[None], min(k, len(logits_V)))
    ids = ids_K.tolist()
    top = tuple(Guess(i, float(probs_V[i]), float(value)) for i, value in zip(ids, best_K.tolist(), strict=False))
    entropy = -float((probs_V * log_probs_V.clamp(min=-1e4)).sum())
    ahead = (logits_V > logits_V[chosen]).sum() + (logits_V[:chosen] == logits_V[chosen]).sum()  # of equals, the first
    return Opinion(top[:k], entropy, Guess(chosen, float(probs_V[chosen]), float(logits_V[chosen])), int(ahead) + 1)


def next_token(trace: Trace, step: int, chosen: int, k: int) -> Opinion:
    return opinion(torch.from_numpy(trace["logits"][step]), chosen, k)


@torch.inference_mode()
def logit_lens(model: nn.Module, trace: Trace, step: int, chosen: int, k: int) -> list[Opinion]:
    """One opinion a decoder layer; none for a model whose decoder has no residual stream."""
    paths = stream_paths(model, "decoder")
    weight = next(model.parameters())
    opinions = []
    for path in paths:
        hidden_D = torch.from_numpy(np.array(trace[path][step])).to(weight.device, weight.dtype)
        logits_V = model.project(model.finish(hidden_D[None]))[0].cpu()  # type: ignore[operator]
        opinions.append(opinion(logits_V, chosen, k))
    return opinions


def stream_paths(model: nn.Module, side: str) -> list[str]:
    """The taps where the residual stream leaves each layer of the encoder or the decoder."""
    paths = []
    for name, module in model.named_modules():
        if name.startswith(f"{side}.") and name.endswith(".around_ffn"):
            paths.append(f"{name}.{'resid' if getattr(module, 'pre', False) else 'normed'}")
    return paths
