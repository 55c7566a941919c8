"""Record attention weights and print the cross-attention of one sentence."""

from regard import Translator

translator = Translator()
trace = translator.trace("我爱你。", taps=["decoder.*.cross.weights"])

print("recorded:")
for path, value in trace.values.items():
    print(f"  {path}  {value.shape}")  # heads, target length, source length

print("\nmean over layers and heads:")
print("        " + "".join(f"{token:>8}" for token in trace.src_tokens))
for token, weights in zip(trace.tgt_tokens, trace.cross_attention(), strict=True):
    print(f"{token:>8}" + "".join(f"{weight:8.2f}" for weight in weights))

print("\nlayer 0, head 0, row 0 sums to", round(float(trace.cross_attention(layer=0, head=0)[0].sum()), 3))
