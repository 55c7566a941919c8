"""The explorer as one file: the built page with the answers in it that it would otherwise ask a server for.

`regard explain` writes it, and a notebook shows it. The answers are the server's own, each under the request that it
answers; numbers come in the order in which they are likely to be looked at, until the file is as large as it may be.
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
from regard.inspect.trace import Trace
from regard.inspect.wire import to_json
from regard.text.tokenizer import BOS, EOS

MOST_BYTES = 2_900_000
MODEL = "0"
NEXT = 20
TAPS = (
    *("embedded", "q", "k", "v", "weights", "head_out", "scores"),
    *("attn_out", "ffn_out", "ffn_hidden", "resid", "normed", "memory"),
)

Response = tuple[str, bytes]  # the request, the body


def explain_page(
    explorer: Explorer, question: Question, tgt_ids: Sequence[int] | None = None, folder: Path | None = None
) -> str:
    """The whole file, for one sentence and a translation of it: this one, or the one that a search finds."""
    template = (folder or PAGE) / "explain.html"
    if not template.is_file():
        raise RegardError(HOW_TO_BUILD)
    passage = explorer.passage(question, tgt_ids)
    return fill(template.read_text("utf-8"), explorer, question, passage)


def fill(template: str, explorer: Explorer, question: Question, passage: Passage) -> str:
    """The page with the answers to everything that it may ask about this passage."""
    trace = explorer.trace(passage)
    responses = {key: shortest(body) for key, body in needed(explorer, question, passage, trace)}
    room = MOST_BYTES - len(template.encode()) - sum(map(len, responses.values()))
    for key, body in wanted(explorer, passage, trace):
        written = shortest(body)
        if len(written) <= room:
            responses[key] = written
            room -= len(written) + len(key) + 6
    data = json.dumps({"model": MODEL, "text": passage.text, "responses": responses}, ensure_ascii=False)
    # In a script element nothing is an entity, and "</script" or "<!--" would end or change it.
    script = f'<script type="application/json" id="regard-data">{data.replace("<", chr(92) + "u003c")}</script>'
    head, end, rest = template.partition("</head>")
    return f"{head}{script}{end}{rest}"


def shortest(body: bytes) -> str:
    squeezed = gzip.compress(body, compresslevel=9, mtime=0)
    return base64.b64encode(squeezed if len(squeezed) < len(body) else body).decode()


def needed(explorer: Explorer, question: Question, passage: Passage, trace: Trace) -> Iterator[Response]:
    """What the page cannot do without."""
    card = {"id": MODEL, **explorer.card()}
    limits = {"characters": len(passage.text), "pieces": explorer.limits.pieces, "beam": explorer.limits.beam}
    yield "GET /api/models", to_json({"models": [card], "limits": limits})
    how = explorer.translator.how(dict(question.options))
    n_best = how.beam if how.method == "beam" else 1
    yield "POST /api/translate", to_json(explorer.translate(question, n_best))
    translation = explorer.translator.tokenizer.decode_tgt(passage.tgt_ids)
    yield "POST /api/tokens src", to_json(explorer.tokens(passage.text, "src"))
    yield "POST /api/tokens tgt", to_json(explorer.tokens(translation, "tgt"))
    yield "POST /api/trace", explorer.overview(passage, trace, trace_name(passage))
    yield "POST /api/attention-summary", to_json(explorer.summary(trace))
    if how.method == "beam":
        yield "POST /api/beam", to_json(explorer.beam(question))


def wanted(explorer: Explorer, passage: Passage, trace: Trace) -> Iterator[Response]:
    """What it can do without, best first."""
    place = f"GET /api/trace/{trace_name(passage)}"
    for step in range(len(trace.tgt_tokens)):
        yield f"{place}/next?k={NEXT}&step={step}", to_json(explorer.next(passage, trace, step, NEXT))
    yield from embeddings(explorer, passage)
    for tap in TAPS[:5]:
        yield from tensors(explorer, trace, place, tap)
    for side, length in (("encoder", len(trace.src_tokens)), ("decoder", len(trace.tgt_tokens))):
        for layer in range(count_layers(trace, side)):
            for position in range(length):
                key = f"{place}/block?layer={layer}&position={position}&side={side}"
                yield key, to_json(explorer.block(trace, side, layer, position))
    for tap in TAPS[5:]:
        yield from tensors(explorer, trace, place, tap)
    for path in trace.values:
        if path.endswith(".head_out"):
            name = f"{path.removesuffix('.head_out')}.out.weight"
            yield f"GET /api/models/{MODEL}/parameter?name={name}", explorer.parameter(name)


def embeddings(explorer: Explorer, passage: Passage) -> Iterator[Response]:
    """The rows of the tables that go into the encoder and the decoder."""
    for side, ids in (("src", (*passage.src_ids, EOS)), ("tgt", (BOS, *passage.tgt_ids))):
        name, rows = f"{side}_embedding.weight", ",".join(map(str, ids))
        yield f"GET /api/models/{MODEL}/parameter?name={name}&rows={rows}", explorer.parameter(name, rows)


def tensors(explorer: Explorer, trace: Trace, place: str, tap: str) -> Iterator[Response]:
    for path in trace.values:
        if path.rpartition(".")[2].removeprefix("src_").removeprefix("tgt_") == tap:
            yield f"{place}/tensor?path={quote(path)}", explorer.tensor(trace, path, None)


def trace_name(passage: Passage) -> str:
    return passage.digest(MODEL)


def notebook_page(explorer: Explorer, question: Question, tgt_ids: Sequence[int]) -> str:
    """The page as part of another: its scripts run, but in a world of their own. What is wrong is said in its place."""
    try:
        page = explain_page(explorer, question, tgt_ids)
    except RegardError as error:
        return f"<p>{html.escape(str(error))}</p>"
    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="Regard" '
        'style="width: 100%; height: 800px; border: 1px solid #ccc"></iframe>'
    )
