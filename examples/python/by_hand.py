"""The lab's layer by hand, in ten cells: three words of width 4, two heads, in NumPy and from multihead.

Open it in an editor that knows `# %%` cells, or run it as it is.
"""
# %% Three words, four numbers each.
import numpy as np

import multihead

preset = multihead.find_preset("lab")
X = multihead.preset_input(preset, 3)
print(X)

# %% Every weight is an identity here, so Q, K and V are X.
Q = K = V = X
h, d = 2, X.shape[1] // 2

# %% Head i gets columns 2i and 2i + 1 of each: [heads, words, d].
split = lambda x: x.reshape(3, h, d).transpose(1, 0, 2)
q, k, v = split(Q), split(K), split(V)

# %% Scores: how well each query fits each key, divided by the root of the head's width.
scores = q @ k.transpose(0, 2, 1) / np.sqrt(d)
print(scores[0].round(4))

# %% Softmax: every row becomes shares of 1.
shares = np.exp(scores - scores.max(-1, keepdims=True))
shares /= shares.sum(-1, keepdims=True)
print(shares[0].round(4))

# %% Each head mixes its values by its shares; the heads' outputs stand side by side again.
output = (shares @ v).transpose(1, 0, 2).reshape(3, 4)
print(output.round(4))

# %% The same from the layer, which stored none of it.
layer = multihead.MultiHeadAttention(preset.config, multihead.preset_weights(preset))
print("the layer agrees:", np.allclose(layer(X[None])[0], output, atol=1e-6))

# %% And any coefficient, when somebody asks: a capture keeps Q, K and one number a row.
_, seen = multihead.capture(q[None], k[None], v[None])
maps = multihead.AttentionMap(seen)
print("so do the coefficients:", np.allclose([[maps.row(head, i) for i in range(3)] for head in range(h)], shares, atol=1e-6))

# %% The future masked: a word sees itself and those before it.
masked = np.where(np.tri(3, dtype=bool), scores, -np.inf)
shares = np.exp(masked - masked.max(-1, keepdims=True))
shares /= shares.sum(-1, keepdims=True)
causal = multihead.attention(q[None], k[None], v[None], causal=True)[0]
print("so does the causal mask:", np.allclose(causal, shares @ v, atol=1e-6))

# %% One head over all four columns adds the two heads' scores, over the root of two: not the same maps, and no other parameters.
one = Q @ K.T / np.sqrt(4)
print("one head's scores are the sum over root 2:", np.allclose(one, scores.sum(0) / np.sqrt(h)))
