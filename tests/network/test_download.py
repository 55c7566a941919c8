"""Downloads from a real server that breaks connections, lies about content and ignores ranges."""

from __future__ import annotations

import errno
import hashlib
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.errors import NetworkError
from regard.network import download as module
from regard.network.download import ATTEMPTS, RemoteFile, download

CONTENT = random.Random(1).randbytes(200_000)


def remote(web: Any, content: bytes = CONTENT, path: str = "/file") -> RemoteFile:
    return RemoteFile(web.url + path, len(content), hashlib.sha256(content).hexdigest())


def test_a_file_arrives_whole_and_its_progress_is_reported(web: Any, page: Any, tmp_path: Path) -> None:
    web.pages["/file"] = page(CONTENT)
    seen: list[int] = []
    download(remote(web), tmp_path / "new" / "file", progress=seen.append)
    assert (tmp_path / "new" / "file").read_bytes() == CONTENT
    assert (seen[0], seen[-1]) == (0, len(CONTENT))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]


def test_a_file_that_is_there_is_not_fetched_again(web: Any, page: Any, tmp_path: Path) -> None:
    web.pages["/file"] = page(CONTENT)
    for _ in range(2):
        download(remote(web), tmp_path / "file")
    assert len(web.requests) == 1


def test_a_file_of_another_size_is_replaced(web: Any, page: Any, tmp_path: Path) -> None:
    web.pages["/file"] = page(CONTENT)
    (tmp_path / "file").write_bytes(b"short")
    download(remote(web), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_whole_part_is_not_fetched_again(web: Any, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT)
    download(remote(web), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert not (tmp_path / "file.part").exists()
    assert web.requests == []


def test_what_arrives_of_a_broken_chunk_is_resumed(web: Any, page: Any, tmp_path: Path) -> None:
    web.pages["/file"] = page(b"3\r\nhel\r\n", headers={"Transfer-Encoding": "chunked"}, ranges=False)
    with pytest.raises(
        NetworkError, match=r"the connection ended after 3 of 5 bytes\. Run the command again to resume"
    ):
        download(remote(web, b"hello"), tmp_path / "file", pause=0)
    assert (tmp_path / "file.part").read_bytes() == b"hel"
    web.pages["/file"] = page(b"hello")
    download(remote(web, b"hello"), tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == b"hello"
    assert web.requests[-1][1]["range"] == "bytes=3-"


def test_an_answer_that_is_not_http(web: Any, page: Any, tmp_path: Path) -> None:
    web.pages["/file"] = page(b"5" * 70_000, headers={"Transfer-Encoding": "chunked"})
    with pytest.raises(NetworkError, match=r"the connection broke: got more than 65536 bytes .*Run the command again"):
        download(remote(web), tmp_path / "file", pause=0)
    assert len(web.requests) == ATTEMPTS
    assert not (tmp_path / "file").exists()


def test_a_damaged_file_is_replaced(web: Any, page: Any, tmp_path: Path) -> None:
    web.pages["/file"] = page(CONTENT)
    (tmp_path / "file").write_bytes(CONTENT[:-1] + b"?")
    download(remote(web), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_fifty_broken_connections(web: Any, page: Any, tmp_path: Path) -> None:
    """Each call makes a few attempts; every attempt continues where the one before it ended."""
    lengths = [random.Random(2).randrange(0, 4000) for _ in range(50)]
    web.pages["/file"] = page(CONTENT, breaks=list(lengths))
    for _ in range(50 // ATTEMPTS):
        with pytest.raises(NetworkError, match="Run the command again to resume"):
            download(remote(web), tmp_path / "file", pause=0)
        assert not (tmp_path / "file").exists()
    download(remote(web), tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == CONTENT
    starts = [int(headers.get("range", "bytes=0-")[6:-1]) for _, headers in web.requests]
    assert starts == [sum(lengths[:n]) for n in range(51)]


def test_a_server_that_ignores_ranges_starts_again(web: Any, page: Any, tmp_path: Path) -> None:
    web.pages["/file"] = page(CONTENT, ranges=False, breaks=[70_000, 90_000])
    download(remote(web), tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert all(headers["accept-encoding"] == "identity" for _, headers in web.requests)


def test_a_range_from_elsewhere_is_not_appended(web: Any, page: Any, tmp_path: Path) -> None:
    """A proxy that answers 206 with another start."""
    (tmp_path / "file.part").write_bytes(CONTENT[:100])
    web.pages["/file"] = page(
        CONTENT, status=206, headers={"Content-Range": f"bytes 0-{len(CONTENT) - 1}/{len(CONTENT)}"}
    )
    download(remote(web), tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == CONTENT


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, 400), flipped=st.booleans())
def test_whatever_part_is_there_the_file_is_right_or_absent(
    web: Any, page: Any, tmp_path: Path, start: int, flipped: bool
) -> None:
    content = CONTENT[:300]
    web.pages["/file"] = page(content)
    (tmp_path / "file").unlink(missing_ok=True)
    part = bytearray((content * 2)[:start])
    if flipped and part:
        part[-1] ^= 1
    (tmp_path / "file.part").write_bytes(bytes(part))
    try:
        download(remote(web, content), tmp_path / "file", pause=0)
    except NetworkError:
        assert flipped
        assert not (tmp_path / "file").exists()
        download(remote(web, content), tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == content


def test_a_wrong_checksum_leaves_nothing(web: Any, page: Any, tmp_path: Path) -> None:
    web.pages["/file"] = page(CONTENT[:-1] + b"?")
    with pytest.raises(NetworkError, match="the sha256 of what arrived is not"):
        download(remote(web), tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_small_files_are_checked_by_the_name_that_git_gives_their_content(web: Any, page: Any, tmp_path: Path) -> None:
    web.pages["/file"] = page(b"hello\n")
    file = RemoteFile(f"{web.url}/file", 6, "ce013625030ba8dba906f756967f9e9ca394464a", "git-sha1")
    download(file, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"hello\n"


def test_an_empty_file(web: Any, page: Any, tmp_path: Path) -> None:
    web.pages["/file"] = page(b"")
    download(remote(web, b""), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b""


def test_more_than_announced_is_refused(web: Any, page: Any, tmp_path: Path) -> None:
    web.pages["/file"] = page(CONTENT + b"more")
    with pytest.raises(NetworkError, match="longer than the 200,000 bytes that were announced"):
        download(remote(web), tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_errors_of_the_server(web: Any, page: Any, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="status 404, there is no such file"):
        download(remote(web), tmp_path / "file")
    assert len(web.requests) == 1, "asking again would not help"
    web.pages["/file"] = page(status=503)
    with pytest.raises(NetworkError, match="status 503, try again later"):
        download(remote(web), tmp_path / "file", pause=0)
    assert len(web.requests) == 1 + ATTEMPTS
    for status, said in (
        (401, "private or gated and needs HF_TOKEN"),
        (429, "too many requests"),
        (400, "was refused"),
    ):
        web.pages["/file"] = page(status=status)
        with pytest.raises(NetworkError, match=f"status {status}, .*{said}"):
            download(remote(web), tmp_path / "file", pause=0)
    assert [*tmp_path.iterdir()] == []


def test_nobody_answers(web: Any, tmp_path: Path) -> None:
    gone = RemoteFile("http://127.0.0.1:9/file", 1, "0" * 64)
    with pytest.raises(NetworkError, match=r"127\.0\.0\.1:9 cannot be reached: .*Check the network"):
        download(gone, tmp_path / "file", pause=0)


def test_a_full_disk(web: Any, page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    too_large = RemoteFile(f"{web.url}/file", 10**18, "0" * 64)
    with pytest.raises(NetworkError, match=r"MB free, but .* needs 1,000,000,000,000 MB: make room"):
        download(too_large, tmp_path / "file")
    web.pages["/file"] = page(CONTENT)
    part = tmp_path / "file.part"
    part.symlink_to("/dev/full")
    monkeypatch.setattr(module, "check_space", lambda *args: None)
    with pytest.raises(NetworkError, match=f"file.part cannot be written: {__import__('os').strerror(errno.ENOSPC)}"):
        download(remote(web), tmp_path / "file")
