"""The explorer as one file: the built page, with the server's answers for one sentence embedded.

`regard explain` writes it, and a notebook shows it. Each answer is stored under the request that it answers. Arrays are
added in the order in which a reader is likely to need them, until the file has its maximum size. The file lists what
was left out, and the page says so.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from regard.errors import RegardError
from regard.inspect.answers import Models
from regard.inspect.blocks import count_layers
from regard.inspect.built import HOW_TO_BUILD, PAGE
from regard.inspect.explorer import Explorer, Question
from regard.inspect.next_token import stream_paths
from regard.inspect.passage import Passage, TracedPassage
from regard.inspect.trace import Trace
from regard.inspect.wire import to_json
from regard.tokenizers.special_ids import BOS, EOS

MAX_BYTES = 2_900_000  # without the names of what is left out
MODEL = "0"
NEXT_TOKENS = 20
HEAD_TAPS = ("q", "k", "v", "weights", "head_out", "scores")  # the Head panel needs all of these
LESSON_TAPS = (  # besides heads and embeddings
    "encoder.0.attention.attn_out",
    "encoder.0.around_attention.resid",
    "encoder.0.around_attention.normed",
    "encoder.0.ffn.ffn_hidden",
)

Response = tuple[str, bytes]  # the request, the body
Named = tuple[str, str, bytes]  # a name for the reader, the request, the body


def explain_page(
    explorer: Explorer, question: Question, tgt_ids: Sequence[int] | None = None, folder: Path | None = None
) -> str:
    """The file's content for one sentence and a translation of it; without `tgt_ids`, the one that a search finds."""
    template = (folder or PAGE) / "explain.html"
    if not template.is_file():
        raise RegardError(HOW_TO_BUILD)
    passage = explorer.passage(question, tgt_ids)
    return fill(template.read_text("utf-8"), explorer, question, passage)


def fill(template: str, explorer: Explorer, question: Question, passage: Passage) -> str:
    """The page with the answers about this passage."""
    traced = explorer.trace(passage)
    responses = {key: encoded(body) for key, body in required_responses(explorer, question, traced)}
    room = MAX_BYTES - len(template.encode()) - sum(map(len, responses.values()))
    included, left_out = set(), []
    for name, key, body in optional_responses(explorer, traced):
        written = encoded(body)
        cost = len(written) + len(key) + 6
        if cost <= room:
            responses[key] = written
            included.add(name)
            room -= cost
        else:
            left_out.append(name)
    left_out += [path for path in traced.trace.values if path not in {*included, *left_out}]  # no panel shows these
    content = {"model": MODEL, "text": passage.text, "responses": responses, "left_out": left_out}
    data = json.dumps(content, ensure_ascii=False)
    # In a script element nothing is an entity, and "</script" or "<!--" would end or change it.
    script = f'<script type="application/json" id="regard-data">{data.replace("<", chr(92) + "u003c")}</script>'
    return in_head(template, script)


def in_head(template: str, elements: str) -> str:
    """The page with more elements in its head."""
    head, end, rest = template.partition("</head>")
    return f"{head}{elements}{end}{rest}"


def encoded(body: bytes) -> str:
    """Base64, compressed where that is shorter."""
    compressed = gzip.compress(body, compresslevel=9, mtime=0)
    return base64.b64encode(compressed if len(compressed) < len(body) else body).decode()


def required_responses(explorer: Explorer, question: Question, traced: TracedPassage) -> Iterator[Response]:
    """What every panel needs."""
    passage = traced.passage
    limits = replace(explorer.limits, characters=len(passage.text))
    yield "GET /api/models", to_json(Models((explorer.describe(MODEL),), limits, version("regard")))
    how = explorer.translator.decode_config(dict(question.options))
    n_best = how.beam if how.method == "beam" else 1
    yield "POST /api/translate", to_json(explorer.translate(question, n_best))
    translation = explorer.translator.tokenizer.decode_tgt(passage.tgt_ids)
    yield "POST /api/tokens src", to_json(explorer.tokens(passage.text, "src"))
    yield "POST /api/tokens tgt", to_json(explorer.tokens(translation, "tgt"))
    yield "POST /api/trace", traced.overview(trace_name(passage))
    yield "POST /api/attention-summary", to_json(traced.summary())
    if how.method == "beam":
        yield "POST /api/beam", to_json(explorer.beam(question))


