"""`regard models`, and the commands that find a model by themselves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from regard import Translator
from regard.cli.explore import find_models


@pytest.mark.usefixtures("nothing_installed")
def test_none(regard: Any) -> None:
    said = regard("models")
    assert said.code == 0
    assert said.out.startswith("no models installed: ")
    assert json.loads(regard("models", "--json").out) == []


def test_the_list(regard: Any, babble: Path) -> None:
    said = regard("models")
    head, first, second = said.out.splitlines()
    assert head.split()[:3] == ["name", "languages", "size"]
    assert [first.split()[0], second.split()[0]] == ["en-zh", "zh-en"]
    for words in ("zh → en", "MB", "bleu 0.1", "CC0", str(babble / "zh-en")):
        assert words in second
    rows = json.loads(regard("models", "--json").out)
    assert rows[1] | {"bytes": 0} == {
        "name": "zh-en",
        "family": "transformer",
        "src_lang": "zh",
        "tgt_lang": "en",
        "bytes": 0,
        "scores": {"bleu": 0.1},
        "licence": "CC0",
        "bundled": False,
        "folder": str(babble / "zh-en"),
    }


def test_one_that_does_not_translate_is_listed_as_what_it_is(
    regard: Any, babble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("en-zh", "poet"):
        shutil.copytree(babble / "en-zh", tmp_path / name)
    config = tmp_path / "poet" / "config.json"
    content = json.loads(config.read_text("utf-8"))
    config.write_text(json.dumps(content | {"model": {"family": "gpt"}}), "utf-8")
    monkeypatch.setenv("REGARD_MODELS", str(tmp_path))
    _, translator, poet = regard("models").out.splitlines()
    assert "en → zh" in translator
    assert "gpt, en " in poet
    assert find_models(tmp_path / "no runs", "I love you.") == [tmp_path / "en-zh"], "the explorer's"


def test_translate_finds_the_direction(regard: Any, babble: Path) -> None:
    lines = ["我爱你。", "I love you.", "", "https://x.org/a 😀"]
    translator = Translator()
    said = regard("translate", "-", stdin="\n".join(lines).encode())
    assert said == (0, "".join(f"{text}\n" for text in translator(lines)), "")
    rows = [
        json.loads(row)
        for row in regard("translate", "-", "--json", stdin="\n".join(lines).encode()).out.split("\n")[:-1]
    ]
    assert [(row["from"], row["to"]) for row in rows] == [("zh", "en"), ("en", "zh"), ("", ""), ("", "")]
    assert rows[3]["translation"] == lines[3]
    said = regard("translate", "我爱你。", "--json", "--align")
    assert {len(link) for link in json.loads(said.out)["alignment"]} <= {4}


def test_translate_s_languages_and_script(regard: Any, babble: Path) -> None:
    assert regard("translate", "Tom", "--from", "zh", "--to", "en").code == 0
    said = regard("translate", "Tom", "--to", "de")
    assert (said.code, "no model is installed for any language → de" in said.err) == (2, True)
    plain, changed = (
        regard("translate", "I love apples.", "--script", name).out for name in ("simplified", "traditional")
    )
    assert len(plain) == len(changed)
    assert regard("translate", "我愛你。").out == regard("translate", "我爱你。").out


def test_what_is_left_is_said_on_standard_error(regard: Any, babble: Path) -> None:
    said = regard("translate", "-", stdin="Привет\nhello\n".encode() + "мир\n".encode() * 12)
    assert said.code == 7
    assert said.out.splitlines()[0] == "Привет"
    assert said.err.splitlines()[0].startswith("line 1: not translated: the text is in Cyrillic script")
    assert said.err.splitlines()[-2] == "and 3 more notes"
    assert said.err.splitlines()[-1].startswith("regard: 13 of 14 lines were copied without translation; ")
    alone = regard("translate", "Привет")
    assert (alone.code, alone.out) == (7, "Привет\n")
    already = regard("translate", "你好", "--to", "zh")
    assert (already.code, already.out, already.err) == (
        *(0, "你好\n"),
        "line 1: not translated: the text is already in zh\n",
    )


def test_guards_can_be_switched(regard: Any, babble: Path) -> None:
    text = "请访问https://x.org/a。"
    assert "https://x.org/a" in regard("translate", text, "--beam", 1).out
    assert "https://x.org/a" not in regard("translate", text, "--beam", 1, "--no-guards").out
    assert "https://x.org/a" not in regard("translate", text, "--beam", 1, "--model", "zh-en").out
    assert "https://x.org/a" in regard("translate", text, "--beam", 1, "--model", "zh-en", "--guards").out


def test_other_commands_find_a_model_too(regard: Any, babble: Path, tmp_path: Path) -> None:
    assert regard("score", "我爱你。", "I love you.").code == 0
    assert regard("attention", "我爱你。").code == 0
    assert regard("tokenize", "我爱你。").out == regard("tokenize", "我爱你。", "--model", babble / "zh-en").out
    (tmp_path / "a").write_text("我爱你。\n图书馆在哪里？\n", "utf-8")
    (tmp_path / "b").write_text("I love you.\nWhere is the library?\n", "utf-8")
    said = regard("evaluate", "--src", tmp_path / "a", "--ref", tmp_path / "b", "--beam", 1, "--json")
    assert json.loads(said.out)["model"] == str(babble / "zh-en")


def test_figures_are_the_model_s_own(regard: Any, babble: Path, tmp_path: Path) -> None:
    """No guard mends what `evaluate` counts."""
    (tmp_path / "a").write_text("请访问https://x.org/a。\n", "utf-8")
    (tmp_path / "b").write_text("Please visit https://x.org/a.\n", "utf-8")
    said = regard(
        "evaluate", "--src", tmp_path / "a", "--ref", tmp_path / "b", "--beam", 1, "--outputs", tmp_path / "c"
    )
    assert said.code == 0
    assert "https://x.org/a" not in (tmp_path / "c").read_text("utf-8")


def test_markup_in_names_and_cards(regard: Any, babble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(babble / "zh-en", tmp_path / "[red]y")
    (tmp_path / "[red]y" / "README.md").write_text("---\nlicence: [/bold] [link=x]\n---\n")
    shutil.copytree(babble / "zh-en", tmp_path / "[bold]x")
    (tmp_path / "[bold]x" / "config.json").write_text('{"[/blue]": 1}')
    monkeypatch.setenv("REGARD_MODELS", str(tmp_path))
    said = regard("models")
    assert said.code == 0
    assert "[/bold]" in said.out
    assert "[bold]x" in said.out


def test_a_name_that_is_not_installed(regard: Any, babble: Path) -> None:
    said = regard("models", "show", "zh-fr")
    assert (said.code, said.out) == (2, "")
    assert "no model 'zh-fr' is installed; regard models lists the installed models" in said.err


def test_a_link_is_removed_and_not_what_it_leads_to(
    regard: Any, babble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv("REGARD_MODELS", str(own))
    (own / "linked").symlink_to(babble / "zh-en")
    said = regard("models", "remove", "linked")
    assert (said.code, said.err) == (0, "")
    assert list(own.iterdir()) == []
    assert (babble / "zh-en" / "config.json").is_file()


def test_a_note_is_in_the_json(regard: Any, babble: Path) -> None:
    said = regard("translate", "你好", "--to", "zh", "--json")
    assert (said.code, json.loads(said.out)["note"]) == (0, "not translated: the text is already in zh")
