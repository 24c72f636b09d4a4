"""A map of 16,384 × 16,384 coefficients, from far away down to one of them, in NumPy: no matrix is stored.

Open it in an editor that knows `# %%` cells, or run it as it is (some seconds).
"""
# %% A text of 8,192 words, read twice. Four heads, each with vectors of its own for the words.
import numpy as np

import multihead

n, heads, d = 16384, 4, 64
rng = np.random.default_rng(0)
text = np.tile(rng.permutation(n // 2), 2)
vectors = rng.standard_normal((heads, n // 2, d), dtype=np.float32)

# %% A query asks for its own word; a key tells the word before it. So a row finds what followed its word the first time.
query = 1.5 * vectors[:, text]
key = vectors[:, np.roll(text, 1)]
key[:, 0] = 0  # nothing stands before the first word
value = vectors[:, text]  # what is mixed; the coefficients do not depend on it

# %% One call. What is kept is query, key and one number a row, and grows with n.
_, seen = multihead.capture(query[None], key[None], value[None], causal=True)
print(f"kept: {seen.bytes / 1e6:.0f} MB; the matrices would be {heads * n * n * 4 / 1e6:,.0f} MB")

# %% The whole map of head 2 in 16 × 16 cells, each of a million coefficients: how much of its rows' attention falls on its keys.
maps = multihead.AttentionMap(seen)


def draw(tile):
    share = np.where(tile.state == multihead.CellState.VALUE.value, 2.0**tile.log2, 0)
    print("\n".join("  " + "".join(" .:-=+*#%@"[int(9.99 * min(x, 1))] * 2 for x in row) for row in share))


draw(maps.tile(2, height=16, width=16, pooling="mass"))

# %% The second reading has found the first: a line of 8,192 coefficients. Into a cell of it, and into a cell of that.
draw(maps.tile(2, rows=(12288, 13312), keys=(4096, 5120), height=16, width=16, pooling="mass"))
tile = maps.tile(2, rows=(12800, 12864), keys=(4608, 4672), height=16, width=16)
draw(tile)

# %% A cell knows the largest of its coefficients, and where it is. Here cells are 4 × 4; this is the one in the middle.
row, at = int(tile.max_row[8, 8]), int(tile.max_key[8, 8])
one = maps.at(2, row, at)
print(f"row {row} gives key {at} {one.probability:.4f}, the largest of its {maps.visible_keys(2, row):,}")
print("the same bits as the cell's:", one.log2 == tile.max_log2[8, 8])
print("it stands behind the row's word:", text[at - 1] == text[row])

# %% The row again, by hand.
scores = key[2, :row + 1].astype(np.float64) @ query[2, row] / np.sqrt(d)
shares = np.exp(scores - scores.max())
shares /= shares.sum()
print("NumPy finds the same row:", np.allclose(maps.row(2, row)[:row + 1], shares, rtol=0, atol=2e-6))

# %% All of head 2 in numbers, streamed over its 134 million coefficients.
head = multihead.statistics(maps, heads=[2], offsets=[n // 2 - 1], histogram=False)[0]
mass = head.offset_mass[0]
print(f"mass {n // 2 - 1:,} words back, over both readings: {mass.value:.2f}; even attention: {mass.uniform:.5f}")
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))  # kB, on Linux
print(f"most memory the program ever had: {peak / 1e3:,.0f} MB, NumPy's own arrays included")
