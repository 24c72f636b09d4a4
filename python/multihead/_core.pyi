"""
The extension module of multihead. Import multihead instead: it has the same names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import enum
import os
from typing import Any

import numpy


from ._array import Array

class Error(RuntimeError):
    """Another error of the library."""

class InvalidArgument(ValueError):
    """
    A shape, option or combination that has no meaning. Nothing has been written.
    """

class FormatError(ValueError):
    """A file was read, but its content breaks the rules of its format."""

class IoError(OSError):
    """
    The operating system refused: a file that is missing, unreadable, or a disk that is full.
    """

class Cancelled(RuntimeError):
    """A progress callback returned False. Nothing was lost but the work."""

def version() -> str:
    """Library version, "major.minor.patch"."""

def targets() -> list[str]:
    """
    Instruction sets that are compiled in and run on this CPU, best first: "AVX3", "AVX2", "NEON" …
    """

def active_target() -> str:
    """
    The instruction set in use. The environment variable MULTIHEAD_TARGET chooses it at start; otherwise the best.
    """

def force_target(name: str) -> None:
    """
    Use this instruction set from now on, in the whole process ("auto" = the best). Not while another thread computes.

    Raises InvalidArgument, with the list of names, for one that is not available.
    """

def num_threads() -> int:
    """
    Threads that a call may use. Default: MULTIHEAD_THREADS, else what OpenMP gives. Results do not depend on it.
    """

def set_num_threads(threads: int) -> None:
    """
    At least 1; 0 returns to the default. Raises InvalidArgument for a negative number.
    """

def attention(query: Array, key: Array, value: Array, *, out: Array | None = None, return_lse: bool = False, scale: float | None = None, softcap: float | None = None, causal: bool = False, query_offsets: int | Iterable[int] | None = None, top_left: bool = False, window: tuple[int | None, int | None] | None = None, key_lengths: Iterable[int] | None = None, mask: Array | None = None, attention_bias: Array | None = None, alibi_slopes: Iterable[float] | None = None, sinks: Iterable[float] | None = None, packed: tuple[Iterable[int], Iterable[int]] | None = None, dropout: tuple[float, int] | None = None) -> Any:
    """
    Exact multi-head attention: softmax(query keyᵀ · scale + what may be seen) value (Vaswani et al. 2017, §3.2).

    query   [batch, num_heads, query_len, head_dim]
    key     [batch, num_kv_heads, key_len, head_dim]    query head h reads key/value head h // (num_heads / num_kv_heads)
    value   [batch, num_kv_heads, key_len, value_dim]
    out     [batch, num_heads, query_len, value_dim], written instead of a new array; must not overlap the inputs

    float32, float16 or bfloat16, the same for all three; any strides; never copied, never converted. Sums are float32 and rounded
    once, at the output.

    Order: scale, softcap, attention_bias and ALiBi, visibility, softmax (a sink joins the denominator), value. A key is visible if
    all constraints allow it; a row that sees none gives 0 and lse -inf.

    scale           factor on the dot products; None: 1 / sqrt(head_dim); any finite number is used as it is
    softcap         c: scores become c · tanh(score / c)
    causal          query i, at position query_offset + i, sees the keys up to it
    query_offsets   position of query row 0, one for all or one for each batch entry; None: key length - query_len, so that the
                    last query sees the last key
    top_left        query offset 0
    window          (left, right): keys from position - left to position + right, both included; None: unlimited
    key_lengths     [batch]: valid keys; those beyond are never read
    mask            bool or uint8, True = may attend; [key_len], [query_len, key_len] or rank 4 with explicit 1s; never expanded
    attention_bias  added to the scores; shapes as mask; -inf = not visible
    alibi_slopes    [num_heads]: adds -slope · |position - key|
    sinks           [num_heads]: one logit more in the denominator
    packed          (query_starts, key_starts): sequences laid end to end, in tensors of batch 1
    dropout         (probability, seed): coefficients become 0 behind the softmax, the others grow by 1 / (1 - probability)

    Returns the output, of the query's kind (NumPy or PyTorch) and dtype, or (output, lse) with return_lse: lse [batch, num_heads,
    query_len] float32 is the natural logarithm of the softmax denominator.

    Raises TypeError for a wrong dtype, byte order or device, ValueError for shapes and options that have no meaning; both name the
    argument. The GIL is released. The bits depend on a row's own inputs and the target alone: not on threads or neighbours.
    """

def attention_probabilities(query: Array, key: Array, lse: Array, *, scale: float | None = None, softcap: float | None = None, causal: bool = False, query_offsets: int | Iterable[int] | None = None, top_left: bool = False, window: tuple[int | None, int | None] | None = None, key_lengths: Iterable[int] | None = None, mask: Array | None = None, attention_bias: Array | None = None, alibi_slopes: Iterable[float] | None = None, sinks: Iterable[float] | None = None, packed: tuple[Iterable[int], Iterable[int]] | None = None, dropout: tuple[float, int] | None = None) -> Any:
    """
    Every coefficient, [batch, num_heads, query_len, key_len] float32, recomputed from query, key and the lse that
    `attention` returned for the same options, or the float64 one of a Capture: a rounded lse puts all coefficients of a row off by
    the same factor, 2e-6 for one of 32. The scores have the bits that were used. For those who can afford so many; AttentionMap looks
    at some of them. Pairs that are not visible are exactly 0.
    """

def reference_attention(query: Array, key: Array, value: Array, *, scale: float | None = None, softcap: float | None = None, causal: bool = False, query_offsets: int | Iterable[int] | None = None, top_left: bool = False, window: tuple[int | None, int | None] | None = None, key_lengths: Iterable[int] | None = None, mask: Array | None = None, attention_bias: Array | None = None, alibi_slopes: Iterable[float] | None = None, sinks: Iterable[float] | None = None, packed: tuple[Iterable[int], Iterable[int]] | None = None, dropout: tuple[float, int] | None = None) -> tuple[Any, Any, Any]:
    """
    The definition of right: (output, lse, probabilities) in float64, four plain passes over a row, on one thread.
    """

def merge(outputs: Iterable[Array], lses: Iterable[Array], sinks: Iterable[float] | None = None, *, return_lse: bool = False) -> Any:
    """
    Joins results over disjoint sets of keys: with L = log(sum exp(lse_p)), output = sum exp(lse_p - L) output_p and lse = L.

    outputs  [batch, num_heads, query_len, value_dim] each, in the order in which they are merged
    lses     [batch, num_heads, query_len] float32 each
    sinks    [num_heads]: compute the parts without them and add them here, once

    A part whose lse is -inf is neutral. Returns the output, of the first part's dtype, or (output, lse).
    """

def alibi_slopes(num_heads: int) -> list[float]:
    """
    ALiBi slopes (Press et al. 2022, §3): 2^(-8 i / num_heads) for powers of two; otherwise those of the next lower power of two, then every other slope of twice that.
    """

def last_keys(w: int) -> tuple[int | None, int | None]:
    """The window of the last w keys, the query's own included: (w - 1, 0)."""

