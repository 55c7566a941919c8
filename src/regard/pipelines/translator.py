"""`Translator`: translation with the installed models, or with one model folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import DecodeConfig, Precision, build, convert, to_dict
from regard.errors import ConfigError
from regard.guards.chinese import CHINESE
from regard.guards.entities import find_entities, protected
from regard.model_folder.registry import InstalledModel, find_folder, models_for
from regard.pipelines.guarded_translator import GuardedTranslator
from regard.pipelines.translation import (
    EMPTY,
    Alternative,
    Link,
    Translation,
    TranslatorBase,
    check_n_best,
    check_pairs,
    untranslated,
)
from regard.text.chinese_script import ChineseScript, script_of, simplify, traditionalise
from regard.text.language import DetectedLanguage, base_language, detect_language, same_language
from regard.text.literals import has_only_literals
from regard.text.normalise import normalise
from regard.text.spans import map_between_spans

if TYPE_CHECKING:
    from regard.inspect.trace import Trace
    from regard.pipelines.model_translator import ModelTranslator

__all__ = ["Alternative", "Link", "Translation", "Translator"]

NOT_TRANSLATED = "not translated: "
NO_LETTERS = DetectedLanguage()


class Translator(TranslatorBase):
    """Translate texts with the installed models, or with one model.

    Without a folder, the language of each text is detected, and an installed model for it is loaded when first needed.

    Parameters
    ----------
    folder : str or Path, optional
        A model folder, or the name of an installed model (`regard models`).
    precision : {"float32", "bfloat16", "int8", "auto"}
        Precision of the search. "float32" is exact, "auto" the fastest on this machine.
    source : str, optional
        Language of the texts, such as "zh" or "en". Default: detected for each text.
    to : str, optional
        Language to translate into.
    script : {"simplified", "traditional"}, optional
        Script of Chinese translations. Default: traditional if `to` is "zh-TW", "zh-Hant" or the like; otherwise
        simplified with installed models, and as the model writes it with a folder.
    guards : bool, optional
        Whether to check and repair translations (`regard.guards`). Default: only if no folder is given.
    shortlist : bool
        Search only among the tokens that the shortlist of the model has for the sources (`regard shortlist`). Faster,
        but not exact: a translation may depend on the other texts of its batch.

    Examples
    --------
    >>> from regard import Translator
    >>> translate = Translator()
    >>> translate("我爱你。")
    'I love you.'
    >>> translate(["我爱你。", "I love you."])
    ['I love you.', '我爱你。']
    >>> translate.translate(["我爱你。"], n_best=2)[0].alternatives[0].tokens
    ('▁I', '▁love', '▁you', '.')
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        precision: Precision = "float32",
        *,
        source: str | None = None,
        to: str | None = None,
        script: ChineseScript | None = None,
        guards: bool | None = None,
        shortlist: bool = False,
    ) -> None:
        self.precision: Precision = convert(Precision, precision, "precision")
        self.shortlist = shortlist
        self.source, self.to = source, to
        self.script: ChineseScript | None = script or script_of(to or "") or ("simplified" if folder is None else None)
        self.loaded: dict[Path, ModelTranslator] = {}
        self.guards = folder is None if guards is None else guards
        self.models: list[InstalledModel] = []
        self.folder: Path | None = None
        if folder is None:
            self.models = models_for(source, to)
        else:
            self.folder = find_folder(folder)
            self.check_languages(self.load(self.folder))

    # -- translating

    def translate(
        self,
        texts: Sequence[str],
        *,
        n_best: int = 1,
        prefix: str = "",
        task: str | None = None,
        done: Callable[[int], None] = lambda count: None,
        **options: Any,
    ) -> list[Translation]:
        """Translate each text; an empty text has an empty translation.

        Parameters
        ----------
        texts : list of str
        n_best : int
            Number of alternatives per text.
        prefix : str
            Text with which every translation must begin.
        task : str, optional
            For a model with several tasks: one of them, or a part of its name.
        done : callable
            Called with the number of texts that have just been finished.
        **options
            Decoding settings: beam=4, length_penalty=0.6, method="sample", temperature=0.8, seed=1, …

        Returns
        -------
        list of Translation
            One per text, in order, each the same whatever the others are. A text that no model translates is returned
            as it is: `failed` is true, and `note` says why. `note` also names a part that was not translated.
        """
        if isinstance(texts, str):
            raise ConfigError("translate() takes a list of texts; for a single text call the translator itself")
        check_n_best(n_best)
        if self.folder is None:  # also where no text needs a model, which would check them
            build(DecodeConfig, {**to_dict(DecodeConfig()), **options}, "decode")
        texts = list(texts)
        found: dict[int, Translation] = {}
        routes = self.route(texts, found)
        done(len(found))
        for folder, chosen in routes.items():
            translator = self.get_translator(folder, task)
            some = [texts[at] for at in chosen]
            translations = translator.translate(some, n_best=n_best, prefix=prefix, done=done, **options)
            found.update(zip(chosen, map(self.postprocess, translations), strict=True))
        return [found[at] for at in range(len(texts))]

    def route(self, texts: Sequence[str], found: dict[int, Translation]) -> dict[Path, list[int]]:
        """The indices of the texts for each model. Texts that are not to be translated are entered into `found`."""
        if self.folder is not None:
            return {self.folder: list(range(len(texts)))}
        chosen: dict[Path, list[int]] = {}
        for at, source in enumerate(texts):
            text = normalise(source)
            if not text:
                found[at] = Translation(source, (EMPTY,))
            elif has_only_literals(text) or detect_language(text) == NO_LETTERS:  # 123 😀, ½
                found[at] = untranslated(source, text)
            elif (model := self.select_model(text)) is not None:
                chosen.setdefault(model.folder, []).append(at)
            else:
                note, failed = self.why_not(text), not self.is_already_translated(text)
                found[at] = dataclasses.replace(untranslated(source, text), note=note, failed=failed)
        return chosen

    def select_model(self, text: str) -> InstalledModel | None:
        """The model for the language of a text."""
        language = self.detect(text).language
        return next((model for model in self.models if language and same_language(model.src_lang, language)), None)

    def is_already_translated(self, text: str) -> bool:
        """Whether a text is in the target language."""
        language = self.detect(text).language
        return bool(self.to and language and same_language(language, self.to))

    def why_not(self, text: str) -> str:
        """A note that says why there is no model for a text."""
        if self.is_already_translated(text):
            return f"{NOT_TRANSLATED}the text is already in {self.to}"
        detected = self.detect(text)
        language = f" ({detected.language})" if detected.language else ""
        script = f"{detected.script or 'an unknown'} script{language}"
        return f"{NOT_TRANSLATED}the text is in {script}, for which no model is installed"

    def detect(self, text: str) -> DetectedLanguage:
        """The given source language, or the one detected."""
        return detect_language(text) if self.source is None else DetectedLanguage(self.source)

    def has_letters(self, text: str) -> bool:
        detected = self.detect(normalise(text))
        return bool(detected.language or detected.script)

    # -- models

    def translator_for(self, text: str = "") -> ModelTranslator:
        """The translator of the folder, or of the installed model for a text."""
        if self.folder is not None:
            return self.load(self.folder)
        model = self.select_model(text)
        if model is None:
            raise ConfigError(f"{self.why_not(text).removeprefix(NOT_TRANSLATED)}; name a model folder")
        return self.load(model.folder)

    def load(self, folder: Path) -> ModelTranslator:
        from regard.pipelines.model_translator import ModelTranslator

        if folder not in self.loaded:
            self.loaded[folder] = ModelTranslator(folder, self.precision, shortlist=self.shortlist)
        return self.loaded[folder]

    def get_translator(self, folder: Path, task: str | None = None) -> ModelTranslator | GuardedTranslator:
        """The translator of a model, with guards if they are on."""
        translator = self.load(folder) if task is None else self.load(folder).for_task(task)
        return (
            GuardedTranslator(translator, lambda text: self.preprocess(translator, text)) if self.guards else translator
        )

    def preprocess(self, translator: ModelTranslator, text: str) -> str:
        """The text in the form of the training data, if guards are on.

        Chinese is converted to simplified characters unless the model is for traditional ones; an English text of
        several words begins with a capital.
        """
        if not self.guards:
            return text
        language = base_language(translator.src_lang)
        if language == "zh" and "hant" not in translator.src_lang.lower():
            return simplify(text)
        return text[:1].upper() + text[1:] if language == "en" and " " in text.strip() else text

    def postprocess(self, translation: Translation) -> Translation:
        """Convert a Chinese translation to the chosen script; protected entities are unchanged."""
        if self.script is None or base_language(translation.tgt_lang) != "zh":
            return translation
        convert_script = traditionalise if self.script == "traditional" else simplify
        if self.script == "simplified" and all(simplify(one.text) == one.text for one in translation.alternatives):
            return translation
        alternatives = []
        for one in translation.alternatives:
            spans = protected(find_entities(one.text, CHINESE))
            alternatives.append(dataclasses.replace(one, text=map_between_spans(one.text, spans, convert_script)))
        return dataclasses.replace(translation, alternatives=tuple(alternatives))

    def check_languages(self, translator: ModelTranslator) -> None:
        """Raise if `source` or `to` is not the language of the model."""
        for what, wanted, has in (("from", self.source, translator.src_lang), ("to", self.to, translator.tgt_lang)):
            if wanted is not None and not same_language(wanted, has):
                one, other = (lang or "an unnamed language" for lang in (translator.src_lang, translator.tgt_lang))
                raise ConfigError(
                    f"{translator.folder} translates from {one} to {other}, not {what} {wanted}; "
                    "choose another model with --model"
                )

    # -- scores, traces and alignments

    def score(
        self, sources: Sequence[str], translations: Sequence[str], done: Callable[[int], None] = lambda count: None
    ) -> list[Alternative]:
        """Log-probabilities of given translations, in total and per token."""
        check_pairs(sources, translations)
        # A source without letters, such as an empty one, goes to the model of the first source that has some.
        example = next(filter(self.has_letters, sources), "")
        translators = [self.translator_for(source if self.has_letters(source) else example) for source in sources]
        found: dict[int, Alternative] = {}
        for translator in dict.fromkeys(translators):
            chosen = [at for at, its in enumerate(translators) if its is translator]
            preprocessed = [self.preprocess(translator, sources[at]) for at in chosen]
            scored = translator.score(preprocessed, [translations[at] for at in chosen], done)
            found.update(zip(chosen, scored, strict=True))
        return [found[at] for at in range(len(sources))]

    def trace(self, text: str, translation: str | None = None, taps: Sequence[str] = ("*",), **options: Any) -> Trace:
        """All values that the model computes for `text` and its translation, or the given one, at the chosen taps."""
        translator = self.translator_for(text)
        return translator.trace(self.preprocess(translator, text), translation, taps, **options)

    def align(self, text: str, translation: str | None = None) -> list[Link]:
        """Word alignment of `text` and its translation, or the given one, from the cross-attention weights."""
        if translation is not None or not self.guards:
            translator = self.translator_for(text)
            return translator.align(self.preprocess(translator, text), translation)
        return self.align_parts(self.translate([text])[0])

    def align_parts(self, translation: Translation) -> list[Link]:
        """Word alignment of a translation by this translator."""
        if not translation.alternatives[0].parts:
            return []
        return self.translator_for(translation.source).align_parts(translation.alternatives[0].parts)
