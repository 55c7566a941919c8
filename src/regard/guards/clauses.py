"""Clauses that were translated separately: how they begin and end in the middle of a sentence."""

from __future__ import annotations

from regard.text.patterns import lazy_pattern

_SENTENCE_END = lazy_pattern(r"[.!?。！？…][\"”’」』)）]*$")
# English words that have a capital only at the beginning of a sentence.
_FUNCTION_WORD = lazy_pattern(
    "(?:A|An|The|This|That|These|Those|There|Here|He|She|It|We|You|They|My|Your|His|Her|Its|Our|Their|Who|What|When|Where|"
    "Why|How|Which|If|In|On|At|To|For|From|With|Of|And|But|Or|So|Because|As|After|Before|Then|Do|Does|Did|Is|Are|Was|Were|"
    "Can|Could|Will|Would|Should|Must|Have|Has|Had|Please|Not|No|Yes|One|Some|All|Let)(?![A-Za-z])"
)


def ends_sentence(text: str) -> bool:
    """Whether the text ends with the punctuation of a sentence."""
    return _SENTENCE_END.search(text) is not None


def remove_sentence_end(text: str) -> str:
    """Remove the final full stop, question mark or the like."""
    return text.rstrip(".!?。！？… ") or text


def lower_first_word(text: str) -> str:
    """Begin with a lower-case letter, unless the first word may be a name."""
    return text[0].lower() + text[1:] if _FUNCTION_WORD.match(text) else text
