"""A deliberate fault, to see that the sanitizer would report one: an array that says it is longer than its memory, which the
extension module cannot know. `./dev python --asan` runs this first; without the sanitizer it says that nothing was reported."""
import ctypes

import numpy as np

import multihead


class Longer:
    """[1, 1, n, d] in memory, [1, 1, n + 1, d] by its capsule."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **_):
        capsule = self.array.__dlpack__()
        get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
        get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        # DLTensor: data pointer, device (8 bytes), number of axes and element type (8 bytes), then the pointer to the shape.
        shape = ctypes.c_void_p.from_address(get_pointer(capsule, b"dltensor") + 24).value
        ctypes.c_int64.from_address(shape + 2 * 8).value += 1
        return capsule


query = np.ones((1, 1, 3, 16), np.float32)
print("not reported:", multihead.attention(query, Longer(query.copy()), Longer(query.copy())).sum())