class AttentionPlan:
    """What `attention` would do for some arguments: see `plan`."""

    @property
    def target(self) -> str:
        """instruction set, e.g. "AVX2\""""

    @property
    def kernel(self) -> str:
        """"panels" (queries in lanes) or "decode" (few queries, long cache)"""

    @property
    def reason(self) -> str:
        """one sentence"""

    @property
    def panel_lanes(self) -> int:
        """(query, head) pairs that one register tile works on"""

    @property
    def block_lanes(self) -> int:
        """pairs of one work item"""

    @property
    def key_block(self) -> int:
        """keys walked between two softmax updates"""

    @property
    def key_chunk(self) -> int:
        """keys after which partial results are merged"""

    @property
    def work_items(self) -> int:
        """independent pieces"""

    @property
    def threads(self) -> int:
        """threads that will share them"""

    @property
    def copies_keys(self) -> bool:
        """key and value blocks are converted or gathered first"""

    @property
    def workspace_bytes(self) -> int:
        """per thread"""

    def __repr__(self) -> str: ...

def plan(query: Array, key: Array, value: Array, *, scale: float | None = None, softcap: float | None = None, causal: bool = False, query_offsets: int | Iterable[int] | None = None, top_left: bool = False, window: tuple[int | None, int | None] | None = None, key_lengths: Iterable[int] | None = None, mask: Array | None = None, attention_bias: Array | None = None, alibi_slopes: Iterable[float] | None = None, sinks: Iterable[float] | None = None, packed: tuple[Iterable[int], Iterable[int]] | None = None, dropout: tuple[float, int] | None = None) -> AttentionPlan:
    """
    What `attention` would do for these arguments: which kernel, on which target, cut how, and why.
    """

class AttentionGradients:
    """
    Gradients of a loss: arrays of their arguments' shapes, None where not wanted.
    """

    @property
    def query(self) -> Any: ...

    @property
    def key(self) -> Any: ...

    @property
    def value(self) -> Any: ...

    @property
    def attention_bias(self) -> Any:
        """broadcast axes are summed; 0 where the bias is -inf"""

    @property
    def alibi_slopes(self) -> Any:
        """[num_heads], float32"""

    @property
    def sinks(self) -> Any:
        """[num_heads], float32"""

def attention_backward(query: Array, key: Array, value: Array, output: Array, lse: Array, grad_output: Array, *, wanted: Sequence[str] = ('query', 'key', 'value'), scale: float | None = None, softcap: float | None = None, causal: bool = False, query_offsets: int | Iterable[int] | None = None, top_left: bool = False, window: tuple[int | None, int | None] | None = None, key_lengths: Iterable[int] | None = None, mask: Array | None = None, attention_bias: Array | None = None, alibi_slopes: Iterable[float] | None = None, sinks: Iterable[float] | None = None, packed: tuple[Iterable[int], Iterable[int]] | None = None, dropout: tuple[float, int] | None = None) -> AttentionGradients:
    """
    Gradients of a loss with respect to the arguments of `attention`, given that with respect to its output: fused, from the
    output and lse that the forward pass returned, without a stored score matrix (Dao 2023, §3.1.2).

    query, key, value, options   as they were given to `attention`
    output, lse                  what it returned (return_lse=True)
    grad_output                  [batch, num_heads, query_len, value_dim]
    wanted                       names of the gradients to compute: query, key, value, attention_bias, alibi_slopes, sinks

    A row that sees no key gives and gets nothing: its gradients are 0. Sums are float32 and rounded once; the bits are the same for
    any number of threads. Raises TypeError and ValueError as `attention` does. The GIL is released.
    """

