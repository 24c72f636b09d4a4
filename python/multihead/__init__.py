"""Exact multi-head attention on CPUs, every coefficient observable without storing the matrix.

    import numpy, multihead
    query, key, value = numpy.random.default_rng(0).standard_normal((3, 1, 8, 100, 64), dtype=numpy.float32)
    output, seen = multihead.capture(query, key, value, causal=True)       # [batch, num_heads, length, head_dim]
    print(multihead.AttentionMap(seen).top(head=0, i=99, k=3))             # where the last query of head 0 looks

Arrays are NumPy's, PyTorch's CPU tensors, or anything with the buffer protocol or DLPack; they are read where they lie, with any
strides, in float32, float16 or bfloat16. Results are of the query's kind and dtype. Calls release the GIL and may come from many
threads. multihead.torch and multihead.transformers put it under PyTorch models.
"""
from ._core import (
    AttentionGradients as AttentionGradients,
    AttentionMap as AttentionMap,
    AttentionPlan as AttentionPlan,
    Cancelled as Cancelled,
    Capture as Capture,
    CellState as CellState,
    Checkpoint as Checkpoint,
    Coefficient as Coefficient,
    Error as Error,
    FormatError as FormatError,
    ForwardStatistics as ForwardStatistics,
    FoundLayer as FoundLayer,
    HeadKind as HeadKind,
    HeadLook as HeadLook,
    HeadSimilarity as HeadSimilarity,
    HeadStatistics as HeadStatistics,
    InvalidArgument as InvalidArgument,
    IoError as IoError,
    KvCache as KvCache,
    LayerConfig as LayerConfig,
    LayerDescription as LayerDescription,
    LayerStep as LayerStep,
    LinearRotaryScaling as LinearRotaryScaling,
    Llama3RotaryScaling as Llama3RotaryScaling,
    Measured as Measured,
    MultiHeadAttention as MultiHeadAttention,
    Preset as Preset,
    QueryKeyNorm as QueryKeyNorm,
    QueryKeyNormKind as QueryKeyNormKind,
    RelativeBias as RelativeBias,
    Rotary as Rotary,
    RotaryPairing as RotaryPairing,
    Tile as Tile,
    TopKey as TopKey,
    YarnRotaryScaling as YarnRotaryScaling,
    active_target as active_target,
    alibi_slopes as alibi_slopes,
    attention as attention,
    attention_backward as attention_backward,
    attention_probabilities as attention_probabilities,
    attention_with_statistics as attention_with_statistics,
    capture as capture,
    describe as describe,
    find_preset as find_preset,
    force_target as force_target,
    head_similarity as head_similarity,
    last_keys as last_keys,
    load_capture as load_capture,
    load_checkpoint as load_checkpoint,
    look_of as look_of,
    merge as merge,
    most_interesting as most_interesting,
    num_threads as num_threads,
    plan as plan,
    preset_input as preset_input,
    preset_weights as preset_weights,
    presets as presets,
    reference_attention as reference_attention,
    set_num_threads as set_num_threads,
    statistics as statistics,
    targets as targets,
    version as version,
)
from ._lab import Lab as Lab, lab as lab

__version__ = version()


def __getattr__(name: str):
    """`observe` is multihead.transformers', loaded when somebody asks for it: transformers takes seconds."""
    if name == "observe":
        from .transformers import observe
        return observe
    raise AttributeError(f"module 'multihead' has no attribute '{name}'")
