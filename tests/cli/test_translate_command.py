from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.cli import inputs
from regard.pipelines.model_translator import ModelTranslator

LINES = ["apple baby bird", "boat blue", "", "cat chair child", "cold cow"]
REVERSED = ["bird baby apple", "blue boat", "", "child chair cat", "cow cold"]
PIPE = subprocess.PIPE


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "input.txt"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    return path


@pytest.fixture(autouse=True)
def _no_model_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_MODEL", raising=False)


def test_words_in_quotes(regard: Any, reverse_model: Path) -> None:
    said = regard("translate", "apple baby bird", "--model", reverse_model)
    assert said == (0, "bird baby apple\n", "")


def test_a_file_line_by_line(regard: Any, reverse_model: Path, text: Path) -> None:
    assert regard("translate", text, "--model", reverse_model) == (0, "\n".join(REVERSED) + "\n", "")


@pytest.mark.parametrize("arguments", [["-"], []], ids=["dash", "nothing"])
def test_standard_input(regard: Any, reverse_model: Path, text: Path, arguments: list[str]) -> None:
    said = regard("translate", *arguments, "--model", reverse_model, stdin=text.read_bytes())
    assert said == (0, "\n".join(REVERSED) + "\n", "")


def test_standard_input_is_translated_as_it_arrives(reverse_model: Path) -> None:
    command = [sys.executable, "-m", "regard", "translate", "-", "--model", str(reverse_model)]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdin
        assert process.stdout
        for asked, answer in ((b"apple baby\n", b"baby apple\n"), (b"\nbird ap", b"\n"), (b"ple\n", b"apple bird\n")):
            process.stdin.write(asked)
            process.stdin.flush()
            assert process.stdout.readline() == answer
        error = process.communicate(b"cat dog\nna\xefve\n")[1]
    assert (process.returncode, error.startswith(b"regard: standard input, line 5: byte 3")) == (3, True)


MIXED = "hello\nПривет\n½\n\n我爱你。\nhi\n".encode()


@pytest.mark.parametrize("size", [1, 11])
def test_how_standard_input_arrives_makes_no_difference(regard: Any, babble: Path, size: int) -> None:
    """Whether a line in a third language is read with others or after a pause: it is copied, and the rest goes on."""
    whole = regard("translate", "-", "--beam", 1, stdin=MIXED)
    command = [sys.executable, "-m", "regard", "translate", "-", "--beam", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment) as process:
        assert process.stdin
        assert process.stdout
        answers = b""
        for start in range(0, len(MIXED), size):
            part = MIXED[start : start + size]
            process.stdin.write(part)
            process.stdin.flush()
            answers += b"".join(process.stdout.readline() for _ in range(part.count(b"\n")))  # a pause
        rest, errors = process.communicate()
    assert (process.returncode, (answers + rest).decode(), errors.decode()) == whole
    assert (whole.code, whole.out.split("\n")[1:4]) == (7, ["Привет", "½", ""])
    assert whole.err.startswith("line 2: not translated: the text is in Cyrillic script")


def test_lines_before_one_that_is_not_utf8_are_translated_however_they_arrive(regard: Any, reverse_model: Path) -> None:
    said = regard("translate", "-", "--model", reverse_model, stdin=b"apple baby\nboat blue\n\xff\ncat cow\n")
    assert (said.code, said.out) == (3, "baby apple\nblue boat\n")
    assert said.err.startswith("regard: standard input, line 3: byte 1 ")


def test_a_file_is_translated_in_blocks(
    regard: Any, reverse_model: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "BLOCK_LINES", 2)
    assert regard("translate", text, "--model", reverse_model, "-o", tmp_path / "out") == (0, "", "")
    assert (tmp_path / "out").read_text("utf-8").splitlines() == REVERSED
    assert regard("translate", text, "--model", reverse_model) == (0, "\n".join(REVERSED) + "\n", "")


