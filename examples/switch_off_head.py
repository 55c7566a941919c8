"""Switch off one cross-attention head at a time and compare the translations."""

from pathlib import Path

from regard.inspect.interventions import HeadOff
from regard.inspect.patching import intervened
from regard.model_folder.registry import find_folder
from regard.pipelines.model_translator import ModelTranslator

TEXT = "他昨天买了三本书。"

translator = ModelTranslator(find_folder(Path("zh-en")))
print(f"{'unchanged':<22}{translator(TEXT)}")

for layer in range(3):
    for head in range(4):
        where = f"decoder.{layer}.cross"
        with intervened(translator.model, [HeadOff(where, head)]):
            print(f"{where} head {head}  {translator(TEXT)}")
