"""How a call is timed, and how a page of results is written."""
import pathlib
import statistics
import time

import numpy

ROUND_SECONDS = 0.02  # short calls are repeated within a round, as multihead bench does
COLD_KEYS = 4096      # from here on decoding is measured with keys and values in memory, not in the processor's cache
COLD_BYTES = 256 << 20
SETTLE_SECONDS = 0.03  # OpenMP's threads wait busily for some 15 ms after a call: nobody is measured beside the last one's


def before_call(shape):
    """What is to be done, untimed, before each call of a shape."""
    if shape.kind != "decode" or shape.keys < COLD_KEYS:
        return lambda: None
    return numpy.ones(COLD_BYTES, numpy.uint8).max


def seconds_of(contestant, before):
    """The median of as many calls as fill a round, the first left out; before() is called before each, untimed."""
    time.sleep(SETTLE_SECONDS)
    contestant.run()
    times = []
    while not times or sum(times) < ROUND_SECONDS:
        before()
        start = time.perf_counter()
        contestant.run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def number(value):
    """Three digits, never as a power of ten."""
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}"


def table(head, rows, align):
    lines = [head, ["---", *(align for _ in head[1:])], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_page(path, text):
    """Beside and renamed: a page that is there is whole."""
    beside = pathlib.Path(path + ".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