def test_nothing_at_all_on_a_terminal_is_asked_about(regard: Any, reverse_model: Path) -> None:
    main, terminal = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "regard", "translate", "--model", reverse_model],
            stdin=terminal,
            capture_output=True,
            text=True,
        )
    finally:
        os.close(main)
        os.close(terminal)
    assert (done.returncode, done.stderr.startswith("regard: no input")) == (2, True)


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (b"", 0),
        (b"\n", 1),
        (b"\n\n\n", 3),
        (b"apple\nbaby", 2),
        (b"apple\r\nbaby\r\n", 2),
        (b"apple\rbaby\n", 1),
        (b"  \t \n", 1),
        ("apple\u2028baby\u2029bird\u0085blue\x0b\x0c\x1c\x1d\x1eboat\n".encode(), 1),
        (b"apple\x00baby\n\x00\n", 2),
        ("👩‍👩‍👧‍👦\n🤖🤖\n".encode(), 2),
        (b"\x1b[31mapple\x07\n", 1),
        (b"\xef\xbb\xbfapple\n", 1),
        ("我爱你\n我".encode(), 2),
    ],
)
def test_as_many_lines_as_there_were(regard: Any, random_model: Any, content: bytes, count: int) -> None:
    model = random_model()
    said = regard("translate", "-", "--model", model, "--beam", 2, stdin=content)
    assert said.code == 0
    assert said.out.count("\n") == count
    assert len(said.out.splitlines()) == count
    rows = regard("translate", "-", "--model", model, "--beam", 1, "--json", stdin=content).out
    assert [bool(json.loads(row)["source"]) for row in rows.split("\n")[:-1]].count(True) <= count
    assert rows.count("\n") == count


def test_an_empty_text_is_an_empty_line(regard: Any, reverse_model: Path) -> None:
    assert regard("translate", "", "--model", reverse_model) == (0, "\n", "")


def test_crlf_and_byte_order_mark_are_not_part_of_the_text(regard: Any, reverse_model: Path) -> None:
    content = b"\xef\xbb\xbfapple baby\r\ncat cow\r\n"
    said = regard("translate", "-", "--model", reverse_model, "--json", stdin=content)
    assert [json.loads(row)["source"] for row in said.out.splitlines()] == ["apple baby", "cat cow"]


def test_a_model_that_writes_line_breaks(regard: Any, newline_model: Path) -> None:
    said = regard("translate", "apple\nbaby\nbird", "--model", newline_model, "--no-repeat-ngram", 1)
    assert said.code == 0
    assert len(said.out.splitlines()) == 3
    assert all(line.strip() for line in said.out.splitlines())


def test_a_very_long_line_among_others(regard: Any, reverse_model: Path) -> None:
    long = " ".join(["apple baby bird."] * 3400)
    said = regard("translate", "-", "--model", reverse_model, "--beam", 1, stdin=f"boat blue\n{long}\n\n".encode())
    first, second, third = said.out.split("\n")[:-1]
    assert (first, third) == ("blue boat", "")
    assert second


