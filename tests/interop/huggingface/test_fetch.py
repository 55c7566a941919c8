"""`regard models get` from a hub on loopback: a static folder served by the standard library."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from regard.cli.main import regard
from regard.errors import ConfigError, ModelFolderError, NetworkError
from regard.model_folder.registry import installed_models

COMMIT = "89abcdef0123456789abcdef0123456789abcdef"
NAME = "owner/opus-mt-xx-yy"


def publish(root: Path, source: Path) -> None:
    """Lay a Hugging Face folder out as the hub serves it."""
    files = root / NAME / "resolve" / COMMIT
    files.parent.mkdir(parents=True)
    source.rename(files)
    siblings = []
    for path in sorted(files.iterdir()):
        content = path.read_bytes()
        git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        large = {"lfs": {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}}
        extra = large if path.suffix == ".safetensors" else {}
        siblings.append({"rfilename": path.name, "size": len(content), "blobId": git, **extra})
    listing = root / "api" / "models" / NAME / "revision" / "main"
    listing.parent.mkdir(parents=True)
    listing.write_text(json.dumps({"sha": COMMIT, "siblings": siblings}))


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_cache: Any) -> Iterator[Path]:
    root = tmp_path / "hub"
    root.mkdir()
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("REGARD_MODELS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("REGARD_CACHE", str(new_cache(tmp_path / "cache")))
    handler = functools.partial(Quiet, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield root
        server.shutdown()
        thread.join()


def run(*words: str) -> Any:
    """The result of a command; its exceptions are the test's."""
    return CliRunner().invoke(regard, words, catch_exceptions=False, standalone_mode=False)


def test_get_show_translate_remove(hub: Path, marian_folder: Any, tmp_path: Path) -> None:
    publish(hub, marian_folder())
    got = run("models", "get", NAME)
    assert got.exit_code == 0, got.output
    assert "try it: regard translate" in got.output
    assert list((tmp_path / "cache" / "downloads").iterdir()) == []
    [model] = [one for one in installed_models() if not one.bundled]
    assert (model.name, model.problem) == ("opus-mt-xx-yy", "")
    shown = run("models", "show", "opus-mt-xx-yy")
    assert f"# {NAME}, commit {COMMIT}" in shown.output
    translated = run("translate", "red house.", "--model", "opus-mt-xx-yy", "--beam", "1")
    assert translated.exit_code == 0, translated.output
    with pytest.raises(ModelFolderError, match="exists already; remove it with: regard models remove opus-mt-xx-yy"):
        run("models", "get", NAME)
    assert run("models", "remove", "opus-mt-xx-yy").exit_code == 0
    assert [one for one in installed_models() if not one.bundled] == []


def test_an_interrupted_download_is_resumed_and_a_wrong_file_is_refused(
    hub: Path, marian_folder: Any, tmp_path: Path
) -> None:
    publish(hub, marian_folder())
    weights = hub / NAME / "resolve" / COMMIT / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-4] + b"????")
    with pytest.raises(NetworkError, match="the sha256 of what arrived is not"):
        run("models", "get", NAME)
    assert [one for one in installed_models() if not one.bundled] == []
    part = tmp_path / "cache" / "downloads" / f"owner--opus-mt-xx-yy-{COMMIT}" / "model.safetensors.part"
    part.write_bytes(content[:1000])
    weights.write_bytes(content)
    assert run("models", "get", NAME).exit_code == 0


def test_what_cannot_be_removed(hub: Path) -> None:
    for name, message in (("zh-en", "comes with Regard"), ("nothing", "no model 'nothing' is installed")):
        with pytest.raises(ConfigError, match=message):
            run("models", "remove", name)