class KvCache:
    """
    Keys and values of past positions, one contiguous run for each sequence and key/value head.

    Absolute positions start at 0; keys are stored as given (rotate them before). A prompt in one call, in chunks or token by token
    gives the same bits as one causal pass over all of it. Threads may share a cache: appending waits for those who attend.
    """

    def __init__(self, *, num_kv_heads: int, head_dim: int, capacity: int, sequences: int = 1, value_dim: int = 0, dtype: Any = 'float32', sliding: bool = False) -> None:
        """
        capacity   positions that a sequence can hold
        value_dim  0: head_dim
        dtype      storage: float32, float16 or bfloat16; queries may be of any of the three
        sliding    only the last `capacity` positions are kept and seen

        Memory: sequences · num_kv_heads · capacity · (head_dim + value_dim) elements, allocated at once.
        """

    def append(self, key: Array, value: Array, sequence: int | None = None) -> None:
        """
        Appends n positions to every sequence, key [sequences, num_kv_heads, n, head_dim] and value [sequences, num_kv_heads, n,
        value_dim], or to one, both without the first axis. Converted to the storage type. Raises InvalidArgument, with nothing
        appended, when they do not fit.
        """

    def truncate(self, sequence: int, length: int) -> None:
        """Forgets a sequence's positions from `length` on."""

    def attend(self, query: Array, *, out: Array | None = None, return_lse: bool = False, sequences: Iterable[int] | None = None, scale: float | None = None, softcap: float | None = None, causal: bool = True, window: tuple[int | None, int | None] | None = None, mask: Array | None = None, attention_bias: Array | None = None, alibi_slopes: Iterable[float] | None = None, sinks: Iterable[float] | None = None) -> Any:
        """
        Causal attention of the last n positions of some sequences, after they were appended.

        query      [count, num_heads, n, head_dim]; row b belongs to sequences[b], or to sequence b
        mask, attention_bias  over absolute key positions

        Returns the output [count, num_heads, n, value_dim], or (output, lse). The GIL is released.
        """

    def length(self, sequence: int = 0) -> int:
        """
        Positions appended to a sequence so far: the absolute position of the next one.
        """

    def first_position(self, sequence: int = 0) -> int:
        """The oldest position that a query can still see."""

    @property
    def max_append(self) -> int:
        """Most positions that one append may bring."""

    def keys(self, sequence: int = 0) -> numpy.ndarray:
        """
        Stored keys of one sequence, oldest first, [num_kv_heads, kept, head_dim], as a copy in the storage type.
        """

    def values(self, sequence: int = 0) -> numpy.ndarray:
        """
        Stored values of one sequence, oldest first, [num_kv_heads, kept, value_dim], as a copy in the storage type.
        """

    @property
    def sequences(self) -> int: ...

    @property
    def capacity(self) -> int: ...

    @property
    def dtype(self) -> str: ...

    def capture(self, query: Array, *, values: bool = False, outputs: bool = False, scale: float | None = None, softcap: float | None = None, causal: bool = True, window: tuple[int | None, int | None] | None = None, mask: Array | None = None, attention_bias: Array | None = None, alibi_slopes: Iterable[float] | None = None, sinks: Iterable[float] | None = None) -> tuple[Any, Capture]:
        """
        (output, capture): `attend` of sequences 0, 1 …, and what it takes to look at its coefficients.
        """

class RotaryPairing(enum.Enum):
    """How the rotated dimensions of a head are paired."""

    HALF_SPLIT = 0
    """(j, j + rotary_dim / 2): GPT-NeoX, Llama in the Hugging Face layout"""

    INTERLEAVED = 1
    """(2j, 2j + 1): GPT-J, Llama in Meta's own layout"""

class LinearRotaryScaling:
    """Frequencies divided by `factor`."""

    def __init__(self, *, factor: float = 1) -> None: ...

    @property
    def factor(self) -> float: ...

    @factor.setter
    def factor(self, arg: float, /) -> None: ...

class Llama3RotaryScaling:
    """
    Llama 3.1: long wavelengths divided by `factor`, short ones kept, a blend between.
    """

    def __init__(self, *, factor: float = 8, low_freq_factor: float = 1, high_freq_factor: float = 4, original_max_positions: float = 8192) -> None: ...

    @property
    def factor(self) -> float: ...

    @factor.setter
    def factor(self, arg: float, /) -> None: ...

    @property
    def low_freq_factor(self) -> float: ...

    @low_freq_factor.setter
    def low_freq_factor(self, arg: float, /) -> None: ...

    @property
    def high_freq_factor(self) -> float: ...

    @high_freq_factor.setter
    def high_freq_factor(self, arg: float, /) -> None: ...

    @property
    def original_max_positions(self) -> float: ...

    @original_max_positions.setter
    def original_max_positions(self, arg: float, /) -> None: ...

class YarnRotaryScaling:
    """YaRN (Peng et al. 2023)."""

    def __init__(self, *, factor: float = 1, original_max_positions: float = 4096, beta_fast: float = 32, beta_slow: float = 1, truncate: bool = True, attention_factor: float | None = None) -> None: ...

    @property
    def factor(self) -> float: ...

    @factor.setter
    def factor(self, arg: float, /) -> None: ...

    @property
    def original_max_positions(self) -> float: ...

    @original_max_positions.setter
    def original_max_positions(self, arg: float, /) -> None: ...

    @property
    def beta_fast(self) -> float: ...

    @beta_fast.setter
    def beta_fast(self, arg: float, /) -> None: ...

    @property
    def beta_slow(self) -> float: ...

    @beta_slow.setter
    def beta_slow(self, arg: float, /) -> None: ...

    @property
    def truncate(self) -> bool: ...

    @truncate.setter
    def truncate(self, arg: bool, /) -> None: ...

    @property
    def attention_factor(self) -> float | None: ...

    @attention_factor.setter
    def attention_factor(self, arg: float | None, /) -> None: ...

class Rotary:
    """
    Rotary position embedding (Su et al. 2021): pair j of position p turns by p · theta^(-2j / rotary_dim).
    """

    def __init__(self, *, pairing: RotaryPairing = ..., rotary_dim: int = 0, theta: float = 10000, scaling: LinearRotaryScaling | Llama3RotaryScaling | YarnRotaryScaling | None = None) -> None:
        """
        pairing: HALF_SPLIT unless given. rotary_dim: the first so many dimensions of each head turn; 0 = head_dim.
        """

    @property
    def pairing(self) -> RotaryPairing: ...

    @pairing.setter
    def pairing(self, arg: RotaryPairing, /) -> None: ...

    @property
    def rotary_dim(self) -> int: ...

    @rotary_dim.setter
    def rotary_dim(self, arg: int, /) -> None: ...

    @property
    def theta(self) -> float: ...

    @theta.setter
    def theta(self, arg: float, /) -> None: ...

    @property
    def scaling(self) -> None | LinearRotaryScaling | Llama3RotaryScaling | YarnRotaryScaling: ...

    @scaling.setter
    def scaling(self, arg: LinearRotaryScaling | Llama3RotaryScaling | YarnRotaryScaling | None, /) -> None: ...

class QueryKeyNormKind(enum.Enum):
    """What a QueryKeyNorm divides by."""

    RMS = 0
    """the root of the mean square"""

    LAYER = 1
    """the standard deviation, after the mean was taken away"""

