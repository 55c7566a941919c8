"""An output file is written whole or not at all, and what a killed process left is deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.cli.outputs import open_output, write_output
from regard.errors import ConfigError


def test_a_file_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.write_text("old")

    def fail() -> None:
        with open_output(output) as write:
            write("a\n")
            assert output.read_text() == "old"
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out", "old")]
    with open_output(output) as write:
        write("我\n")
        write(b"b\n")
    assert output.read_text("utf-8") == "我\nb\n"


def test_a_full_disk_is_said_with_the_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="/dev/full cannot be written: No space left on device"):
        write_output("text", Path("/dev/full"))


def test_what_standard_output_refuses_is_left_to_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="No space left on device"), open("/dev/full", "w") as full:  # noqa: PT012
        monkeypatch.setattr("sys.stdout", full)
        write_output("text", None)
