"""Many Python threads at once, and nothing that grows."""
import gc
import resource
import sys
import threading
import tracemalloc

import numpy as np
import pytest

import definition
import multihead


def in_threads(count, work):
    """Runs work(thread) in threads that start together; raises what any of them raised."""
    errors, start = [], threading.Barrier(count)

    def run(number):
        try:
            start.wait()
            work(number)
        except BaseException as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_eight_threads_give_the_bits_of_one():
    arrays = definition.inputs(1, queries=65, keys=129)
    output, lse = multihead.attention(*arrays, causal=True, return_lse=True)
    gradients = multihead.attention_backward(*arrays, output, lse, np.ones_like(output), causal=True)

    def work(_):
        for _ in range(10):
            again, again_lse = multihead.attention(*arrays, causal=True, return_lse=True)
            assert np.array_equal(again, output) and np.array_equal(again_lse, lse)
            backward = multihead.attention_backward(*arrays, output, lse, np.ones_like(output), causal=True)
            assert np.array_equal(backward.query, gradients.query) and np.array_equal(backward.key, gradients.key)

    in_threads(8, work)


def test_the_gil_is_released():
    arrays = definition.inputs(2, batch=1, heads=8, kv_heads=8, queries=1500, keys=1500, head_dim=64)
    started, done = threading.Event(), threading.Event()

    def compute():
        started.set()
        multihead.attention(*arrays)
        done.set()

    thread = threading.Thread(target=compute)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)  # a thread that kept the GIL would not be interrupted
    try:
        thread.start()
        started.wait()
        beats = 0
        while not done.wait(0.0005):
            beats += 1
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert beats >= 2


def test_threads_share_a_cache():
    cache = multihead.KvCache(num_kv_heads=2, head_dim=16, value_dim=11, capacity=4000)
    query, key, value = definition.inputs(3, batch=1, queries=1)

    def work(number):
        for _ in range(50):
            if number % 2:
                cache.append(key, value)
            elif cache.length():
                assert np.isfinite(cache.attend(query)).all()

    in_threads(8, work)
    assert cache.length() == 4 * 50 * 13


def resident():
    """Peak resident memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.measures
@pytest.mark.parametrize("what", ["attention", "backward", "capture", "errors"])
def test_nothing_leaks_over_ten_thousand_calls(what):
    arrays = definition.inputs(4, batch=1, heads=2, kv_heads=1, queries=2, keys=128, head_dim=32, value_dim=32)
    output, lse = multihead.attention(*arrays, return_lse=True)

    def call():
        if what == "attention":
            multihead.attention(*arrays, mask=np.ones(128, bool), return_lse=True)
        elif what == "backward":
            multihead.attention_backward(*arrays, output, lse, output)
        elif what == "capture":
            multihead.AttentionMap(multihead.capture(*arrays, values=True)[1]).top(0, 0, 3)
        else:
            try:
                multihead.attention(arrays[0], arrays[1], arrays[2][:, :, 1:])
            except ValueError:
                pass

    for _ in range(500):
        call()
    gc.collect()
    tracemalloc.start()
    python_before, peak_before = tracemalloc.get_traced_memory()[0], resident()
    for _ in range(10_000):
        call()
    gc.collect()
    python_grown = tracemalloc.get_traced_memory()[0] - python_before
    tracemalloc.stop()
    assert python_grown < 100_000  # ten bytes a call
    assert resident() - peak_before < 8 << 20  # a key alone is 16 KiB: 160 MiB if a call kept it
