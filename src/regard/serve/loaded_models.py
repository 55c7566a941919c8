"""The models that the server has loaded: those it was started with, and the toy models it has trained."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from regard.errors import RegardError
from regard.inspect.answers import Limits, Model
from regard.inspect.explorer import Explorer
from regard.inspect.model_summary import name_of
from regard.inspect.packed_model import refusal
from regard.model_folder.folder import PROBES
from regard.pipelines.model_translator import ModelTranslator
from regard.serve.attention_history import pack_history
from regard.serve.http_error import HttpError
from regard.train.probes import read_history


@dataclass
class LoadedModel:
    """Hold the lock while using the model: interventions change it while they are in effect."""

    id: str
    name: str
    explorer: Explorer
    in_page: bool  # the page computes it itself
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.description = self.explorer.describe(self.id, self.name)  # now: later the model may be busy

    def describe(self) -> Model:
        return replace(self.description, recorded=self.probes.is_file(), in_page=self.in_page)

    @property
    def probes(self) -> Path:
        return self.explorer.translator.folder / PROBES

    def attention_history(self, after: int) -> bytes:
        if not self.probes.is_file():
            raise HttpError(
                404, f"{self.name} has no attention history", "train with train.probes in the recipe to record one"
            )
        return pack_history(self.name, read_history(self.probes), after)


class LoadedModels:
    """Of those that the page can compute, it computes the models with at most so many parameters."""

    def __init__(
        self,
        folders: Sequence[Path],
        limits: Limits = Limits(),  # noqa: B008
        page_parameters: float = 0,
    ) -> None:
        self.limits, self.page_parameters = limits, page_parameters
        self.lock = threading.Lock()
        self.by_id: dict[str, LoadedModel] = {}
        self.folders: set[Path] = set()
        for folder in folders:
            self.add(folder)

    def add(self, folder: Path) -> None:
        """Load a model, unless it is loaded already."""
        with self.lock:
            if folder.resolve() in self.folders:
                return
            explorer = Explorer(ModelTranslator(folder), self.limits)
            self.folders.add(folder.resolve())
            id = str(len(self.by_id))
            name = self.free_name(name_of(explorer.translator.folder))
            self.by_id[id] = LoadedModel(id, name, explorer, self.in_page(explorer))

    def in_page(self, explorer: Explorer) -> bool:
        """Whether the page computes this model."""
        size = sum(parameter.numel() for parameter in explorer.translator.model.parameters())
        return size <= self.page_parameters and refusal(explorer.translator) is None

    def add_complete(self, folders: Sequence[Path]) -> None:
        """Load those whose training has finished."""
        for folder in folders:
            if (folder / "SHA256SUMS").is_file():
                try:
                    self.add(folder)
                except RegardError:
                    continue

    def all(self) -> tuple[LoadedModel, ...]:
        with self.lock:
            return tuple(self.by_id.values())

    def free_name(self, name: str) -> str:
        """The name, with a number if it is taken."""
        taken = {model.name for model in self.by_id.values()}
        numbered = (f"{name} ({number})" for number in range(2, len(taken) + 3))
        return name if name not in taken else next(other for other in numbered if other not in taken)

    def get(self, id: str) -> LoadedModel:
        if id not in self.by_id:
            raise HttpError(404, f"there is no model {id!r}", f"the models are {', '.join(self.by_id)}: /api/models")
        return self.by_id[id]
