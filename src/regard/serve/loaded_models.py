"""The models on offer: those that were named, and those that this server has trained."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import ModelFolderError
from regard.inspect.explorer import Explorer, Limits
from regard.inspect.model_summary import name_of
from regard.model_folder.folder import PROBES
from regard.pipelines.model_translator import ModelTranslator
from regard.serve.attention_history import pack_film
from regard.serve.http_error import HttpError
from regard.train.probes import read_history


@dataclass
class LoadedModel:
    """One model. Whoever uses it holds its lock: interventions change the model while they last."""

    id: str
    name: str
    explorer: Explorer
    lock: threading.Lock = field(default_factory=threading.Lock)

    def card(self) -> dict[str, Any]:
        with self.lock:
            return {"id": self.id, **self.explorer.card(), "name": self.name, "recorded": self.probes.is_file()}

    @property
    def probes(self) -> Path:
        return self.explorer.translator.folder / PROBES

    def film(self, after: int) -> bytes:
        """How its attention took shape, where it remembers."""
        if not self.probes.is_file():
            raise HttpError(
                404, f"{self.name} does not remember its training", "a recipe with train.probes makes a model that does"
            )
        return pack_film(self.name, read_history(self.probes), after)


class Shelf:
    def __init__(self, folders: Sequence[Path], limits: Limits = Limits()) -> None:  # noqa: B008
        self.limits = limits
        self.lock = threading.Lock()
        self.books: dict[str, LoadedModel] = {}
        self.seen: set[Path] = set()
        for folder in folders:
            self.add(folder)

    def add(self, folder: Path) -> None:
        """Put a model on the shelf; one that is there already stays as it is."""
        with self.lock:
            if folder.resolve() in self.seen:
                return
            explorer = Explorer(ModelTranslator(folder), self.limits)
            self.seen.add(folder.resolve())
            number = str(len(self.books))
            self.books[number] = LoadedModel(number, self.free_name(name_of(explorer.translator.folder)), explorer)

    def add_new(self, folders: Sequence[Path]) -> None:
        """Add those that are whole by now."""
        for folder in folders:
            if (folder / "SHA256SUMS").is_file():
                try:
                    self.add(folder)
                except ModelFolderError:
                    continue

    def free_name(self, name: str) -> str:
        """This one, or with a number where it is taken."""
        taken = {book.name for book in self.books.values()}
        numbered = (f"{name} ({number})" for number in range(2, len(taken) + 3))
        return name if name not in taken else next(other for other in numbered if other not in taken)

    def book(self, number: str) -> LoadedModel:
        if number not in self.books:
            raise HttpError(
                404, f"there is no model {number!r}", f"the models are {', '.join(self.books)}: /api/models"
            )
        return self.books[number]
