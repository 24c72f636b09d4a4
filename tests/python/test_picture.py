"""Maps as PNG pictures: the colours are those of the coefficients, and the command line's."""
import shutil
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

import definition
import multihead

INK, PALE, HATCH = (30, 30, 30), (240, 240, 240), (160, 160, 160)


def decoded(png):
    """Pixels [height, width, 3] of an 8-bit RGB file, by the PNG specification."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, size = 8, b"", None
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length:at + 12 + length])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
            assert body[8:] == bytes([8, 2, 0, 0, 0])  # 8 bits, RGB, not interlaced
        elif kind == b"IDAT":
            data += body
        at += 12 + length
    width, height = size
    lines, above, rows = zlib.decompress(data), bytes(3 * width), []
    assert len(lines) == height * (1 + 3 * width)
    for start in range(0, len(lines), 1 + 3 * width):
        above = unfiltered(lines[start], lines[start + 1:start + 1 + 3 * width], above)
        rows.append(above)
    return np.frombuffer(b"".join(rows), np.uint8).reshape(height, width, 3)


def unfiltered(kind, line, above):
    """A line of pixels from its differences to those before it (PNG, §9)."""
    if kind == 0:
        return line
    row = bytearray(len(line))
    for x, given in enumerate(line):
        up, left, corner = above[x], row[x - 3] if x >= 3 else 0, above[x - 3] if x >= 3 else 0
        if kind == 4:
            near = left + up - corner
            guess = min((left, up, corner), key=lambda value: abs(near - value))
        else:
            guess = (left, up, (left + up) // 2)[kind - 1]
        row[x] = (given + guess) % 256
    return bytes(row)


def frames(pixels, height, width):
    """(x, y) of the first pixel inside each frame around so many pixels, in reading order."""
    ink = (pixels == INK).all(-1)
    found = []
    for y, x in zip(*np.nonzero(ink)):
        inside = ink[y:y + height + 2, x:x + width + 2]
        if (inside.shape == (height + 2, width + 2) and inside[0].all() and inside[-1].all() and inside[:, 0].all()
                and inside[:, -1].all()):
            found.append((x + 1, y + 1))
    return found


def bar_of(pixels, right, y):
    """Colours of the colour bar from low to high, found right of a plot at a height inside it."""
    ink = (pixels == INK).all(-1)
    left = right + 3 + int(np.argmax(ink[y, right + 3:]))
    column = left + 1 + int(np.argmax(~ink[y, left + 1:])) + 2
    top, bottom = y, y
    while not ink[top - 1, column]:
        top -= 1
    while not ink[bottom + 1, column]:
        bottom += 1
    return pixels[top:bottom + 1, column][::-1]


def expect_color(color, bar, share):
    """The bar's colour nearest to this one is close to it, and stands where the share says, to a few pixels."""
    distances = np.abs(bar.astype(int) - color).sum(-1)
    assert distances.min() <= 8 and abs(distances.argmin() - share * (len(bar) - 1)) <= 3, (color, share)


def expect_cells(pixels, corner, cell, bar, share, visible):
    """Every visible cell has the bar's colour at its share of the domain; the others are hatched."""
    for (i, j), seen in np.ndenumerate(visible):
        x, y = corner[0] + cell * j, corner[1] + cell * i
        inside = pixels[y + 1:y + cell - 2, x + 1:x + cell - 2].reshape(-1, 3)
        if seen:
            assert (inside == inside[0]).all(), (i, j)
            expect_color(inside[0], bar, share[i, j])
        else:
            assert {tuple(color) for color in inside} == {PALE, HATCH}, (i, j)


@pytest.fixture(name="seen")
def seen_fixture():
    """(capture, probabilities in float64, visible) of a causal call with 4 heads of 9 queries and 13 keys."""
    arrays = definition.inputs(1, queries=9, keys=13)
    capture = multihead.capture(*arrays, causal=True)[1]
    return capture, definition.attention(*arrays, causal=True)[2], np.arange(13) <= np.arange(9)[:, None] + 4