class QueryKeyNorm:
    """Normalisation of query and key before the rotation; RMS unless given."""

    def __init__(self, *, kind: QueryKeyNormKind = ..., epsilon: float = 1e-06, weight_plus_one: bool = False) -> None: ...

    @property
    def kind(self) -> QueryKeyNormKind: ...

    @kind.setter
    def kind(self, arg: QueryKeyNormKind, /) -> None: ...

    @property
    def epsilon(self) -> float: ...

    @epsilon.setter
    def epsilon(self, arg: float, /) -> None: ...

    @property
    def weight_plus_one(self) -> bool:
        """Gemma: the factor is 1 + weight"""

    @weight_plus_one.setter
    def weight_plus_one(self, arg: bool, /) -> None: ...

class RelativeBias:
    """T5's bucketed relative position bias (Raffel et al. 2020, §2.1)."""

    def __init__(self, *, max_distance: int = 128, bidirectional: bool = True) -> None: ...

    @property
    def max_distance(self) -> int: ...

    @max_distance.setter
    def max_distance(self, arg: int, /) -> None: ...

    @property
    def bidirectional(self) -> bool: ...

    @bidirectional.setter
    def bidirectional(self, arg: bool, /) -> None: ...

class LayerConfig:
    """What a layer is. Zeros mean "follows from the others"."""

    def __init__(self, *, model_dim: int = 0, num_heads: int = 1, num_kv_heads: int = 0, head_dim: int = 0, value_dim: int = 0, key_input_dim: int = 0, value_input_dim: int = 0, output_dim: int = 0, causal: bool = False, window: tuple[int | None, int | None] | None = None, scale: float | None = None, softcap: float | None = None, alibi: bool = False, rotary: Rotary | None = None, query_key_norm: QueryKeyNorm | None = None, relative_bias: RelativeBias | None = None, clip: float | None = None) -> None: ...

    @property
    def model_dim(self) -> int:
        """width of the input and, unless output_dim is given, of the result"""

    @model_dim.setter
    def model_dim(self, arg: int, /) -> None: ...

    @property
    def num_heads(self) -> int: ...

    @num_heads.setter
    def num_heads(self, arg: int, /) -> None: ...

    @property
    def num_kv_heads(self) -> int:
        """0 = num_heads; must divide num_heads"""

    @num_kv_heads.setter
    def num_kv_heads(self, arg: int, /) -> None: ...

    @property
    def head_dim(self) -> int:
        """0 = model_dim / num_heads, which must be exact"""

    @head_dim.setter
    def head_dim(self, arg: int, /) -> None: ...

    @property
    def value_dim(self) -> int:
        """0 = head_dim"""

    @value_dim.setter
    def value_dim(self, arg: int, /) -> None: ...

    @property
    def key_input_dim(self) -> int:
        """0 = model_dim"""

    @key_input_dim.setter
    def key_input_dim(self, arg: int, /) -> None: ...

    @property
    def value_input_dim(self) -> int:
        """0 = key_input_dim"""

    @value_input_dim.setter
    def value_input_dim(self, arg: int, /) -> None: ...

    @property
    def output_dim(self) -> int:
        """0 = model_dim"""

    @output_dim.setter
    def output_dim(self, arg: int, /) -> None: ...

    @property
    def causal(self) -> bool: ...

    @causal.setter
    def causal(self, arg: bool, /) -> None: ...

    @property
    def window(self) -> tuple[int | None, int | None] | None:
        """(left, right), both included; None: unlimited"""

    @window.setter
    def window(self, window: tuple[int | None, int | None] | None) -> None: ...

    @property
    def scale(self) -> float | None:
        """None: 1 / sqrt(head_dim)"""

    @scale.setter
    def scale(self, arg: float | None, /) -> None: ...

    @property
    def softcap(self) -> float | None: ...

    @softcap.setter
    def softcap(self, arg: float | None, /) -> None: ...

    @property
    def alibi(self) -> bool: ...

    @alibi.setter
    def alibi(self, arg: bool, /) -> None: ...

    @property
    def rotary(self) -> Rotary | None: ...

    @rotary.setter
    def rotary(self, arg: Rotary | None, /) -> None: ...

    @property
    def query_key_norm(self) -> QueryKeyNorm | None: ...

    @query_key_norm.setter
    def query_key_norm(self, arg: QueryKeyNorm | None, /) -> None: ...

    @property
    def relative_bias(self) -> RelativeBias | None: ...

    @relative_bias.setter
    def relative_bias(self, arg: RelativeBias | None, /) -> None: ...

    @property
    def clip(self) -> float | None:
        """query, key and value are clamped to ±clip after their projections"""

    @clip.setter
    def clip(self, arg: float | None, /) -> None: ...

    def resolved(self) -> LayerConfig:
        """
        With the zeros filled in. Raises InvalidArgument for what does not fit together.
        """

    def __repr__(self) -> str: ...

