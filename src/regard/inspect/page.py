"""The explorer as one HTML file: the built page with the server's responses embedded.

`regard explain` writes it, and a notebook shows it. Each response is stored under its request. Required responses come
first, then optional ones by priority, until the file reaches its maximum size. The file lists what was omitted, and the
page says so.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from regard.errors import RegardError
from regard.inspect.blocks import count_layers
from regard.inspect.built import HOW_TO_BUILD, PAGE
from regard.inspect.explorer import Explorer, Passage, Question
from regard.inspect.next_token import stream_paths
from regard.inspect.trace import Trace
from regard.inspect.wire import to_json
from regard.tokenizers.special_ids import BOS, EOS

MAX_BYTES = 2_900_000  # not counting the names of omitted responses
MODEL = "0"
NEXT = 20
HEAD = ("q", "k", "v", "weights", "head_out", "scores")  # the taps shown for one head
LESSON = (  # besides the taps of heads and the embeddings
    "encoder.0.attention.attn_out",
    "encoder.0.around_attention.resid",
    "encoder.0.around_attention.normed",
    "encoder.0.ffn.ffn_hidden",
)

Response = tuple[str, bytes]  # the request, the body
Named = tuple[str, str, bytes]  # a readable name, the request, the body


def explain_page(
    explorer: Explorer, question: Question, tgt_ids: Sequence[int] | None = None, folder: Path | None = None
) -> str:
    """The file for one sentence and its translation: the given one, or that of a search."""
    template = (folder or PAGE) / "explain.html"
    if not template.is_file():
        raise RegardError(HOW_TO_BUILD)
    passage = explorer.passage(question, tgt_ids)
    return fill(template.read_text("utf-8"), explorer, question, passage)


def fill(template: str, explorer: Explorer, question: Question, passage: Passage) -> str:
    """The page with the responses for this passage."""
    trace = explorer.trace(passage)
    responses = {key: encode(body) for key, body in required_responses(explorer, question, passage, trace)}
    room = MAX_BYTES - len(template.encode()) - sum(map(len, responses.values()))
    included, left_out = set(), []
    for name, key, body in optional_responses(explorer, passage, trace):
        encoded = encode(body)
        cost = len(encoded) + len(key) + 6
        if cost <= room:
            responses[key] = encoded
            included.add(name)
            room -= cost
        else:
            left_out.append(name)
    left_out += [path for path in trace.values if path not in {*included, *left_out}]  # not shown by any panel
    content = {"model": MODEL, "text": passage.text, "responses": responses, "left_out": left_out}
    data = json.dumps(content, ensure_ascii=False)
    # In a script element nothing is an entity, and "</script" or "<!--" would end or change it.
    script = f'<script type="application/json" id="regard-data">{data.replace("<", chr(92) + "u003c")}</script>'
    head, end, rest = template.partition("</head>")
    return f"{head}{script}{end}{rest}"


def encode(body: bytes) -> str:
    """As base64, compressed where that is shorter."""
    compressed = gzip.compress(body, compresslevel=9, mtime=0)
    return base64.b64encode(compressed if len(compressed) < len(body) else body).decode()


def required_responses(explorer: Explorer, question: Question, passage: Passage, trace: Trace) -> Iterator[Response]:
    """The responses that the page cannot be shown without."""
    card = {"id": MODEL, **explorer.card()}
    limits = {"characters": len(passage.text), "pieces": explorer.limits.pieces, "beam": explorer.limits.beam}
    yield "GET /api/models", to_json({"models": [card], "limits": limits})
    how = explorer.translator.decode_config(dict(question.options))
    n_best = how.beam if how.method == "beam" else 1
    yield "POST /api/translate", to_json(explorer.translate(question, n_best))
    translation = explorer.translator.tokenizer.decode_tgt(passage.tgt_ids)
    yield "POST /api/tokens src", to_json(explorer.tokens(passage.text, "src"))
    yield "POST /api/tokens tgt", to_json(explorer.tokens(translation, "tgt"))
    yield "POST /api/trace", explorer.overview(passage, trace, trace_name(passage))
    yield "POST /api/attention-summary", to_json(explorer.summary(trace))
    if how.method == "beam":
        yield "POST /api/beam", to_json(explorer.beam(question))


def optional_responses(explorer: Explorer, passage: Passage, trace: Trace) -> Iterator[Named]:
    """The other responses, by priority. The taps of a head come together, since the page needs all of them."""
    place = f"GET /api/trace/{trace_name(passage)}"
    for step in range(len(trace.tgt_tokens)):
        yield f"next {step}", f"{place}/next?k={NEXT}&step={step}", to_json(explorer.next(passage, trace, step, NEXT))
    yield from embeddings(explorer, passage)
    yield from tensors(explorer, trace, place, stream(explorer))
    for side, length in (("encoder", len(trace.src_tokens)), ("decoder", len(trace.tgt_tokens))):
        for layer in range(count_layers(trace, side)):
            for position in range(length):
                key = f"{place}/block?layer={layer}&position={position}&side={side}"
                yield f"{side}.{layer} block {position}", key, to_json(explorer.block(trace, side, layer, position))
    for attention in attentions(trace):
        yield from tensors(explorer, trace, place, [f"{attention}.{tap}" for tap in HEAD])
    yield from tensors(explorer, trace, place, LESSON)
    for attention in attentions(trace):
        yield from out_matrices(explorer, trace, attention)


def stream(explorer: Explorer) -> list[str]:
    """The vectors in the picture of the whole model: embeddings, residual streams and memory."""
    ends = [path for side in ("encoder", "decoder") for path in stream_paths(explorer.translator.model, side)]
    return ["src_embedded", "tgt_embedded", "memory", *ends]


def attentions(trace: Trace) -> list[str]:
    """Every attention, by layer; within a layer, cross-attention first."""
    found = [path.removesuffix(".weights") for path in trace.values if path.endswith(".weights")]

    def order(where: str) -> tuple[int, bool]:
        layer = next(filter(str.isdecimal, where.split(".")), "0")
        return int(layer), not where.endswith("cross")

    return sorted(found, key=order)


def out_matrices(explorer: Explorer, trace: Trace, attention: str) -> Iterator[Named]:
    """The columns of W_O of each head."""
    if f"{attention}.head_out" not in trace.values:
        return
    n_heads, _, size = trace[f"{attention}.head_out"].shape
    name = f"{attention}.out.weight"
    for head in range(n_heads):
        columns = f"{head * size}-{(head + 1) * size}"
        key = f"GET /api/models/{MODEL}/parameter?columns={columns}&name={name}"
        yield f"{name} [{columns}]", key, explorer.parameter(name, columns=columns)


def embeddings(explorer: Explorer, passage: Passage) -> Iterator[Named]:
    """The rows of the embedding tables for the tokens of the passage."""
    for side, ids in (("src", (*passage.src_ids, EOS)), ("tgt", (BOS, *passage.tgt_ids))):
        name, rows = f"{side}_embedding.weight", ",".join(map(str, ids))
        yield name, f"GET /api/models/{MODEL}/parameter?name={name}&rows={rows}", explorer.parameter(name, rows)


def tensors(explorer: Explorer, trace: Trace, place: str, paths: Sequence[str]) -> Iterator[Named]:
    for path in paths:
        if path in trace.values:  # other families have fewer taps
            yield path, f"{place}/tensor?path={quote(path)}", explorer.tensor(trace, path, None)


def trace_name(passage: Passage) -> str:
    return passage.digest(MODEL)


def notebook_page(explorer: Explorer, question: Question, tgt_ids: Sequence[int]) -> str:
    """The page in a sandboxed iframe, whose scripts are isolated; or, in its place, the error message."""
    try:
        page = explain_page(explorer, question, tgt_ids)
    except RegardError as error:
        return f"<p>{html.escape(str(error))}</p>"
    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="Regard" '
        'style="width: 100%; height: 800px; border: 1px solid #ccc"></iframe>'
    )