@pytest.mark.parametrize("scale, domain", [("linear", (0, 1)), ("log", (-30, 0)), ("lift", (-30, 30))])
def test_one_heads_pixels_are_its_coefficients(seen, scale, domain):
    capture, exact, visible = seen
    p = np.where(visible, exact[1, 2], 1)
    number = {"linear": p, "log": np.log2(p), "lift": np.log2(p * visible.sum(1)[:, None])}[scale]
    pixels = decoded(multihead.AttentionMap(capture, 1).picture(2, scale=scale, domain=domain, size=20 * 13))
    [corner] = frames(pixels, 20 * 9, 20 * 13)
    bar = bar_of(pixels, corner[0] + 20 * 13, corner[1] + 90)
    assert len({tuple(color) for color in bar}) > 60
    expect_cells(pixels, corner, 20, bar, (number - domain[0]) / (domain[1] - domain[0]), visible)


def test_all_heads_stand_side_by_side_on_one_scale(seen):
    capture, exact, visible = seen
    pixels = decoded(multihead.AttentionMap(capture).picture(scale="linear", size=10 * 13))
    corners = frames(pixels, 10 * 9, 10 * 13)
    assert len(corners) == 4 and corners[0][1] == corners[1][1] and corners[0][0] == corners[2][0]
    bar = bar_of(pixels, corners[1][0] + 130, corners[1][1] + 45)
    for head, corner in enumerate(corners):
        expect_cells(pixels, corner, 10, bar, exact[0, head], visible)


def test_a_part_and_pooled_cells(seen):
    capture, exact, _ = seen
    maps = multihead.AttentionMap(capture)
    part = decoded(maps.picture(1, rows=(4, 8), keys=(0, 8), scale="linear", size=160))
    [corner] = frames(part, 80, 160)
    expect_cells(part, corner, 20, bar_of(part, corner[0] + 160, corner[1] + 40), exact[0, 1, 4:8, :8], np.ones((4, 8), bool))
    arrays = definition.inputs(2, batch=1, heads=1, kv_heads=1, queries=64, keys=64)
    mass = definition.attention(*arrays)[2][0, 0].reshape(16, 4, 16, 4).mean(1).sum(-1)
    pooled = decoded(multihead.AttentionMap(multihead.capture(*arrays)[1]).picture(0, pooling="mass", scale="linear", size=16))
    [corner] = frames(pooled, 16, 16)
    bar = bar_of(pooled, corner[0] + 16, corner[1] + 30)
    for (i, j), share in np.ndenumerate(mass):
        expect_color(pooled[corner[1] + i, corner[0] + j], bar, share)


def test_notebooks_show_the_same_bytes(seen):
    capture = seen[0]
    maps = multihead.AttentionMap(capture)
    picture = maps.picture()
    assert maps._repr_png_() == picture and capture._repr_png_() == picture == maps.picture()
    assert maps.picture(1) != maps.picture(2) and multihead.AttentionMap(capture, 1)._repr_png_() != picture
    multihead.set_num_threads(1)
    assert maps.picture() == picture
    multihead.set_num_threads(0)
    assert b"4 heads, 2 key/value heads" in picture and b"Head 3 (key/value head 1)" in maps.picture(3)


def test_tokens_label_the_axes(seen):
    capture = seen[0]
    maps = multihead.AttentionMap(capture)
    width = lambda: struct.unpack(">I", maps.picture(0)[16:20])
    numbered = width()
    capture.query_tokens = [f"t{i}" for i in range(9)]
    short = width()
    capture.query_tokens = [f"longer{i}" for i in range(9)]
    assert numbered <= short < width()


def test_labels_that_do_not_fit_a_map_in_use(seen):
    """Labels may be changed under a map, which says what does not fit and reads nothing beyond them."""
    capture = seen[0]
    maps = multihead.AttentionMap(capture)
    before = capture.query_tokens
    capture.query_tokens = ["one"]
    for look in (lambda: maps.query_tokens, lambda: maps.picture(0), lambda: multihead.statistics(maps)):
        with pytest.raises(ValueError, match="expected no (labels|query_tokens), 9 "):
            look()
    capture.query_tokens = before
    assert maps.query_tokens == before


