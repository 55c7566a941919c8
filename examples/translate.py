"""Translate in both directions with the bundled models."""

from regard import Translator

translator = Translator()  # all installed models; each text goes to one that reads its language

print(translator("我爱你。"))
print(translator("Where is the library?"))

# Several texts at once, with the three best translations of each and their scores.
for translation in translator.translate(["今天天气很好。", "She is reading a book."], beam=4, n_best=3):
    print(f"\n{translation.source}")
    for alternative in translation.alternatives:
        print(f"  {alternative.score:7.3f}  {alternative.text}")
