"""What training reports of attentions that learn what they see, or hash it."""

from __future__ import annotations

from torch import nn

from regard.core.attention.adaptive_span import spans
from regard.core.attention.lsh import bucket_load
from regard.train.reports import Buckets, Spans


def report_spans(model: nn.Module) -> Spans | None:
    """The spans at present; None: the model has none."""
    if not (heads := spans(model)):
        return None
    every = [span for layer in heads.values() for span in layer]
    return Spans(sum(every) / len(every), max(every), heads)


def report_buckets(model: nn.Module) -> Buckets | None:
    """The buckets since the last report; None: the model has no LSH attention."""
    load = bucket_load(model)
    return None if load is None else Buckets(load.mean, load.largest, load.share_seen)
