"""File lists of a hub on loopback: names, checksums, tokens, redirects."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from regard.errors import ConfigError, NetworkError
from regard.network.download import download
from regard.network.hub import MAX_LISTING, access_token, find_model, needed_files, parse_address
from regard.network.request import MAX_REDIRECTS, open_url, redirected

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LISTING = "/api/models/owner/name/revision/main?blobs=true"
WEIGHTS = b"weights" * 1000


def small(path: str, content: bytes) -> dict[str, Any]:
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    return {"rfilename": path, "size": len(content), "blobId": git}


def large(path: str, content: bytes) -> dict[str, Any]:
    return small(path, b"pointer") | {"lfs": {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}}


def listing(*siblings: dict[str, Any]) -> bytes:
    return json.dumps({"sha": COMMIT, "siblings": siblings}).encode()


WHOLE = listing(small("config.json", b"{}"), small("README.md", b"#"), large("model.safetensors", WEIGHTS))


@pytest.fixture
def hub(web: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    for name in ("HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_ENDPOINT", web.url + "/")
    return web


def test_files_have_addresses_of_one_commit(hub: Any, page: Any) -> None:
    hub.pages[LISTING] = page(WHOLE)
    model = find_model("owner/name", "main")
    assert model.commit == COMMIT
    assert model.files["model.safetensors"].url == f"{hub.url}/owner/name/resolve/{COMMIT}/model.safetensors"
    assert model.files["model.safetensors"].size == len(WEIGHTS)
    assert needed_files(model, allow_pickle=False) == ["config.json", "model.safetensors"]


def test_a_token_goes_to_the_hub_and_not_to_its_file_store(
    hub: Any, other_web: Any, page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    hub.pages[LISTING] = page(WHOLE)
    file = f"/owner/name/resolve/{COMMIT}/model.safetensors"
    hub.pages[file] = page(status=302, headers={"Location": f"{other_web.url}/store?signature=1"})
    other_web.pages["/store?signature=1"] = page(WEIGHTS, breaks=[4000])
    model = find_model("owner/name", "main")
    download(model.files["model.safetensors"], tmp_path / "weights", access_token(), pause=0)
    assert (tmp_path / "weights").read_bytes() == WEIGHTS
    assert [headers["authorization"] for _, headers in hub.requests] == ["Bearer secret"] * 3
    assert len(other_web.requests) == 2
    assert not any("authorization" in headers for _, headers in other_web.requests)


def test_where_the_token_comes_from(hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert access_token() is None
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text("of home\n")
    assert access_token() == "of home"
    (tmp_path / "elsewhere").write_text("of path")
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "elsewhere"))
    assert access_token() == "of path"
    monkeypatch.setenv("HF_TOKEN", "of variable")
    assert access_token() == "of variable"


@pytest.mark.parametrize("token", ["secret\nX-Header: 1", "密", "a\tb"])
def test_a_token_that_cannot_be_one(hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text(token)
    with pytest.raises(ConfigError, match=r"hf/token is not an access token") as refused:
        access_token()
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(ConfigError, match=r"^HF_TOKEN is not an access token"):
        access_token()
    assert token not in str(refused.value)


@pytest.mark.parametrize("location", ["http://[::1", "/\xe9\xff", "http://a:x/", "http://a:99999/"])
def test_redirects_to_what_is_no_address(web: Any, page: Any, location: str) -> None:
    web.pages["/file"] = page(status=302, headers={"Location": location})
    with pytest.raises(NetworkError, match=r"not an|cannot be asked for"):
        open_url(f"{web.url}/file")


def test_redirects_that_are_refused(web: Any, page: Any) -> None:
    web.pages["/loop"] = page(status=302, headers={"Location": "/loop"})
    with pytest.raises(NetworkError, match=f"redirects more than {MAX_REDIRECTS} times"):
        open_url(f"{web.url}/loop")
    assert len(web.requests) == MAX_REDIRECTS + 1
    web.pages["/file"] = page(status=302, headers={"Location": "file:///etc/passwd"})
    with pytest.raises(NetworkError, match="is not an http or https address"):
        open_url(f"{web.url}/file")
    with pytest.raises(NetworkError, match="which is not encrypted; the download is refused"):
        redirected("https://hub.example/a", "http://hub.example/a")
    assert redirected("https://hub.example/a", "https://store.example/b") == "https://store.example/b"
    assert redirected("https://hub.example/a/b", "/c") == "https://hub.example/c"


@pytest.mark.parametrize(
    "url", ["ftp://x/y", "http://", "http://user:password@host/x", "http://[::1", "http://h:99999/"]
)
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(NetworkError, match="is not an http or https address"):
        open_url(url)


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b", "a\\b", "", "."])
def test_a_path_that_leads_out_of_the_folder_is_refused(hub: Any, page: Any, path: str) -> None:
    hub.pages[LISTING] = page(listing(small("config.json", b"{}"), small(path, b"")))
    with pytest.raises(NetworkError, match="file outside of its folder"):
        find_model("owner/name", "main")


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        b"[]",
        b'{"sha": "main", "siblings": []}',
        b"[" * 200_000,
        listing({"rfilename": "config.json"}),
        listing(small("config.json", b"") | {"size": -1}),
        listing(small("config.json", b"") | {"blobId": "?"}),
        b"\xff",
    ],
)
def test_an_answer_that_is_not_a_hubs(hub: Any, page: Any, answer: bytes) -> None:
    hub.pages[LISTING] = page(answer)
    with pytest.raises(NetworkError, match="does not answer as the Hugging Face Hub does"):
        find_model("owner/name", "main")


def test_an_answer_without_an_end(hub: Any, page: Any) -> None:
    hub.pages[LISTING] = page(b" " * (MAX_LISTING + 1))
    with pytest.raises(NetworkError, match="answers with more than 20,000,000 bytes, which is not what was expected"):
        find_model("owner/name", "main")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["model.safetensors"], "owner/name has no config.json: it is not a model of the transformers library"),
        (
            ["config.json", "tf_model.h5"],
            "has no weights that Regard reads: neither model.safetensors nor pytorch_model",
        ),
    ],
)
def test_a_repository_without_a_model(hub: Any, page: Any, names: list[str], said: str) -> None:
    hub.pages[LISTING] = page(listing(*(small(name, b"{}") for name in names)))
    with pytest.raises(NetworkError, match=said):
        needed_files(find_model("owner/name", "main"), allow_pickle=True)


def test_names_and_revisions() -> None:
    assert parse_address("owner/name") == ("owner/name", "main")
    assert parse_address("gpt2@refs/pr/4") == ("gpt2", "refs/pr/4")
    for wrong in ("", "a/b/c", "../a", "a b", "a/b@../c", "https://huggingface.co/a/b", "a/.b"):
        with pytest.raises(ConfigError, match="is not the name of a model on the hub"):
            parse_address(wrong)


def test_pickles_are_fetched_only_on_request(hub: Any, page: Any) -> None:
    hub.pages[LISTING] = page(listing(small("config.json", b"{}"), large("pytorch_model.bin", WEIGHTS)))
    model = find_model("owner/name", "main")
    with pytest.raises(NetworkError, match=r"only as pytorch_model\.bin, a pickle.* --allow-pickle"):
        needed_files(model, allow_pickle=False)
    assert needed_files(model, allow_pickle=True) == ["config.json", "pytorch_model.bin"]


def test_shards_and_only_what_is_needed(hub: Any, page: Any) -> None:
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
    others = ["tf_model.h5", "onnx/model.onnx", "pytorch_model.bin", "vocab.json"]
    hub.pages[LISTING] = page(listing(*(small(name, b"{}") for name in ("config.json", *names, *others))))
    found = needed_files(find_model("owner/name", "main"), allow_pickle=True)
    assert found == ["config.json", "vocab.json", names[2], *names[:2]]


def test_offline_asks_nobody(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(NetworkError, match="HF_HUB_OFFLINE is set"):
        find_model("owner/name", "main")
    assert hub.requests == []


def test_a_model_that_is_not_there(hub: Any) -> None:
    with pytest.raises(NetworkError, match="status 404, there is no such file or repository"):
        find_model("owner/name", "main")
