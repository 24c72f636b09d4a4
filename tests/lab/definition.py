"""Multi-head attention by its definition, on lists, in Python's own doubles: what the lab's numbers are compared with."""
import math


def product(a, b):
    return [[sum(x * b[k][j] for k, x in enumerate(row)) for j in range(len(b[0]))] for row in a]


def transposed(a):
    return [list(column) for column in zip(*a)]


def columns(a, begin, end):
    return [row[begin:end] for row in a]


def largest_difference(a, b):
    assert len(a) == len(b) and all(len(x) == len(y) for x, y in zip(a, b))
    return max(abs(x - y) for row, other in zip(a, b) for x, y in zip(row, other))


def softmax(row, seen):
    top = max(score for score, see in zip(row, seen) if see)
    weights = [math.exp(score - top) if see else 0.0 for score, see in zip(row, seen)]
    return [weight / sum(weights) for weight in weights]


def attention(problem):
    """All stages of a problem as the server names them."""
    x, memory = problem["input"], problem["memory"] or problem["input"]
    heads = problem["num_heads"]
    query, key, value = (product(source, problem[f"{name}_weight"]) for source, name in ((x, "query"), (memory, "key"), (memory, "value")))
    width, value_width = len(query[0]) // heads, len(value[0]) // heads
    scale = problem["scale"] if problem["scale"] is not None else 1 / math.sqrt(width)
    causal, late = problem["mask"] == "causal", problem["mask"] == "after_softmax"
    stages = {"query": query, "key": key, "value": value, "heads": [], "scale": scale}
    for h in range(heads):
        q, k = columns(query, h * width, (h + 1) * width), columns(key, h * width, (h + 1) * width)
        v = columns(value, h * value_width, (h + 1) * value_width)
        scores = [[scale * s for s in row] for row in product(q, transposed(k))]
        shares = [softmax(row, [not causal or j <= i for j in range(len(row))]) for i, row in enumerate(scores)]
        if late:
            shares = [[p if j <= i else 0.0 for j, p in enumerate(row)] for i, row in enumerate(shares)]
        stages["heads"].append({"scores": scores, "probabilities": shares, "output": product(shares, v)})
    stages["concat"] = [sum((head["output"][i] for head in stages["heads"]), []) for i in range(len(x))]
    stages["output"] = product(stages["concat"], problem["output_weight"])
    return stages
