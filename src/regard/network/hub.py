"""Models on the Hugging Face Hub: which files a repository has, and which of them an import needs.

The variables are those of huggingface_hub: HF_ENDPOINT (another address of the hub), HF_HUB_OFFLINE, and for private
and gated models HF_TOKEN, HF_TOKEN_PATH or the token file in HF_HOME. All files come from one commit, to which the
revision is resolved at the beginning; sizes and checksums are those that the hub states for it.
"""

from __future__ import annotations

import json
import os
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from regard.errors import ConfigError, NetworkError
from regard.network.download import RemoteFile
from regard.network.request import open_url, read_bounded

ENDPOINT = "https://huggingface.co"
MAX_LISTING = 20_000_000  # bytes
TRUE = ("1", "on", "yes", "true")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?")
REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
COMMIT, SHA256 = re.compile(r"[0-9a-f]{40}"), re.compile(r"[0-9a-f]{64}")

SETTINGS = ("config.json", "generation_config.json")
TOKENIZERS = (
    "source.spm",
    "target.spm",
    "vocab.json",
    "target_vocab.json",
    "merges.txt",
    "vocab.txt",
    "spiece.model",
    "tokenizer.model",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "preprocessor_config.json",
)
SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"
SHARD = re.compile(r"(?P<kind>model|pytorch_model)-\d{5}-of-\d{5}\.(safetensors|bin)")


@dataclass(frozen=True)
class HubModel:
    """The files of a model at one commit, by path."""

    name: str
    commit: str
    files: Mapping[str, RemoteFile]


def parse_address(address: str) -> tuple[str, str]:
    """Name and revision of `OWNER/NAME` or `OWNER/NAME@REVISION`."""
    name, _, revision = address.partition("@")
    revision = revision or "main"
    if not NAME.fullmatch(name) or ".." in name or not REVISION.fullmatch(revision) or ".." in revision:
        raise ConfigError(f"{address!r} is not the name of a model on the hub; write OWNER/NAME or OWNER/NAME@REVISION")
    return name, revision


def endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or ENDPOINT


def check_online() -> None:
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in TRUE:
        raise NetworkError(
            "HF_HUB_OFFLINE is set, so nothing is downloaded; unset it, or use a model that is installed"
        )


def access_token() -> str | None:
    """The user's token for the hub, if there is one."""
    token, source = os.environ.get("HF_TOKEN", "").strip(), "HF_TOKEN"
    if not token:
        home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
        path = Path(os.environ.get("HF_TOKEN_PATH") or home / "token")
        source = str(path)
        try:
            token = path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return None
    if not (token.isascii() and token.isprintable()):
        raise ConfigError(f"{source} is not an access token: it has a line break or a character that is not ASCII")
    return token or None


def find_model(name: str, revision: str) -> HubModel:
    """Ask the hub for the files of a model."""
    check_online()
    base = endpoint()
    url = f"{base}/api/models/{name}/revision/{urllib.parse.quote(revision, safe='')}?blobs=true"
    with open_url(url, token=access_token()) as response:
        content = read_bounded(response, url, MAX_LISTING)
    try:
        listing = json.loads(content)
        commit, siblings = listing["sha"], listing["siblings"]
        if not COMMIT.fullmatch(commit):
            raise ValueError
        files = dict(read_sibling(f"{base}/{name}/resolve/{commit}", sibling) for sibling in siblings)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NetworkError(f"{url} does not answer as the Hugging Face Hub does; check HF_ENDPOINT") from None
    return HubModel(name, commit, files)


def read_sibling(base: str, sibling: Mapping[str, Any]) -> tuple[str, RemoteFile]:
    """Path and file of an entry; large files are listed with their SHA-256, others with git's name of their content."""
    path = sibling["rfilename"]
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or "\\" in path or {"..", "."} & set(parts):
        raise NetworkError(f"the hub lists a file outside of its folder: {path!r}; nothing was downloaded")
    large = sibling.get("lfs")
    size, digest = (large["size"], large["sha256"]) if large else (sibling["size"], sibling["blobId"])
    if type(size) is not int or size < 0 or not (SHA256 if large else COMMIT).fullmatch(digest):
        raise ValueError
    url = f"{base}/{urllib.parse.quote(path)}"
    return path, RemoteFile(url, size, digest, "sha256" if large else "git-sha1")


def needed_files(model: HubModel, allow_pickle: bool) -> list[str]:
    """The files that `regard import` reads: settings, tokenizer and one form of the weights, in the order to fetch."""
    if SETTINGS[0] not in model.files:
        raise NetworkError(f"{model.name} has no {SETTINGS[0]}: it is not a model of the transformers library")
    small = [name for name in (*SETTINGS, *TOKENIZERS) if name in model.files]
    return small + weight_files(model, allow_pickle)


def weight_files(model: HubModel, allow_pickle: bool) -> list[str]:
    for whole, kind, is_pickle in ((SAFE, "model", False), (PICKLED, "pytorch_model", True)):
        index = f"{whole}.index.json"
        shards = sorted(path for path in model.files if (found := SHARD.fullmatch(path)) and found["kind"] == kind)
        names = [whole] if whole in model.files else [index, *shards] if index in model.files else []
        if names and is_pickle and not allow_pickle:
            raise NetworkError(
                f"{model.name} has its weights only as {whole}, a pickle. Regard reads only tensors from it "
                "and runs no code. Add --allow-pickle, or name a revision with safetensors: OWNER/NAME@REVISION"
            )
        if names:
            return names
    raise NetworkError(f"{model.name} has no weights that Regard reads: neither {SAFE} nor {PICKLED}")
