"""A fuzzer of model folders and of Hugging Face folders: `python tests/faults/folders.py --cases 3000 --seed 1`.

Each case takes a small whole folder, damages it in one to three ways, gives it right checksums again, so that the other
checks are reached, and uses it. Right is: a ModelFolderError or ConfigError that names the folder, or a model that
works. Wrong is: any other exception, more than 10 seconds of processor time, or memory that grows.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from folder_samples import huggingface_folders, import_all, our_folders

from regard.errors import ConfigError, ModelFolderError
from regard.interop.huggingface.imports import import_folder
from regard.model_folder.folder import SUMS, digest, listed_sums, write_sums
from regard.model_folder.registry import describe
from regard.pipelines.trial import try_model

CPU_SECONDS = 10
MOST_GROWTH = 300 << 20  # bytes, over a whole run: damaged sizes would ask for much more
MOST_MEMORY = 12 << 30  # bytes of address space; most of it is never used
NESTED = json.loads("[" * 80 + "]" * 80)
VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 3, 5, 7, 64, 10**7, 10**9, 2**63, 10**30, 0.5, -0.5, 1e-300, 1e308),
    *("", "x", "gelu", "\ud800", "\x1b[2J", "ü" * 300, [], {}, [[]], [1, 2], ["a"], {"a": 1}, NESTED),
)
TYPES = ("F32", "F16", "BF16", "F64", "I64", "U8", "BOOL", "F8_E4M3", "X", 3)
Damage = Callable[[Path, random.Random], str]


class Hang(BaseException):
    """More processor time than a case may take."""


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name != SUMS)


def drop(folder: Path, draw: random.Random) -> str:
    path = draw.choice(files_of(folder))
    path.unlink()
    return f"drop {path.name}"


def cut(folder: Path, draw: random.Random) -> str:
    path = draw.choice(files_of(folder))
    content = path.read_bytes()
    keep = draw.choice([0, 1, 8, len(content) // 2, max(len(content) - 1, 0)])
    path.write_bytes(content[:keep])
    return f"cut {path.name} to {keep}"


def garble(folder: Path, draw: random.Random) -> str:
    path = draw.choice(files_of(folder))
    content = bytearray(path.read_bytes())
    for _ in range(draw.choice([1, 1, 8, 100])):
        if content:
            content[draw.randrange(len(content))] = draw.randrange(256)
    path.write_bytes(content)
    return f"garble {path.name}"


def replace(folder: Path, draw: random.Random) -> str:
    path = draw.choice(files_of(folder))
    path.write_bytes(draw.choice([b"garbage", b"\0" * 100, b"\x80\x04K\x01.", b"[" * 100_000, b'{"a":' * 100_000]))
    return f"replace {path.name}"


def swap(folder: Path, draw: random.Random) -> str:
    one, other = draw.choices(files_of(folder), k=2)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    return f"swap {one.name} and {other.name}"


def no_file(folder: Path, draw: random.Random) -> str:
    path, kind = draw.choice(files_of(folder)), draw.choice(["folder", "FIFO", "loop", "out", "device"])
    path.unlink()
    match kind:
        case "folder":
            path.mkdir()
        case "FIFO":
            os.mkfifo(path)
        case "loop":
            path.symlink_to(path.name)
        case "out":
            path.symlink_to("/etc/hostname")
        case _:
            path.symlink_to("/dev/zero")
    return f"{kind} in place of {path.name}"


def change_json(folder: Path, draw: random.Random) -> str:
    """Another value at a random place of config.json or, more rarely, of another JSON file."""
    found = [path for path in files_of(folder) if path.suffix == ".json"]
    if not found:
        return "no JSON"
    main = folder / "config.json"
    path = main if main in found and draw.random() < 0.7 else draw.choice(found)
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return "no JSON any more"
    places = places_in(content)
    if not places:
        return "an empty JSON"
    owner, key = draw.choice(places)
    if draw.random() < 0.1:
        del owner[key]
        shown = "deleted"
    else:
        owner[key] = draw.choice(VALUES)
        shown = repr(owner[key])[:40]
    path.write_text(json.dumps(content), "utf-8")
    return f"{path.name}: {key} = {shown}"


def places_in(tree: Any) -> list[tuple[Any, Any]]:
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, list) else []
    return [(tree, key) for key in keys] + [place for key in keys[:200] for place in places_in(tree[key])]


def change_header(folder: Path, draw: random.Random) -> str:
    found = [path for path in files_of(folder) if path.suffix == ".safetensors"]
    path = draw.choice(found) if found else None
    content = path.read_bytes() if path else b""
    size = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + size])
    except (ValueError, RecursionError):
        return "no header"
    names = [name for name in header if name != "__metadata__"] if isinstance(header, dict) else []
    if path is None or not names:
        return "no header"
    name, kind = draw.choice(names), draw.choice(["type", "shape", "place", "name", "twice", "value", "length"])
    entry, data = header[name], content[8 + size :]
    match kind:
        case "type":
            entry["dtype"] = draw.choice(TYPES)
        case "shape":
            entry["shape"] = draw.choice(
                [entry["shape"][::-1], [*entry["shape"], 1], [], [2**40], [-1], "x", [0, 2**61]]
            )
        case "place":
            entry["data_offsets"] = draw.choice([[0, 0], [0, len(data)], [-8, 8], [2**63, 2**64], [len(data)] * 2, [1]])
        case "name":
            header[draw.choice([name + "x", "", "\x1b[2J", "a" * 100_000])] = header.pop(name)
        case "twice":
            header[name + "copy"] = entry
        case "value":
            header[name] = draw.choice(VALUES)
        case _:
            size = draw.choice([0, 1, 2**31, 2**63])
    text = json.dumps(header).encode()
    start = (len(text) if kind != "length" else size).to_bytes(8, "little")
    path.write_bytes(start + text + data)
    return f"{path.name}: {kind} of {name}"


def change_tensor(folder: Path, draw: random.Random) -> str:
    """A file that is whole, with another tensor: NaN, infinite, huge, of another shape or type, missing or more."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file, save_file

    found = [path for path in files_of(folder) if path.suffix == ".safetensors"]
    if not found:
        return "no tensors"
    try:
        tensors = load_file(found[0])
    except (SafetensorError, OSError):
        return "no tensors any more"
    floats = [name for name, tensor in tensors.items() if tensor.is_floating_point() and tensor.numel()]
    if not floats:
        return "no tensors of numbers"
    name = draw.choice(floats)
    kind = draw.choice(["nan", "inf", "huge", "shape", "float16", "bfloat16", "float64", "int64", "less", "more"])
    tensor = tensors[name].clone()
    match kind:
        case "nan" | "inf" | "huge":
            tensor.view(-1)[draw.randrange(tensor.numel())] = {"nan": torch.nan, "inf": torch.inf, "huge": 3e38}[kind]
        case "shape":
            tensor = tensor.T.contiguous() if tensor.ndim == 2 else tensor[:-1].clone()
        case "less" | "more":
            pass
        case _:
            tensor = tensor.to(getattr(torch, kind))
    tensors[name] = tensor
    if kind == "less":
        del tensors[name]
    if kind == "more":
        tensors["another"] = tensor.clone()
    save_file(tensors, found[0], {"format": "pt"})
    return f"{found[0].name}: {kind} in {name}"