def optional_responses(explorer: Explorer, traced: TracedPassage) -> Iterator[Named]:
    """What single panels need, the most important first."""
    trace, place = traced.trace, f"GET /api/trace/{trace_name(traced.passage)}"
    for step in range(len(trace.tgt_tokens)):
        key = f"{place}/next?k={NEXT_TOKENS}&step={step}"
        yield f"next {step}", key, to_json(traced.next(step, NEXT_TOKENS))
    yield from embeddings(explorer, traced.passage)
    yield from tensors(traced, place, stream(explorer))
    yield from blocks(traced, place)
    for attention in attentions(trace):
        yield from tensors(traced, place, [f"{attention}.{tap}" for tap in HEAD_TAPS])
    yield from tensors(traced, place, LESSON_TAPS)
    for attention in attentions(trace):
        yield from out_matrices(explorer, trace, attention)


def blocks(traced: TracedPassage, place: str) -> Iterator[Named]:
    """The residual stream at every position of every layer."""
    sides: tuple[Literal["encoder", "decoder"], ...] = ("encoder", "decoder")
    for side in sides:
        length = len(traced.trace.src_tokens if side == "encoder" else traced.trace.tgt_tokens)
        for layer in range(count_layers(traced.trace, side)):
            for position in range(length):
                key = f"{place}/block?layer={layer}&position={position}&side={side}"
                yield f"{side}.{layer} block {position}", key, to_json(traced.block(side, layer, position))


def stream(explorer: Explorer) -> list[str]:
    """The taps in the picture of the whole model: embeddings, memory, and the output of each layer."""
    ends = [path for side in ("encoder", "decoder") for path in stream_paths(explorer.translator.model, side)]
    return ["src_embedded", "tgt_embedded", "memory", *ends]


def attentions(trace: Trace) -> list[str]:
    """Every attention, ordered by layer; within a layer, cross-attention first."""
    found = [path.removesuffix(".weights") for path in trace.values if path.endswith(".weights")]

    def order(where: str) -> tuple[int, bool]:
        layer = next(filter(str.isdecimal, where.split(".")), "0")
        return int(layer), not where.endswith("cross")

    return sorted(found, key=order)


def out_matrices(explorer: Explorer, trace: Trace, attention: str) -> Iterator[Named]:
    """The columns of W_O that multiply each head's output."""
    if f"{attention}.head_out" not in trace.values:
        return
    n_heads, _, size = trace[f"{attention}.head_out"].shape
    name = f"{attention}.out.weight"
    for head in range(n_heads):
        columns = f"{head * size}-{(head + 1) * size}"
        key = f"GET /api/models/{MODEL}/parameter?columns={columns}&name={name}"
        yield f"{name} [{columns}]", key, explorer.parameter(name, columns=columns)


def embeddings(explorer: Explorer, passage: Passage) -> Iterator[Named]:
    """The embeddings of the source and target tokens."""
    for side, ids in (("src", (*passage.src_ids, EOS)), ("tgt", (BOS, *passage.tgt_ids))):
        name, rows = f"{side}_embedding.weight", ",".join(map(str, ids))
        yield name, f"GET /api/models/{MODEL}/parameter?name={name}&rows={rows}", explorer.parameter(name, rows)


def tensors(traced: TracedPassage, place: str, paths: Sequence[str]) -> Iterator[Named]:
    for path in paths:
        if path in traced.trace.values:  # models of other families have fewer
            yield path, f"{place}/tensor?path={quote(path)}", traced.tensor(path)


def trace_name(passage: Passage) -> str:
    return passage.digest(MODEL)


def notebook_page(explorer: Explorer, question: Question, tgt_ids: Sequence[int]) -> str:
    """The page in a sandboxed frame of a notebook, or the error message in its place."""
    try:
        page = explain_page(explorer, question, tgt_ids)
    except RegardError as error:
        return f"<p>{html.escape(str(error))}</p>"
    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="Regard" '
        'style="width: 100%; height: 800px; border: 1px solid #ccc"></iframe>'
    )
