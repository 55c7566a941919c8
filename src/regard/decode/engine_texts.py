"""What the engine does with texts, without torch: it generates them (a GPT), and encodes them (a BERT).

Shapes: R rows = texts being generated, T tokens so far, V vocabulary, L tokens of one text, D model.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from regard.decode.batching import plan_batches
from regard.decode.engine import Engine, EngineState, Logits, Sources
from regard.decode.engine_search import ENGINE_TOKENS, count_cores
from regard.decode.generate import Choice, Numbers, Tokens, corrupt
from regard.kernels.bindings import DrawCall, ScoreCall, StateHandle, array_address

Ids = Sequence[int]


class EngineTexts:
    """A language model that generates (generate.py), in the engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def longest_text(self) -> int | None:
        return self.engine.longest_target

    def read(self, ids_RT: Tokens, room: int) -> tuple[EngineState, Logits]:
        rows = np.zeros(len(ids_RT), np.int64) if (ids_RT == ids_RT[0]).all() else None
        texts_RT = ids_RT if rows is None else ids_RT[:1]  # a prompt of all rows is read once
        batch, handle = Sources(self.engine, texts_RT[:, :-1].tolist(), room), StateHandle()
        self.engine.native["begin"](self.engine.handle, batch.reference, ctypes.byref(handle))
        state = EngineState(self.engine, handle, batch, room - ids_RT.shape[1] + 1)
        if rows is not None:
            state.reorder(rows)
        return state, self.step(ids_RT[:, -1], state)

    def step(self, tokens_R: Tokens, state: EngineState) -> Logits:
        return self.engine.step(tokens_R, state)

    def choose(self, logits_RV: Logits, choice: Choice) -> tuple[Tokens, Numbers]:
        count, how = len(logits_RV), choice.options
        tokens_R, log_probs_R = np.empty(count, np.int64), np.empty(count, np.float32)
        suppressed = np.array(choice.suppressed, np.int64)
        ids_RT = np.ascontiguousarray(choice.ids_RT)
        call = DrawCall(
            logits=array_address(logits_RV, np.float32),
            **{"rows": count, "width": logits_RV.shape[1], "size": choice.size},
            **{"suppressed": array_address(suppressed, np.int64), "n_suppressed": len(suppressed)},
            **{"ids": array_address(ids_RT, np.int64), "length": ids_RT.shape[1], "end": choice.end},
            **{"no_repeat_ngram": how.no_repeat_ngram, "temperature": how.temperature, "top_p": how.top_p},
            **{"top_k": how.top_k, "uniforms": array_address(choice.uniform_R, np.float64)},
            **{"tokens": array_address(tokens_R, np.int64), "log_probs": array_address(log_probs_R, np.float32)},
        )
        outcome = ctypes.c_int64()
        self.engine.native["draw"](ctypes.byref(call), ctypes.byref(outcome))
        if outcome.value:
            raise corrupt(ids_RT.shape[1] + 1)
        return tokens_R, log_probs_R.astype(np.float64)

    def score(self, ids: Ids) -> Numbers:
        if len(ids) < 2:
            return np.empty(0)
        wanted, length = np.array(ids[1:], np.int64), np.array([len(ids) - 1])
        log_probs = np.empty(len(wanted), np.float32)
        batch, outcome = Sources(self.engine, [[]], len(wanted)), ctypes.c_int64()
        call = ScoreCall(array_address(wanted, np.int64), array_address(length, np.int64), ids[0])
        call.log_probs = array_address(log_probs, np.float32)
        self.engine.native["score"](self.engine.handle, batch.reference, ctypes.byref(call), ctypes.byref(outcome))
        if outcome.value:
            raise corrupt(outcome.value + 1)
        return log_probs.astype(np.float64)


def encode_texts(engine: Engine, texts: Sequence[Ids], workers: int | None = None) -> list[npt.NDArray[np.float32]]:
    """hidden_LD of each text, given with its first and last token; in batches, one core each."""

    def find(batch: list[int]) -> list[npt.NDArray[np.float32]]:
        return encode_batch(engine, [texts[i] for i in batch])

    found: dict[int, npt.NDArray[np.float32]] = {}
    batches = plan_batches([len(ids) for ids in texts], ENGINE_TOKENS)
    with ThreadPoolExecutor(workers or count_cores()) as pool:
        for batch, results in zip(batches, pool.map(find, batches), strict=True):
            found.update(zip(batch, results, strict=True))
    return [found[i] for i in range(len(texts))]


def encode_batch(engine: Engine, texts: Sequence[Ids]) -> list[npt.NDArray[np.float32]]:
    batch, handle = Sources(engine, texts, 0), StateHandle()
    engine.native["begin"](engine.handle, batch.reference, ctypes.byref(handle))
    try:
        hidden_ND = np.empty((len(batch.ids), engine.config.d_model), np.float32)
        engine.native["encoded"](handle, hidden_ND, len(hidden_ND))
    finally:
        engine.native["state_free"](handle)
    return np.split(hidden_ND, np.cumsum(batch.lengths)[:-1])
