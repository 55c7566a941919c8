"""The vocabularies of the bundled models: one per language, from the data of recipes/zh_en_data.py.

    python recipes/zh_en_vocabulary.py runs/data

It writes zh.model and en.model beside the data. Every Han character is a piece of its own. Everyday sentences count
EVERYDAY times, so that common words are whole pieces although most of the text is documentation; the script fails if
one of the 2,000 commonest English words of Tatoeba is not.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from regard.data.lines import read_lines
from regard.model_folder.atomic import atomic_write
from regard.tokenizers.training import train_vocabulary

SIZES = {"zh": 8_000, "en": 12_000}
COVERAGE = {"zh": 0.99995, "en": 0.9998}
EVERYDAY = {"tatoeba": 8, "phrases": 8}
COMMONEST = 2_000


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    names = sorted(path.name.removesuffix(".en.gz") for path in folder.glob("*.en.gz"))
    for language, size in SIZES.items():
        texts = {name: list(read_lines(folder / f"{name}.{language}.gz")) for name in names}
        sentences = [text for name in names for text in texts[name] * EVERYDAY.get(name, 1)]
        vocabulary = train_vocabulary(
            sentences, "bpe", size, COVERAGE[language], most_sentences=len(sentences) + 1, split_han=True
        )
        pieces = vocabulary.pieces(range(vocabulary.size))
        han = sum(1 for piece in pieces if re.fullmatch(r"[\u3400-\u9fff]", piece))
        print(f"{language}: {vocabulary.size:,} pieces, {han:,} of them Han characters")
        if language == "en":
            counts = Counter(word for text in texts["tatoeba"] for word in re.findall(r"(?<!['’])\b[A-Za-z]+", text))
            common = [word for word, _ in counts.most_common(COMMONEST)]
            split = [word for word, ids in zip(common, vocabulary.encode(common), strict=True) if len(ids) > 1]
            print(f"{COMMONEST - len(split):,} of the {COMMONEST:,} commonest words are one piece; not: {split[:60]}")
            if split:
                sys.exit("raise EVERYDAY or SIZES")
        atomic_write(folder / f"{language}.model", vocabulary.proto)


if __name__ == "__main__":
    main()
