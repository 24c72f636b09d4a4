"""Pictures of the lab's rooms for docs/lab.md. Usage: screenshots.py MULTIHEAD MAKE_CAPTURES FOLDER

One PNG a room, at most 150 KB: in all its colours when they fit, else in 256."""
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

from serving import Lab
from webdriver import Browser

LIMIT = 150_000
# Name: (state, window, what to do before).
ROOMS = {
    "lab": ("play=1&playStep=6", (1360, 1330), ""),
    "lab_compare": ("compare=1", (1360, 1180), "document.querySelector('#compare-room').scrollIntoView()"),
    "flow": ("room=flow", (1360, 1060), ""),
    "figure": ("room=figure&preset=cross&figureStep=4", (1360, 1020), ""),
    "map": ("room=map&capture=small&head=1&other=3&span=40&left=80&top=84&row=104&key=103", (1360, 1400), ""),
}


def chunks(data):
    at = 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        yield kind, data[at + 8:at + 8 + length]
        at += 12 + length


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def rows_of(width, height, channels, raw):
    """PNG's filters undone: one bytearray a row."""
    stride = width * channels
    before = bytearray(stride)
    for y in range(height):
        kind, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride):
            left = row[x - channels] if x >= channels else 0
            above, corner = before[x], before[x - channels] if x >= channels else 0
            if kind == 1:
                row[x] = (row[x] + left) & 255
            elif kind == 2:
                row[x] = (row[x] + above) & 255
            elif kind == 3:
                row[x] = (row[x] + (left + above) // 2) & 255
            elif kind == 4:
                guess = left + above - corner
                best = min((abs(guess - left), 0, left), (abs(guess - above), 1, above), (abs(guess - corner), 2, corner))[2]
                row[x] = (row[x] + best) & 255
        yield row
        before = row


def distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b))


def palette_of(counts):
    """The 128 most used colours, then always the one that is farthest from all before: rare ones, as a legend's, have a neighbour."""
    palette = sorted(counts, key=counts.get, reverse=True)[:128]
    far = {colour: min(distance(colour, other) for other in palette) for colour in counts}
    while len(palette) < 256 and max(far.values()) > 0:
        palette.append(max(far, key=far.get))
        for colour in far:
            far[colour] = min(far[colour], distance(colour, palette[-1]))
    return palette


def with_palette(png):
    """The same picture in at most 256 colours, each pixel in the nearest of them."""
    parts = list(chunks(png))
    width, height, depth, kind = struct.unpack(">IIBB", parts[0][1][:10])
    channels = {2: 3, 6: 4}[kind]
    assert depth == 8
    raw = zlib.decompress(b"".join(body for name, body in parts if name == b"IDAT"))
    rows = [[bytes(row[x:x + 3]) for x in range(0, len(row), channels)] for row in rows_of(width, height, channels, raw)]
    counts = {}
    for row in rows:
        for colour in row:
            counts[colour] = counts.get(colour, 0) + 1
    palette = palette_of(counts)
    index = {colour: i for i, colour in enumerate(palette)}
    for colour in counts:
        if colour not in index:
            index[colour] = min(range(len(palette)), key=lambda i: distance(palette[i], colour))
    packed = b"".join(b"\0" + bytes(index[colour] for colour in row) for row in rows)
    return (png[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)) + chunk(b"PLTE", b"".join(palette)) +
            chunk(b"IDAT", zlib.compress(packed, 9)) + chunk(b"IEND", b""))


def main():
    program, make_captures, folder = sys.argv[1:4]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as captures:
        subprocess.run([make_captures, captures], check=True)
        with Lab(program, [pathlib.Path(captures) / "small.safetensors"]) as lab, Browser(1360, 1000) as browser:
            for name, (state, (width, height), before) in ROOMS.items():
                browser.resize(width, height)
                browser.open("about:blank")
                browser.open(f"{lab.address}#v=1&theme=light&{state}")
                browser.until("the room", lambda: browser.script("return document.body.dataset.busy === 'false' && Boolean(document.body.dataset.room)"))
                if "room=map" in state:
                    browser.until("tiles", lambda: browser.script("return document.body.dataset.tiles === 'ready' && document.querySelector('.top-keys') !== null"))
                browser.wait_script(f"{before}; await new Promise((done) => setTimeout(done, 700));")
                png = browser.screenshot()
                if len(png) > LIMIT:
                    png = with_palette(png)
                if len(png) > LIMIT:
                    raise SystemExit(f"{name}: {len(png)} bytes are more than {LIMIT}")
                path = folder / f"{name}.png"
                path.write_bytes(png)
                print(f"{path}  {len(png) // 1000} KB")


if __name__ == "__main__":
    main()