def test_the_output_file(regard: Any, reverse_model: Path, text: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "folder" / "output.txt"
    assert regard("translate", text, "--model", reverse_model, "-o", output) == (0, "", "")
    assert output.read_text("utf-8").splitlines() == REVERSED
    assert list(output.parent.iterdir()) == [output]


def test_an_output_file_is_replaced_only_by_a_whole_one(regard: Any, reverse_model: Path, tmp_path: Path) -> None:
    output, link = tmp_path / "output.txt", tmp_path / "link.txt"
    output.write_text("old")
    link.symlink_to(output)
    assert regard("translate", "apple", "--model", reverse_model, "-o", output, "--beam", 0).code == 2
    assert output.read_text() == "old"
    assert regard("translate", "apple baby", "--model", reverse_model, "-o", link).code == 0
    assert output.read_text() == "baby apple\n"
    assert link.is_symlink()


def test_an_output_that_cannot_be_written(regard: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    # The folder of the model does not exist: what is wrong with the output is said before any work.
    said = regard("translate", "apple", "--model", "nowhere", "-o", tmp_path / "file" / "output.txt")
    assert (said.code, said.err) == (
        2,
        f"regard: {tmp_path / 'file' / 'output.txt'} cannot be written: {tmp_path / 'file'} is not a folder\n",
    )
    said = regard("translate", "apple", "--model", "nowhere", "-o", tmp_path)
    assert (said.code, said.err) == (2, f"regard: {tmp_path} is a folder; give a file name\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_file_in_a_folder_that_may_not_be_written_to(regard: Any, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "file").write_text("")
    (tmp_path / "closed").chmod(0o555)
    said = regard("translate", "apple", "--model", "nowhere", "-o", tmp_path / "closed" / "file")
    assert (said.code, f"no permission to write to {tmp_path / 'closed'}" in said.err) == (2, True)


def test_a_pipe_is_written_to_and_not_replaced(regard: Any, reverse_model: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert regard("translate", "apple baby", "--model", reverse_model, "-o", pipe).code == 0
        assert os.read(reader, 100) == b"baby apple\n"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_json_is_an_object_a_line(regard: Any, reverse_model: Path, text: Path) -> None:
    said = regard("translate", text, "--model", reverse_model, "--json", "--n-best", 3)
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert [row["source"] for row in rows] == LINES
    assert [row["translation"] for row in rows] == REVERSED
    for row in rows:
        assert set(row) == {"source", "translation", "from", "to", "score", "alternatives"}
        assert len(row["alternatives"]) == (3 if row["source"] else 1)
        for one in row["alternatives"]:
            assert set(one) == {"text", "score", "log_prob", "tokens", "token_log_probs"}
            assert one["log_prob"] == pytest.approx(sum(one["token_log_probs"]), abs=1e-4)
        assert (row["alternatives"][0]["text"], row["alternatives"][0]["score"]) == (row["translation"], row["score"])


def test_json_with_alignment(regard: Any, reverse_model: Path, reverse: ModelTranslator) -> None:
    long = " ".join(["apple baby."] * 200)
    said = regard("translate", f"apple baby bird\n\n{long}", "--model", reverse_model, "--json", "--align")
    short, empty, cut = [json.loads(line)["alignment"] for line in said.out.splitlines()]
    assert short == [list(link) for link in reverse.align("apple baby bird", "bird baby apple")]
    assert sorted(tgt_word for _, _, _, tgt_word in short) == ["apple", "baby", "bird"]
    assert empty == []
    parts = reverse.translate([long])[0].alternatives[0].parts
    assert len(parts) > 1
    assert cut == [list(link) for link in reverse.align_parts(parts)]
    said = regard("translate", "apple", "--model", reverse_model, "--align")
    assert said == (2, "", "regard: --align needs --json\n")


def test_n_best_is_always_n_lines(regard: Any, reverse_model: Path) -> None:
    said = regard("translate", "apple baby bird\n\ncat cow", "--model", reverse_model, "--n-best", 6)
    lines = said.out.split("\n")[:-1]
    assert len(lines) == 18
    assert (lines[0], lines[6:12], lines[12]) == ("bird baby apple", [""] * 6, "cow cat")
    assert len(set(lines[:6])) > 3
    assert regard("translate", "apple", "--model", reverse_model, "--n-best", 0).code == 2


def test_options_reach_the_search(regard: Any, reverse_model: Path) -> None:
    translator = ModelTranslator(reverse_model)
    given = ["--sample", "--temperature", 3, "--top-k", 20, "--top-p", 0.95, "--seed", 4, "--n-best", 3]
    said = regard("translate", "apple baby bird", "--model", reverse_model, *given)
    how = {"method": "sample", "temperature": 3.0, "top_k": 20, "top_p": 0.95, "seed": 4}
    [found] = translator.translate(["apple baby bird"], n_best=3, **how)
    assert said.out.splitlines() == [one.text for one in found.alternatives]
    assert said.out == regard("translate", "apple baby bird", "--model", reverse_model, *given).out
    said = regard("translate", "apple baby bird", "--model", reverse_model, "--prefix", "cow cold", "--beam", 1)
    assert said.out.startswith("cow cold")
    said = regard("translate", "apple baby", "--model", reverse_model, "--json", "--length-penalty", 0)
    row = json.loads(said.out)
    assert row["score"] == row["alternatives"][0]["log_prob"]


@pytest.mark.parametrize("option", ["--temperature", "--top-k", "--top-p", "--seed"])
def test_what_is_for_sampling_is_not_silently_dropped(regard: Any, reverse_model: Path, option: str) -> None:
    said = regard("translate", "apple", "--model", reverse_model, option, 1)
    assert (said.code, said.err) == (2, f"regard: {option} needs --sample\n")


def test_what_is_for_searching_is_not_silently_changed(regard: Any, reverse_model: Path) -> None:
    said = regard("translate", "apple", "--model", reverse_model, "--sample", "--beam", 2)
    assert (said.code, said.err) == (2, "regard: --beam and --sample cannot be combined\n")
    said = regard("translate", "apple", "--model", reverse_model, "--n-best", 3, "--beam", 2)
    assert (said.code, said.err) == (2, "regard: --n-best 3 needs --beam of at least 3, not 2\n")


def test_languages_must_be_the_model_s(regard: Any, reverse_model: Path) -> None:
    right = regard("translate", "apple baby", "--model", reverse_model, "--from", "EN", "--to", "reversed")
    assert right == (0, "baby apple\n", "")
    for option, lang in (("--from", "zh"), ("--to", "de")):
        said = regard("translate", "apple", "--model", reverse_model, option, lang)
        assert said.code == 2
        wanted = f"translates from en to reversed, not {option[2:]} {lang}; choose another model with --model"
        assert wanted in said.err


@pytest.mark.usefixtures("nothing_installed")
def test_no_model_says_what_to_do(regard: Any) -> None:
    said = regard("translate", "apple")
    assert said.code == 2
    assert "no model is installed" in said.err
    for way in ("--model", "REGARD_MODEL", "regard train"):
        assert way in said.err


def test_the_model_from_the_environment(regard: Any, reverse_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_MODEL", str(reverse_model))
    assert regard("translate", "apple baby") == (0, "baby apple\n", "")


def test_text_that_is_not_utf8(regard: Any, tmp_path: Path, reverse_model: Path) -> None:
    path = tmp_path / "input.txt"
    path.write_bytes(b"fine\n\nna\xefve\n")
    said = regard("translate", path, "--model", "nowhere")
    assert said.code == 3
    assert said.err.startswith(f"regard: {path}, line 3: byte 3 of the line")
    assert "iconv" in said.err
    said = regard("translate", "-", "--model", reverse_model, stdin=b"\xff")
    assert (said.code, said.err.startswith("regard: standard input, line 1: byte 1 ")) == (3, True)


def test_what_a_shell_gives_for_a_file(regard: Any, reverse_model: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"apple baby\n")
    os.close(writer)
    try:
        assert regard("translate", f"/dev/fd/{reader}", "--model", reverse_model).out == "baby apple\n"
    finally:
        os.close(reader)


def test_a_closed_pipe(reverse_model: Path, tmp_path: Path) -> None:
    """As `regard translate FILE | head -1`: more than a pipe holds, and nobody at its other end."""
    (tmp_path / "many.txt").write_text("apple\n" * 1_500)
    command = [
        sys.executable,
        "-m",
        "regard",
        "translate",
        str(tmp_path / "many.txt"),
        "--json",
        "--beam",
        "1",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "REGARD_MODEL": str(reverse_model), "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["source"] == "apple"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_output_is_utf8_in_any_locale(reverse_model: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "regard", "translate", "我", "--prefix", "你好", "--model", reverse_model],
        capture_output=True,
        env=environment,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode("utf-8").startswith("你好")


def test_a_mistyped_file_is_not_translated_as_words(regard: Any, reverse_model: Path) -> None:
    said = regard("translate", "inptu.txt", "--model", reverse_model)
    assert said.code == 3
    assert "file not found: inptu.txt" in said.err


def test_a_packed_file_is_unpacked(regard: Any, reverse_model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"apple baby bird\n"))
    assert regard("translate", tmp_path / "in.gz", "--model", reverse_model).out == "bird baby apple\n"
