"""Latency and size of the explorer's responses: real requests to a real server.

python bench/explorer_latency.py --model runs/multi30k-en-de/model

For sentences of 20, 64 and 500 pieces: the translation, the first line of it while it is written, the trace that the
page opens with (all attention maps), and what it then asks for to show one head, exactly. Each is asked for several
times, the median of the times is printed, and every sentence is new, so that nothing is kept from before. Bytes are as
sent, compressed. "click to head" is all that a person waits for who asks for a sentence with the Head panel open.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import re
import statistics
import subprocess
import sys
import time
from typing import Any

LENGTHS = (20, 64, 500)
WORDS = ("a", "man", "in", "red", "is", "at", "the", "sea", "to", "dog", "on", "an", "car", "by", "his", "big", "up")
TIMES = 5


def ask(port: int, path: str, body: Any = None) -> tuple[bytes, int, float]:
    """(body, bytes on the wire, seconds)"""

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    headers = {"Accept-Encoding": "gzip", "Content-Type": "application/json"}
    start = time.perf_counter()
    connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    sent = answer.read()
    seconds = time.perf_counter() - start
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {sent[:300]!r}")
    squeezed = answer.getheader("Content-Encoding") == "gzip"
    return gzip.decompress(sent) if squeezed else sent, len(sent), seconds


def first_line(port: int, body: Any) -> tuple[int, float]:
    """(bytes, seconds) until the first word of a translation is there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    start = time.perf_counter()
    connection.request("POST", "/api/translate/lines", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    line = answer.readline()
    seconds = time.perf_counter() - start
    answer.read()
    connection.close()
    return len(line), seconds


def sentence(port: int, pieces: int, number: int) -> str:
    """A text of about so many pieces; each number another."""
    words: list[str] = []
    while True:
        words.append(WORDS[(len(words) * (number + 1) + number) % len(WORDS)])
        if len(words) >= pieces - 8:
            found = json.loads(ask(port, "/api/tokens", {"text": " ".join(words)})[0])
            if len(found["pieces"]) >= pieces:
                return " ".join(words)


def measure(port: int, pieces: int) -> dict[str, list[tuple[int, float]]]:
    rows: dict[str, list[tuple[int, float]]] = {}
    for number in range(TIMES + 1):  # the first is for warming up
        text = sentence(port, pieces, number)
        found, *cost = ask(port, "/api/translate", {"text": text, "n_best": 4})
        rows.setdefault("translation", []).append((cost[0], cost[1]))
        rows.setdefault("its first word", []).append(first_line(port, {"text": text, "n_best": 4}))
        whole = cost
        ids = [token["id"] for token in json.loads(found)["alternatives"][0]["tokens"]]
        found, *cost = ask(port, "/api/trace", {"text": text, "tgt_ids": ids})
        rows.setdefault("trace", []).append((cost[0], cost[1]))
        whole = [whole[0] + cost[0], whole[1] + cost[1]]
        header = json.loads(found[4 : 4 + int.from_bytes(found[:4], "little")])
        size, seconds = 0, 0.0
        width = header["taps"]["decoder.0.cross.q"][2]
        place = f"/api/trace/{header['trace']}/tensor?path=decoder.0.cross"
        taps = [f"{place}.{tap}&head=0" for tap in ("q", "k", "v", "scores", "weights", "head_out")]
        for path in (*taps, f"/api/models/0/parameter?columns=0-{width}&name=decoder.0.cross.out.weight"):
            _, sent, took = ask(port, path)
            size, seconds = size + sent, seconds + took
        rows.setdefault("one head, exact", []).append((size, seconds))
        rows.setdefault("click to head", []).append((whole[0] + size, whole[1] + seconds))
        _, sent, took = ask(port, f"/api/trace/{header['trace']}/next?step=0")
        rows.setdefault("next token and lens", []).append((sent, took))
    return {name: values[1:] for name, values in rows.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    command = [sys.executable, "-m", "regard", "explore", "--no-browser", "--port", "0", "--model"]
    command.append(parser.parse_args().model)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            ready = re.search(r":(\d+)/", server.stdout.readline())
            if ready is None:
                raise SystemExit("the explorer did not start")
            print(f"{'pieces':>6}  {'what':<22}{'ms':>8}{'KB':>9}")
            for pieces in LENGTHS:
                for name, values in measure(int(ready[1]), pieces).items():
                    milliseconds = 1000 * statistics.median(seconds for _, seconds in values)
                    kilobytes = statistics.median(size for size, _ in values) / 1000
                    print(f"{pieces:>6}  {name:<22}{milliseconds:>8.0f}{kilobytes:>9.1f}", flush=True)
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