def test_nothing_to_show():
    empty = multihead.capture(*(x[:, :, :0] for x in definition.inputs(3)))[1]
    assert empty._repr_png_() is None and multihead.AttentionMap(empty)._repr_png_() is None
    none = multihead.capture(*(x[:0] for x in definition.inputs(3)))[1]
    assert none._repr_png_() is None
    headless = multihead.AttentionMap(multihead.capture(*(x[:, :0] for x in definition.inputs(3)))[1])
    assert headless._repr_png_() is None
    with pytest.raises(ValueError, match="expected a map with heads; got none"):
        headless.picture()
    with pytest.raises(ValueError, match=r"picture: rows: expected a part of \(0, 0\)"):
        multihead.AttentionMap(empty).picture(0)


@pytest.mark.parametrize("arguments, error, text", [
    ({"head": 4}, ValueError, "head: expected 0 to 3; got 4"),
    ({"head": -1}, ValueError, "head: expected 0 to 3; got -1"),
    ({"head": "first"}, TypeError, "head: expected an integer; got str"),
    ({"size": 15}, ValueError, "size: expected 16 to 8192 pixels; got 15"),
    ({"size": 8193}, ValueError, "size: expected 16 to 8192 pixels; got 8193"),
    ({"rows": (5, 5)}, ValueError, r"rows: expected a part of \(0, 9\); got \(5, 5\)"),
    ({"keys": (0, 14)}, ValueError, r"keys: expected a part of \(0, 13\); got \(0, 14\)"),
    ({"keys": 3}, TypeError, "keys: expected integers; got int"),
    ({"pooling": "sum"}, ValueError, "pooling: expected 'max', 'mean' or 'mass'; got 'sum'"),
    ({"scale": "sqrt"}, ValueError, "scale: expected 'linear', 'log' or 'lift'; got 'sqrt'"),
    ({"domain": (1, 0)}, ValueError, "domain: expected two numbers, the second larger"),
    ({"domain": (0, float("inf"))}, ValueError, "domain: expected two numbers"),
    ({"domain": (0,)}, TypeError, r"domain: expected \(low, high\) or None"),
])
def test_refused_by_name(seen, arguments, error, text):
    with pytest.raises(error, match=f"AttentionMap.picture: {text}"):
        multihead.AttentionMap(seen[0]).picture(**arguments)


def test_progress(seen):
    maps, shares = multihead.AttentionMap(seen[0]), []
    maps.picture(scale="lift", pooling="mean", progress=shares.append)
    assert shares and shares == sorted(shares) and shares[0] >= 0 and shares[-1] <= 1
    with pytest.raises(multihead.Cancelled):
        maps.picture(progress=lambda done: False)


def test_the_command_line_draws_the_same(seen, tmp_path):
    if shutil.which("multihead") is None:
        pytest.skip("no multihead on PATH")
    capture = seen[0]
    capture.layer, capture.model, capture.key_tokens = 3, "made up", [f"<{i}>" for i in range(13)]
    capture.save(tmp_path / "c.safetensors")
    for words, arguments in (([], {}), (["--batch", "1", "--scale", "lift", "--pool", "mass", "--rows", "1:7", "--size", "100"],
                                        {"scale": "lift", "pooling": "mass", "rows": (1, 7), "size": 100})):
        subprocess.run(["multihead", "map", tmp_path / "c.safetensors", "--head", "2", *words, "--output", tmp_path / "m.png"],
                       check=True, stdout=subprocess.DEVNULL)
        maps = multihead.AttentionMap(capture, 1 if "--batch" in words else 0)
        assert maps.picture(2, **arguments) == (tmp_path / "m.png").read_bytes()


LONG = """
import resource, sys
import numpy as np
import multihead
rng = np.random.default_rng(0)
query, key = (rng.standard_normal((1, heads, 20_000, 96), np.float32) for heads in (2, 1))
seen = multihead.capture(query, key, key[..., :8])[1]
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
maps = multihead.AttentionMap(seen)
assert "27 queries × 27 keys" in maps.picture(0).decode("utf-8", "replace")
shown = maps._repr_png_()
print(peak() - before)
assert shown == seen._repr_png_()
sys.stdout.flush()
assert b"estimated from one query in 2 and one key in 2" in shown
"""


@pytest.mark.measures
def test_a_long_map_takes_no_memory():
    """1.6 GB if a head's coefficients were stored. What a notebook shows is an estimate, and says so."""
    done = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 48 << 10  # KiB
