"""The seventeen experiments' problems, judged by the definition alone: each function gets the stages of the trials, computed by
definition.attention (None for a problem that has no meaning), and says whether the belief is refuted."""
from definition import largest_difference as apart, transposed

TINY = 1e-9


def maps(stages):
    return [head["probabilities"] for head in stages["heads"]]


def moved(a, b):
    """Heads whose maps differ."""
    return sum(apart(x, y) > TINY for x, y in zip(maps(a), maps(b)))


def row_sums(matrix):
    return [sum(row) for row in matrix]


def swapped(rows):
    return [rows[1], rows[0], *rows[2:]]


def averaged(t, _):
    mean = [[sum(head["output"][i][k] for head in t[1]["heads"]) / 2 for k in range(2)] for i in range(3)]
    return apart([row[:2] for row in t[1]["output"]], mean) < TINY < apart([row[:2] for row in t[0]["output"]], mean)


def same_parameters(t, problems):
    count = [sum(len(p[f"{name}_weight"]) * len(p[f"{name}_weight"][0]) for name in ("query", "key", "value", "output")) for p in problems]
    return count[0] == count[1] and len(maps(t[1])) == 4 * len(maps(t[0]))


def whole_input(t, _):
    return moved(t[0], t[1]) == 1 and moved(t[0], t[2]) == 2


def not_a_reshape(t, _):
    scaled = [[2 ** -0.5 * sum(head["scores"][i][j] for head in t[0]["heads"]) for j in range(3)] for i in range(3)]
    return apart(scaled, t[1]["heads"][0]["scores"]) < TINY < apart(t[0]["output"], t[1]["output"])


def divisors_only(t, problems):
    return t[1] is None and problems[1]["num_heads"] == 3 and len(t[0]["heads"]) == 3


def head_width(t, _):
    flat = [max(max(row) for row in maps(stages)[0]) for stages in t]
    return abs(t[0]["scale"] - 2 ** -0.5) < TINY and flat[1] < flat[0] - 0.01


def before_softmax(t, _):
    return all(abs(s - 1) < TINY for m in maps(t[0]) for s in row_sums(m)) and row_sums(maps(t[1])[0])[0] < 0.9


def keys_up_to_me(t, _):
    return all(m[0] == [1, 0, 0] and m[1][2] == 0 for stages in t for m in maps(stages)) and t[0]["output"][0] == t[1]["output"][0] and apart(t[0]["output"], t[1]["output"]) > TINY


def values_alone(t, _):
    return moved(t[0], t[2]) == 0 and moved(t[0], t[1]) == 2 and t[0]["value"] == t[1]["value"] and apart(t[0]["output"], t[2]["output"]) > TINY


def rows_only(t, _):
    heads = t[1]["heads"]
    return all(apart(h["scores"], transposed(h["scores"])) < TINY for h in heads) and any(abs(s - 1) > 0.05 for h in heads for s in row_sums(transposed(h["probabilities"])))


def copies(t, problems):
    return moved(t[0], t[0]) == 0 and maps(t[0])[0] == maps(t[0])[1] and apart(t[0]["output"], t[1]["output"]) < TINY and not any(map(any, problems[1]["output_weight"][2:]))


def bright_and_silent(t, _):
    return moved(t[0], t[1]) == 0 and not any(t[1]["value"][0]) and maps(t[1])[0][0][0] == max(maps(t[1])[0][0]) and apart(t[0]["output"], t[1]["output"]) > TINY


def same_map_opposite_output(t, _):
    return moved(t[0], t[1]) == 0 and apart(t[0]["output"], [[-x for x in row] for row in t[1]["output"]]) < TINY and any(map(any, t[0]["output"]))


def order_and_blocks(t, _):
    return apart(t[0]["output"], t[2]["output"]) < TINY < apart(t[0]["output"], t[1]["output"])


def differences_only(t, _):
    shift = [b - a for a, b in zip(t[0]["heads"][1]["scores"][0], t[1]["heads"][1]["scores"][0])]
    return all(abs(s - 5) < 1e-6 for s in shift) and moved(t[0], t[1]) == 0


def no_order(t, _):
    return apart(swapped(t[0]["output"]), t[3]["output"]) < TINY < apart(swapped(t[1]["output"]), t[2]["output"])


def exponentials_grow(t, problems):
    products = [len(p["input"]) ** 2 * len(p["query_weight"][0]) for p in problems]
    exponentials = [sum(len(m) * len(m[0]) for m in maps(stages)) for stages in t]
    return products[0] == products[1] and exponentials[1] == 4 * exponentials[0]


JUDGES = [averaged, same_parameters, whole_input, not_a_reshape, divisors_only, head_width, before_softmax, keys_up_to_me, values_alone,
          rows_only, copies, bright_and_silent, same_map_opposite_output, order_and_blocks, differences_only, no_order, exponentials_grow]
