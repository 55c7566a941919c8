"""Recipes: the settings of a run as TOML, overridden by `--set`; reading and writing.

Order of precedence: defaults < `[model] preset` < recipe < `--set model.preset` < any other `--set`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.config import PRESETS, CorpusConfig, DataConfig, RunConfig, TransformerConfig, build, suggestion, to_dict
from regard.config.effects import check_effects
from regard.config.parsing import rename_former_keys
from regard.errors import ConfigError

PRESET = "model.preset"


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """The run that a recipe and its `--set key=value` overrides describe."""
    path = Path(path)
    try:
        tree = tomllib.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"there is no recipe at {path}; the ones that ship with Regard are in recipes/") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder; a recipe is a .toml file") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except ValueError as error:  # also a number of thousands of digits
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path} is not a recipe: its brackets are nested too deeply") from None
    presets = [override for override in overrides if parse_override(override)[0] == PRESET]
    with naming(path):
        tree = rename_former_keys(RunConfig, tree, "")
        for override in presets[-1:]:
            set_preset(tree, parse_override(override)[1])
    for override in overrides:
        if override not in presets:
            set_key(tree, override)
    with naming(path):
        run = run_from_dict(tree)
    return dataclasses.replace(run, data=anchor_paths(run.data, path.parent.absolute()))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Prefix errors within the block with the path of the recipe."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def run_from_dict(tree: Mapping[str, Any]) -> RunConfig:
    """A RunConfig from nested dictionaries, with its preset filled in; settings without effect are refused."""
    run = stored_run(tree)
    check_effects(run)
    return run


def stored_run(tree: Mapping[str, Any]) -> RunConfig:
    """A RunConfig from nested dictionaries, as a run folder stores them: settings without effect are accepted."""
    tree = dict(rename_former_keys(RunConfig, tree, ""))
    model = dict(tree["model"]) if isinstance(tree.get("model"), dict) else tree.get("model", {})
    if isinstance(model, dict) and "preset" in model:
        tree["model"] = merged(preset(model.pop("preset")), model)
    return build(RunConfig, tree, "")


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` overridden by `changes`; nested tables are merged likewise."""
    both = {name for name in changes if isinstance(base.get(name), dict) and isinstance(changes[name], dict)}
    return {**base, **changes, **{name: merged(base[name], changes[name]) for name in both}}


def preset(name: object) -> dict[str, Any]:
    """The model settings of a named size."""
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(f"model.preset = {name!r} is not known; {suggestion(str(name), PRESETS)}")
    return dict(PRESETS[name])


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """Every setting by its dotted name, to show and compare runs."""
    flat: dict[str, Any] = {}
    items = enumerate(config) if isinstance(config, list | tuple) else config.items()
    for key, value in items:
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, dict) or (isinstance(value, list | tuple) and value and isinstance(value[0], dict)):
            flat.update(flatten(value, name))
        else:
            flat[name] = list(value) if isinstance(value, tuple) else value
    return flat


def differences(old: RunConfig, new: RunConfig) -> list[tuple[str, Any, Any]]:
    """The settings in which two runs differ: (name, old, new)."""
    before, after = flatten(to_dict(old)), flatten(to_dict(new))
    names = sorted(before.keys() | after.keys())
    return [(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)]


def to_toml(run: RunConfig) -> str:
    """The resolved run as a recipe that gives the same run again."""
    lines: list[str] = []

    def table(name: str, values: Mapping[str, Any], header: str) -> None:
        scalars = {k: v for k, v in values.items() if not isinstance(v, dict) and not is_table_list(v)}
        lines.append(header)
        lines.extend(f"{key} = {toml_value(value)}" for key, value in scalars.items())
        lines.append("")
        for key, value in values.items():
            if isinstance(value, dict):
                table(f"{name}.{key}", value, f"[{name}.{key}]")
            elif is_table_list(value):
                for item in value:
                    table(f"{name}.{key}", item, f"[[{name}.{key}]]")

    for section, values in to_dict(run).items():
        table(section, values, f"[{section}]")
    return "\n".join(lines)


def is_table_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], dict)


def toml_value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            # JSON's escapes are valid in TOML, except for one control character that JSON does not escape.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list() | tuple():
            return "[" + ", ".join(toml_value(item) for item in value) + "]"
        case _:
            return repr(value)


def parse_override(override: str) -> tuple[str, Any]:
    """The key and the value of one `section.key=value`; the value is read as TOML, or else as a bare string."""
    name, equals, text = override.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set {override!r} is not of the form key=value, such as --set train.lr=3e-4")
    try:
        return name.strip(), tomllib.loads(f"value = {text.strip()}")["value"]
    except ValueError:
        return name.strip(), text.strip()
    except RecursionError:
        raise ConfigError(f"--set {name.strip()} is not a setting: its brackets are nested too deeply") from None


def set_preset(tree: dict[str, Any], name: object) -> None:
    """Apply `model.preset=name`: every setting of the preset, in place of the recipe's own and of its preset."""
    own = tree["model"] if isinstance(tree.get("model"), dict) else {}
    chosen = {"family": TransformerConfig.family, **preset(name)}
    tree["model"] = merged({key: value for key, value in own.items() if key != "preset"}, chosen)


def set_key(tree: dict[str, Any], override: str) -> None:
    """Apply one `section.key=value`; the key may be a former one."""
    name, value = parse_override(override)
    *sections, key = present_key(name.split("."))
    for section in sections:
        inner: Any = tree.get(section, {})
        if isinstance(inner, list):
            raise ConfigError(f"--set {name}: {section} is a list of tables; change it in the recipe")
        tree[section] = inner = dict(inner) if isinstance(inner, dict) else {}
        tree = inner
    tree[key] = value


def present_key(parts: list[str]) -> list[str]:
    """The parts of a dotted key, a former name replaced by the present one."""
    nested: dict[str, Any] = {}
    for part in reversed(parts):
        nested = {part: nested}
    renamed = rename_former_keys(RunConfig, nested, "")
    keys = []
    while renamed:
        [(key, renamed)] = renamed.items()
        keys.append(key)
    return keys


def anchor_paths(data: DataConfig, folder: Path) -> DataConfig:
    """Relative paths in a recipe are relative to the recipe; those with ${VARIABLES} are unchanged."""

    def anchor(path: str) -> str:
        return path if not path or "$" in path or path.startswith("~") else os.path.normpath(folder / path)

    def corpus(config: CorpusConfig) -> CorpusConfig:
        paths: dict[str, Any] = {
            name: anchor(getattr(config, name)) for name in ("src", "tgt", "file", "text", "images", "labels")
        }
        return dataclasses.replace(config, **paths)

    corpora: dict[str, Any] = {split: tuple(map(corpus, getattr(data, split))) for split in ("train", "valid", "test")}
    tokenizer = dataclasses.replace(data.tokenizer, files=tuple(map(anchor, data.tokenizer.files)))
    return dataclasses.replace(data, tokenizer=tokenizer, **corpora)