class LayerStep:
    """One step of the layer, as numbers."""

    @property
    def name(self) -> str: ...

    @property
    def equation(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """of the step's result for batch 1"""

    @property
    def parameters(self) -> int: ...

    @property
    def operations(self) -> float:
        """multiply and add count two"""

    @property
    def bytes(self) -> float:
        """of the result in float32"""

    @property
    def stored(self) -> bool:
        """False: never materialised, a view, or in place"""

    def __repr__(self) -> str: ...

class LayerDescription:
    """Shapes, parameters, operations and bytes of a layer."""

    @property
    def config(self) -> LayerConfig: ...

    @property
    def query_len(self) -> int: ...

    @property
    def key_len(self) -> int: ...

    @property
    def steps(self) -> list[LayerStep]: ...

    @property
    def parameters(self) -> int: ...

    @property
    def operations(self) -> float: ...

    @property
    def bytes_not_stored(self) -> float:
        """the coefficients, which no step keeps"""

    def __repr__(self) -> str: ...

def describe(config: LayerConfig, query_len: int, key_len: int | None = None, with_bias: bool = False) -> LayerDescription:
    """
    Shapes, parameters, operations and bytes of every step. key_len None: query_len. with_bias counts four biases.

    Raises InvalidArgument for a negative length or an impossible configuration.
    """

class Capture:
    """
    What one attention call computed its coefficients from: query, key, lse, options and labels. Enough to recompute
    any coefficient later, with the bits that were used; nothing in it grows with query_len · key_len. Made by `capture`,
    `KvCache.capture`, `MultiHeadAttention.capture` and `load_capture`; read through `AttentionMap`.
    """

    @property
    def query(self) -> numpy.ndarray:
        """[batch, num_heads, query_len, head_dim], a view"""

    @property
    def key(self) -> numpy.ndarray:
        """[batch, num_kv_heads, key_len, head_dim], a view"""

    @property
    def lse(self) -> numpy.ndarray:
        """[batch, num_heads, query_len], float64, natural logarithm, a view"""

    @property
    def value(self) -> numpy.ndarray | None:
        """[batch, num_kv_heads, key_len, value_dim]; None when not kept"""

    @property
    def output(self) -> numpy.ndarray | None:
        """
        [batch, num_heads, query_len, value_dim], before W_O; None when not kept
        """

    @property
    def output_weight(self) -> numpy.ndarray | None:
        """
        W_O, [output_dim, num_heads * value_dim]: value-weighted statistics ask for it; None when not known
        """

    @output_weight.setter
    def output_weight(self, weight: Array | None) -> None: ...

    @property
    def name(self) -> str:
        """e.g. "model.layers.3.self_attn\""""

    @name.setter
    def name(self, arg: str, /) -> None: ...

    @property
    def model(self) -> str:
        """of which model"""

    @model.setter
    def model(self, arg: str, /) -> None: ...

    @property
    def layer(self) -> int:
        """index of the layer in its model; -1: not known"""

    @layer.setter
    def layer(self, arg: int, /) -> None: ...

    @property
    def query_tokens(self) -> list[str]:
        """
        one string a query row, or empty: [query_len] for all batch entries or [batch * query_len], entry after entry
        """

    @query_tokens.setter
    def query_tokens(self, arg: Sequence[str], /) -> None: ...

    @property
    def key_tokens(self) -> list[str]:
        """
        one string a key, or empty: [key_len] for all batch entries or [batch * key_len], entry after entry
        """

    @key_tokens.setter
    def key_tokens(self, arg: Sequence[str], /) -> None: ...

    @property
    def bytes(self) -> int:
        """of all tensors"""

    def save(self, path: str | os.PathLike) -> None:
        """Writes one safetensors file, beside and renamed. Raises IoError."""

    def __repr__(self) -> str: ...

def capture(query: Array, key: Array, value: Array, *, values: bool = False, outputs: bool = False, scale: float | None = None, softcap: float | None = None, causal: bool = False, query_offsets: int | Iterable[int] | None = None, top_left: bool = False, window: tuple[int | None, int | None] | None = None, key_lengths: Iterable[int] | None = None, mask: Array | None = None, attention_bias: Array | None = None, alibi_slopes: Iterable[float] | None = None, sinks: Iterable[float] | None = None, packed: tuple[Iterable[int], Iterable[int]] | None = None, dropout: tuple[float, int] | None = None) -> tuple[Any, Capture]:
    """
    (output, capture): `attention`, with its bits, and what it takes to look at its coefficients.

    values   keep the values too: value-weighted statistics need them
    outputs  keep the output too: the heads' output norms need it

    Cost: that of `attention`, and one copy of query and key (and of what is kept). The other arguments are those of `attention`.
    """

def load_capture(path: str | os.PathLike) -> Capture:
    """
    Reads what `Capture.save` or the command line wrote. Raises IoError, or FormatError naming the file and the rule.
    """

class CellState(enum.IntEnum):
    """What a cell is, before its number: masked is not zero."""

    VALUE = 0
    """the number counts"""

    MASKED = 1
    """no visible pair in the cell"""

    OUTSIDE = 2
    """beyond the map's last row or column"""

    NON_FINITE = 3
    """some visible coefficient is NaN or infinite"""

class TopKey:
    """One of a row's largest coefficients."""

    @property
    def key(self) -> int: ...

    @property
    def probability(self) -> float: ...

    @property
    def log2(self) -> float: ...

    def __repr__(self) -> str: ...

class Coefficient:
    """
    One coefficient: its probability, exact log2, and whether it is visible.
    """

    @property
    def probability(self) -> float: ...

    @property
    def log2(self) -> float: ...

    @property
    def state(self) -> CellState: ...

class Tile:
    """A rectangle of a map, in cells [height, width]."""

    @property
    def rows(self) -> tuple[int, int]: ...

    @property
    def keys(self) -> tuple[int, int]: ...

    @property
    def height(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def log2(self) -> numpy.ndarray:
        """log2 of the pooled number, float32"""

    @property
    def state(self) -> numpy.ndarray:
        """CellState numbers, uint8"""

    @property
    def max_log2(self) -> numpy.ndarray:
        """the cell's largest coefficient, whatever the pooling"""

    @property
    def max_row(self) -> numpy.ndarray:
        """where it is; -1 when there is none"""

    @property
    def max_key(self) -> numpy.ndarray: ...

class AttentionMap:
    """
    The maps of one batch entry of a capture, [query_len, key_len] for each query head: coefficients that nobody stored,
    recomputed when somebody asks, with the bits of the call. Row i = query, column j = key. Copies nothing of the capture. A
    notebook shows all heads as a picture.
    """

    def __init__(self, capture: Capture, batch: int = 0) -> None:
        """
        Raises InvalidArgument for an inconsistent capture or a batch entry that is not there.
        """

    @property
    def num_heads(self) -> int: ...

    @property
    def query_len(self) -> int: ...

    @property
    def key_len(self) -> int: ...

    @property
    def query_tokens(self) -> list[str]:
        """labels of this entry's rows, or empty"""

    @property
    def key_tokens(self) -> list[str]:
        """labels of this entry's keys, or empty"""

    def visible(self, head: int, i: int, j: int) -> bool:
        """Whether row i may see key j."""

    def visible_keys(self, head: int, i: int) -> int:
        """Number of keys that row i sees."""

    def at(self, head: int, i: int, j: int) -> Coefficient:
        """One coefficient with its logarithm and state; some microseconds."""

    def probability(self, head: int, i: int, j: int) -> float:
        """One coefficient."""

    def row(self, head: int, i: int) -> numpy.ndarray:
        """A row's coefficients, [key_len] float32, 0 where not visible."""

    def top(self, head: int, i: int, k: int = 5) -> list[TopKey]:
        """The k largest of a row, largest first (fewer when fewer are visible)."""

    def tile(self, head: int, *, rows: tuple[int, int] | None = None, keys: tuple[int, int] | None = None, height: int | None = None, width: int | None = None, pooling: str = 'max', progress: Callable[[float], bool | None] | None = None) -> Tile:
        """
        Any rectangle at any size: rows and keys [begin, end), None for all, in height x width cells, None for at most 256.

        pooling   "max", "mean" (over the visible pairs of a cell) or "mass" (summed over keys, averaged over rows)
        progress  called with the share done, 0 … 1; False ends the work (Cancelled)

        2 · visible pairs · head_dim operations on all threads; memory for the cells alone.
        """

    def picture(self, head: int | None = None, *, rows: tuple[int, int] | None = None, keys: tuple[int, int] | None = None, pooling: str = 'max', scale: str = 'log', domain: tuple[float, float] | None = None, size: int | None = None, progress: Callable[[float], bool | None] | None = None) -> bytes:
        """
        A PNG file's bytes: one head as `multihead map` draws it, or all heads (None) side by side on one scale.

        rows, keys  [begin, end), None for all
        pooling     what a cell of many coefficients shows: "max", "mean" (over visible pairs) or "mass" (summed over keys, averaged
                    over rows)
        scale       "linear" (p), "log" (log2 p) or "lift" (log2 of p times the number of visible keys: 0 where attention is uniform)
        domain      (low, high): numbers of the scale that get colours of their own; None: (0, 1) for "linear", else from the values
        size        pixels and most cells of a map's longer side, 16 to 8192; None: 768, with all heads less for each
        progress    called with the share done, 0 … 1; False ends the work (Cancelled)

        A map larger than `size` is pooled into square cells, exactly. Tokens label the axes where they are known and fit; masked cells
        are hatched, never a colour. The same map gives the same bytes. 2 · visible pairs · head_dim operations a head, on all threads;
        memory for the cells alone. Raises ValueError for a head, part, scale or size that is not there, by the argument's name.
        """

class Measured:
    """
    A number, and what uniform attention over the same visible keys would give.
    """

    @property
    def value(self) -> float: ...

    @property
    def uniform(self) -> float: ...

    def __float__(self) -> float: ...

    def __repr__(self) -> str: ...

class HeadStatistics:
    """
    What one head does over one batch entry: per row (row_…, [query_len]), per key, and as a whole.
    """

    @property
    def head(self) -> int: ...

    @property
    def live_rows(self) -> int:
        """rows that see a key; means are over them"""

    @property
    def entropy(self) -> Measured:
        """mean, nats"""

    @property
    def normalized_entropy(self) -> Measured:
        """mean of entropy / ln V(i); uniform: 1"""

    @property
    def confidence(self) -> Measured:
        """mean of the rows' largest (Voita et al. 2019)"""

    @property
    def confidence_without_first(self) -> list[Measured]:
        """… without the first 1 … 4 keys"""

    @property
    def effective_keys(self) -> Measured: ...

    @property
    def mean_distance(self) -> Measured: ...

    @property
    def row_mass_mean(self) -> Measured: ...

    @property
    def squares(self) -> float:
        """sum of p² over all pairs"""

    @property
    def max_score(self) -> float:
        """over all rows"""

    @property
    def sink_mass(self) -> list[Measured]:
        """mean mass on the first 1 … 4 keys (Xiao et al. 2023)"""

    @property
    def offset_mass(self) -> list[Measured]:
        """mean mass at each of the asked distances"""

    @property
    def sink_alpha(self) -> Measured:
        """received by key 0 / rows that see it (Gu et al. 2024)"""

    @property
    def is_sink_head(self) -> bool:
        """sink_alpha above their threshold, 0.3"""

    @property
    def has_tokens(self) -> bool: ...

    @property
    def duplicate_mass(self) -> Measured:
        """mean mass on earlier keys that carry the row's own token"""

    @property
    def induction_mass(self) -> Measured:
        """mean mass on keys behind which the row's token stands"""

    @property
    def has_values(self) -> bool: ...

    @property
    def value_weighted_mass(self) -> Measured: ...

    @property
    def value_weighted_sink(self) -> list[Measured]: ...

    @property
    def has_output(self) -> bool: ...

    @property
    def output_norm(self) -> float: ...

    def __repr__(self) -> str: ...

    @property
    def row_visible(self) -> numpy.ndarray:
        """keys that each row sees, V(i)"""

    @property
    def row_entropy(self) -> numpy.ndarray:
        """nats, 0 … ln V(i)"""

    @property
    def row_max_probability(self) -> numpy.ndarray: ...

    @property
    def row_effective_keys(self) -> numpy.ndarray:
        """(sum p)² / sum p², 1 … V(i)"""

    @property
    def row_mean_distance(self) -> numpy.ndarray:
        """sum p |d|"""

    @property
    def row_max_score(self) -> numpy.ndarray:
        """before lse"""

    @property
    def row_mass(self) -> numpy.ndarray:
        """sum p: 1, less with a sink logit"""

    @property
    def received(self) -> numpy.ndarray:
        """attention received, [key_len]"""

    @property
    def received_uniform(self) -> numpy.ndarray: ...

    @property
    def seen_by(self) -> numpy.ndarray:
        """rows that see each key"""

    @property
    def first_distance(self) -> int:
        """the distance of entry 0 of the three below"""

    @property
    def distance_mass(self) -> numpy.ndarray:
        """sum of p at a distance"""

    @property
    def distance_pairs(self) -> numpy.ndarray:
        """visible pairs at that distance"""

    @property
    def distance_uniform(self) -> numpy.ndarray: ...

    @property
    def histogram_pairs(self) -> numpy.ndarray:
        """pairs with b/2 <= -log2 p < (b + 1)/2"""

    @property
    def histogram_mass(self) -> numpy.ndarray: ...

    @property
    def value_norms(self) -> numpy.ndarray:
        """‖v_j W_O‖, [key_len]"""

def statistics(map: AttentionMap, *, heads: Iterable[int] | None = None, offsets: Iterable[int] | None = None, columns: bool = True, distance_profile: bool = True, histogram: bool = True, tokens: bool = True, values: bool = True, baselines: bool = True, progress: Callable[[float], bool | None] | None = None) -> list[HeadStatistics]:
    """
    Statistics of some heads (None: all), streamed over coefficients that are recomputed and never stored.

    offsets           distances whose mass is told; None: 0 (the token itself) and 1 (the previous one)
    columns           attention received by each key
    distance_profile  mass at every distance
    histogram         of -log2 p (more than doubles the work)
    tokens, values    what needs token labels or kept values, where the capture has them
    baselines         what uniform attention would give
    progress          called with the share done, 0 … 1; False ends the work (Cancelled)

    2 · visible pairs · head_dim operations a head, on all threads; memory O((query_len + key_len) · head_dim).
    """

class ForwardStatistics:
    """
    What a forward pass tells about its own rows: arrays [batch, num_heads, query_len], float32, of the query's kind; 0 for a row that sees no key.
    """

    @property
    def entropy(self) -> Any:
        """-sum p ln p, nats, 0 … ln V(i)"""

    @property
    def max_probability(self) -> Any: ...

    @property
    def effective_keys(self) -> Any:
        """(sum p)² / sum p², 1 … V(i)"""

    @property
    def mean_distance(self) -> Any:
        """sum p |d|, d the distance back from the row's position to the key"""

def attention_with_statistics(query: Array, key: Array, value: Array, *, out: Array | None = None, return_lse: bool = False, scale: float | None = None, softcap: float | None = None, causal: bool = False, query_offsets: int | Iterable[int] | None = None, top_left: bool = False, window: tuple[int | None, int | None] | None = None, key_lengths: Iterable[int] | None = None, mask: Array | None = None, attention_bias: Array | None = None, alibi_slopes: Iterable[float] | None = None, sinks: Iterable[float] | None = None, packed: tuple[Iterable[int], Iterable[int]] | None = None, dropout: tuple[float, int] | None = None) -> Any:
    """
    (output, ForwardStatistics), or (output, lse, ForwardStatistics) with return_lse: `attention`, with its bits, its arguments
    and its errors, and statistics of its rows that ride along. V(i) is the number of keys that row i sees.

    Cost: `attention` and a few additions a coefficient, where `statistics` computes all scores again. Sums are float32, over chunks
    of keys: they agree with those of `statistics` to rounding. What the numbers mean: Clark et al. 2019 (1906.04341), Voita et al.
    2019 (1905.09418), Vig & Belinkov 2019 (1906.04284).
    """

class HeadSimilarity:
    """How alike the maps of some heads are: see `head_similarity`."""

    @property
    def heads(self) -> list[int]:
        """which heads; places below count in this list"""

    @property
    def gram(self) -> numpy.ndarray:
        """
        [heads, heads] float64, symmetric: sum of p_a p_b over all pairs of query and key
        """

    def cosine(self, a: int, b: int) -> float:
        """
        gram[a, b] / sqrt(gram[a, a] gram[b, b]): 1 for equal maps, 0 when a map is empty. ValueError for a place that is not there.
        """

    def __repr__(self) -> str: ...

def head_similarity(map: AttentionMap, *, heads: Iterable[int] | None = None, progress: Callable[[float], bool | None] | None = None) -> HeadSimilarity:
    """
    How alike the maps of some heads (None: all) are, over one batch entry: inner products over all coefficients.

    heads     in the order of the result
    progress  called with the share done, 0 … 1; False ends the work (Cancelled)

    One sweep over all heads at once: heads · 2 · visible pairs · head_dim + heads² · pairs operations, on all threads; no coefficient
    is stored. The diagonal is `HeadStatistics.squares`. Raises ValueError for a head that is not there.
    """

class HeadKind(enum.Enum):
    """
    What a head looks like on one text: where it reads, not what it is for. Excess: of the mass over even attention's.
    """

    PREVIOUS = 0
    """on the key one position before: excess at least 0.5"""

    SELF = 1
    """on the row's own key: excess at least 0.5"""

    NEXT = 2
    """on the key one position behind: excess at least 0.5"""

    OFFSET = 3
    """
    on the keys at another distance, always the same one: excess at least 0.5
    """

    SINK = 4
    """on the first key of the sequence: excess at least 0.3"""

    INDUCTION = 5
    """on keys behind an earlier copy of the row's token: excess at least 0.3"""

    DUPLICATE = 6
    """on earlier copies of the row's token: excess at least 0.3"""

    SEPARATOR = 7
    """on tokens of spaces and punctuation alone: excess at least 0.5"""

    LOCAL = 8
    """none of the above, and on keys at most 8 away: excess at least 0.5"""

    BROAD = 9
    """none of the above, and normalised entropy at least 0.85"""

    MIXED = 10
    """none of the above: the keys depend on the text, or on several of these"""

    NONE = 11
    """no row has a choice, or a number is not finite"""

class HeadLook:
    """A HeadKind and what it rests on. str() says it in a word or three."""

    @property
    def kind(self) -> HeadKind: ...

    @property
    def measured(self) -> Measured:
        """the mass of the kind; of BROAD and MIXED the normalised entropy"""

    @property
    def local_mass(self) -> Measured:
        """on keys at most 8 away"""

    @property
    def separator_mass(self) -> Measured:
        """on tokens of spaces and punctuation alone; 0 without tokens"""

    @property
    def distance(self) -> int:
        """of OFFSET: how far back; negative: ahead"""

    @property
    def excess(self) -> float:
        """
        (mass - uniform) / (1 - uniform) of `measured`; of BROAD, MIXED and NONE 0
        """

    @property
    def interest(self) -> float:
        """how much there is to see; larger is more; -1 of NONE"""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

def look_of(head: HeadStatistics, key_tokens: Sequence[str] = ()) -> HeadLook:
    """
    The kind of a head, from its `statistics`: the largest excess over even attention that reaches its threshold.

    key_tokens  the map's, without which no head is SEPARATOR: one for each key

    What `statistics` was told to leave out is not considered. Raises InvalidArgument for another number of tokens.
    """

def most_interesting(looks: Sequence[HeadLook]) -> int:
    """
    Index of the one with the most interest, the first among equals; -1 of an empty list.
    """

class MultiHeadAttention:
    """
    The multi-head attention layer (Vaswani et al. 2017, §3.2.2): project, split heads, attend, concatenate, project.

    Weights are converted to float32 and packed once. Calls may run concurrently.
    """

    def __init__(self, config: LayerConfig, weights: Mapping[str, Array]) -> None:
        """
        weights: arrays by name, as PyTorch's Linear holds them ([out, in], y = x Wᵀ + b); heads are major in the rows of query, key
        and value weights and in the columns of the output weight. Copied.

        query_weight  [num_heads * head_dim, model_dim]         query_bias, key_bias, value_bias, output_bias   [out] of each
        key_weight    [num_kv_heads * head_dim, key_input_dim]  query_norm, key_norm (…_bias)                   see QueryKeyNorm
        value_weight  [num_kv_heads * value_dim, value_input_dim]   sinks, alibi_slopes                         [num_heads]
        output_weight [output_dim, num_heads * value_dim]       relative_bias                                   [buckets, num_heads]

        Raises InvalidArgument when a shape does not fit the configuration, or a weight is missing or has no counterpart in it.
        """

    def forward(self, input: Array, key_input: Array | None = None, value_input: Array | None = None, *, cache: KvCache | None = None, query_offset: int | None = None, key_lengths: Iterable[int] | None = None, mask: Array | None = None, attention_bias: Array | None = None) -> Any:
        """
        input [batch, length, model_dim] -> [batch, length, output_dim], of the input's kind and dtype.

        key_input       [batch, key_len, key_input_dim]: cross attention; value_input too when values come from elsewhere
        cache           keys and values of `input` are appended to it, then its positions attend; a KvCache of this layer's shape
        query_offset    absolute position of the first query; None: 0
        key_lengths     valid keys of each batch entry
        mask, attention_bias   as for `attention`

        The GIL is released. Rows have the same bits for any number of threads, any batch neighbours and any cut into calls.
        """

    def __call__(self, input: Array, key_input: Array | None = None, value_input: Array | None = None, *, cache: KvCache | None = None, query_offset: int | None = None, key_lengths: Iterable[int] | None = None, mask: Array | None = None, attention_bias: Array | None = None) -> Any:
        """forward."""

    def capture(self, input: Array, key_input: Array | None = None, value_input: Array | None = None, *, cache: KvCache | None = None, query_offset: int | None = None, key_lengths: Iterable[int] | None = None, mask: Array | None = None, attention_bias: Array | None = None, values: bool = False) -> tuple[Any, Capture]:
        """
        (output, capture): `forward`, with its bits, and what it takes to look at its coefficients; values: keep values and output.
        """

    @property
    def config(self) -> LayerConfig:
        """resolved: no zeros left"""

class Preset:
    """A named configuration."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def config(self) -> LayerConfig: ...

    @property
    def default_length(self) -> int: ...

def presets() -> list[Preset]:
    """Named configurations, with reproducible weights and inputs."""

def find_preset(name: str) -> Preset:
    """One of them by name. Raises InvalidArgument that lists the names."""

def preset_weights(preset: Preset, seed: int = 0) -> dict[str, numpy.ndarray]:
    """
    Reproducible weights: uniform in ±sqrt(3 / fan_in); the lab preset's are identities.
    """

def preset_input(preset: Preset, length: int, seed: int = 0) -> numpy.ndarray:
    """
    Input [length, model_dim] float32, standard normal; the lab preset's own matrix at its default length.
    """

class FoundLayer:
    """One attention layer found in a checkpoint."""

    @property
    def family(self) -> str:
        """"llama", "bert", "gpt2" …"""

    @property
    def name(self) -> str:
        """tensor prefix, e.g. "model.layers.0.self_attn\""""

    @property
    def role(self) -> str:
        """"self" or "cross\""""

    @property
    def config(self) -> LayerConfig: ...

    @property
    def has_bias(self) -> bool: ...

    @property
    def positions(self) -> str:
        """how positions enter, for people"""

    def __repr__(self) -> str: ...

class Checkpoint:
    """The attention layers of a checkpoint; see load_checkpoint."""

    @property
    def layers(self) -> list[FoundLayer]:
        """All attention layers, in order of depth."""

    def __len__(self) -> int: ...

    def load(self, layer: int) -> MultiHeadAttention:
        """
        Layer number `layer`, ready to run. Raises InvalidArgument for one that is not there, IoError, FormatError.
        """

    def load_weights(self, layer: int) -> dict[str, numpy.ndarray]:
        """Its weights by name, in the file's element types."""

def load_checkpoint(path: str | os.PathLike) -> Checkpoint:
    """
    Opens a checkpoint folder (config.json beside *.safetensors) or a .safetensors file, and finds its attention layers.
    Reads headers only. Raises IoError, or FormatError that shows what was found when no known family fits.
    """