def change_sums(folder: Path, draw: random.Random) -> str:
    path = folder / SUMS
    if not path.is_file():
        return "no sums"
    first = path.read_text().splitlines()[0]
    name = draw.choice(["../x", "/etc/hostname", "..", "", "a\\b", "\x1b[2J", "config.json", "missing", "a//b"])
    path.write_text(path.read_text() + f"{first.split('  ')[0]}  {name}\n")
    return f"SHA256SUMS names {name!r}"


DAMAGES: tuple[Damage, ...] = (
    *(drop, cut, garble, replace, swap, no_file, change_json, change_json, change_json, change_json, change_header),
    *(change_header, change_tensor, change_tensor, change_sums),
)


def damage(folder: Path, draw: random.Random) -> str:
    signed = (folder / SUMS).is_file()
    names = list(listed_sums(folder)) if signed else []
    done = []
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        kind = draw.choice(DAMAGES)
        if not files_of(folder):
            break
        if kind is change_sums and signed:
            sign(folder, names)
            done.append(change_sums(folder, draw))
            return "; ".join(done)
        done.append(kind(folder, draw))
    if signed:
        sign(folder, names)
    return "; ".join(done)


def sign(folder: Path, names: list[str]) -> None:
    write_sums(folder, {name: digest(folder / name) if (folder / name).is_file() else "0" * 64 for name in names})


def use(folder: Path, ours: bool) -> str:
    """ "works" or "refused"; whatever else is raised is for the caller to report."""
    try:
        if ours:
            describe(folder)
            try_model(folder)
        else:
            import_folder(folder, folder.parent / "imported", trial=try_model)
    except (ModelFolderError, ConfigError) as error:
        if str(folder.parent) not in str(error):
            raise RuntimeError(f"the error names no file: {error}") from error
        return "refused"
    return "works"


def stop(number: int, frame: object) -> None:
    raise Hang


def run(cases: int, seed: int, place: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    theirs = huggingface_folders(place / "theirs")
    ours = {**our_folders(place / "ours"), **import_all(theirs, place / "ours")}
    samples = [(name, folder, True) for name, folder in ours.items()]
    samples += [(name, folder, False) for name, folder in theirs.items()]
    for name, folder, is_ours in samples:  # every one works as it is
        assert work_on(folder, is_ours, place / "work", lambda folder: None) == "works", name
    counts: collections.Counter[str] = collections.Counter()
    wrong: list[str] = []
    signal.signal(signal.SIGPROF, stop)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for number in range(cases):
        draw = random.Random(f"{seed} {number}")
        name, folder, is_ours = draw.choice(samples)
        done: list[str] = []
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            outcome = work_on(folder, is_ours, place / "work", lambda copy: done.append(damage(copy, draw)))  # noqa: B023
        except (Exception, Hang):
            outcome = "wrong"
            wrong.append(f"case {number} of seed {seed}, {name}: {done}\n{traceback.format_exc(limit=-6)}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        counts[outcome] += 1
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    if growth > MOST_GROWTH:
        wrong.append(f"memory grew by {growth:,} bytes")
    return {**counts, "growth": growth, "wrong": wrong}


def work_on(folder: Path, ours: bool, place: Path, change: Callable[[Path], object]) -> str:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place / "folder")
    change(place / "folder")
    return use(place / "folder", ours)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    with tempfile.TemporaryDirectory() as place:
        found = run(options.cases, options.seed, Path(place))
    for text in found["wrong"]:
        print(text, file=sys.stderr)
    print(json.dumps({**found, "wrong": len(found["wrong"])}))
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
