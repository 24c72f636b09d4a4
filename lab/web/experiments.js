// The seventeen things that people believe about multi-head attention, each as problems for the engine and a check of its answers.
// DOM-free. trials(presets): the problems to compare, the last one is the point; check(answers): {holds, measured}: `holds` when
// the engine's numbers refute the belief, `measured` what the page says about them.

const TINY = 2e-5;

const clone = (value) => structuredClone(value);
const change = (problem, patch) => ({...clone(problem), ...patch});
const zeroColumn = (matrix, column) => matrix.map((row) => row.map((value, j) => (j === column ? 0 : value)));
const largest = (a, b) => Math.max(...a.flat().map((value, i) => Math.abs(value - b.flat()[i])));
const same = (a, b) => largest(a, b) < TINY;
const rowSums = (matrix) => matrix.map((row) => row.reduce((a, b) => a + b, 0));
const columnSums = (matrix) => matrix[0].map((_, j) => matrix.reduce((a, row) => a + row[j], 0));
const transposed = (matrix) => matrix[0].map((_, j) => matrix.map((row) => row[j]));
const norm = (matrix) => Math.hypot(...matrix.flat());
const swapped = (rows, a, b) => rows.map((row, i) => rows[i === a ? b : i === b ? a : i]);
const swapColumnBlocks = (matrix) => matrix.map((row) => [...row.slice(2), ...row.slice(0, 2)]);
const swapRowBlocks = (matrix) => [...matrix.slice(2), ...matrix.slice(0, 2)];
const entropy = (matrix) => matrix.map((row) => -row.reduce((a, p) => a + (p > 0 ? p * Math.log(p) : 0), 0)).reduce((a, b) => a + b, 0) / matrix.length;
const round = (value) => Number(value.toFixed(3));
const maps = (answer) => answer.heads.map((head) => head.probabilities);

const STACKED = [[0.5, 0, 0, 0], [0, 0.5, 0, 0], [0.5, 0, 0, 0], [0, 0.5, 0, 0]];

export const EXPERIMENTS = [
  {
    // Averaging is one particular W_O.
    trials: (p) => [p['two-heads'], change(p['two-heads'], {output_weight: STACKED})],
    check: ([plain, averaged]) => {
      const mean = averaged.heads[0].output.map((row, i) => row.map((value, j) => (value + averaged.heads[1].output[i][j]) / 2));
      const distance = largest(plain.output.map((row) => row.slice(0, 2)), mean);
      return {holds: same(averaged.output.map((row) => row.slice(0, 2)), mean) && averaged.findings.averaged && !plain.findings.averaged && distance > 0.1,
        measured: {distance: round(distance)}};
    },
  },
  {
    trials: (p) => [change(p.random, {num_heads: 1}), change(p.random, {num_heads: 4})],
    check: ([one, four]) => ({
      holds: one.counters.here.parameters === four.counters.here.parameters && four.counters.here.coefficients === 4 * one.counters.here.coefficients,
      measured: {parameters: one.counters.here.parameters, one: one.counters.here.coefficients, four: four.counters.here.coefficients}}),
  },
  {
    // Random weights: every column of X reaches every head.
    trials: (p) => [p.random, change(p.random, {query_weight: zeroColumn(p.random.query_weight, 0)}), change(p.random, {input: zeroColumn(p.random.input, 0)})],
    check: ([plain, weight, input]) => {
      const moved = (answer) => answer.heads.filter((head, h) => !same(head.probabilities, plain.heads[h].probabilities)).length;
      return {holds: moved(input) === 2 && moved(weight) === 1, measured: {input: moved(input), weight: moved(weight)}};
    },
  },
  {
    trials: (p) => [change(p['two-heads'], {compare_heads: 1}), change(p['two-heads'], {num_heads: 1})],
    check: ([two, one]) => ({
      holds: two.compare.identity.difference < TINY && !same(two.output, one.output) && same(two.compare.output, one.output) && same(two.query, one.query),
      measured: {two: round(two.heads[0].probabilities[0][2]), one: round(one.heads[0].probabilities[0][2])}}),
  },
  {
    trials: (p) => [change(p['two-heads'], {num_heads: 3, head_dim: 2, query_weight: wide(p['two-heads'].query_weight), key_weight: wide(p['two-heads'].key_weight),
      value_weight: wide(p['two-heads'].value_weight), output_weight: transposed(wide(p['two-heads'].query_weight))}), change(p['two-heads'], {num_heads: 3})],
    check: ([wider, refused]) => ({holds: /\b1, 2, 4\b/.test(refused.error ?? '') && wider.heads?.length === 3, measured: {message: refused.error}}),
  },
  {
    trials: (p) => [p['two-heads'], change(p['two-heads'], {scale: 0.5})],
    check: ([head, model]) => ({
      holds: Math.abs(head.scale - 1 / Math.sqrt(head.head_dim)) < 1e-6 && entropy(maps(model)[0]) > entropy(maps(head)[0]) + 0.05,
      measured: {head: round(entropy(maps(head)[0])), model: round(entropy(maps(model)[0]))}}),
  },
  {
    trials: (p) => [change(p['two-heads'], {mask: 'causal'}), change(p['two-heads'], {mask: 'after_softmax'})],
    check: ([before, after]) => ({
      holds: maps(before).every((map) => rowSums(map).every((sum) => Math.abs(sum - 1) < TINY)) && rowSums(maps(after)[0])[0] < 0.9,
      measured: {right: round(rowSums(maps(before)[0])[0]), wrong: round(rowSums(maps(after)[0])[0])}}),
  },
  {
    // Query i sees keys up to i; so the first sees itself, whatever W_Q says.
    trials: (p) => [change(p.random, {mask: 'causal'}), change(p.random, {mask: 'causal', query_weight: p.random.query_weight.map((row) => row.map((v) => -v))})],
    check: ([plain, other]) => ({
      holds: [plain, other].every((answer) => maps(answer).every((map) => map[0][0] === 1 && map.every((row, i) => row.every((v, j) => j <= i || v === 0)))) &&
        same([plain.concat[0]], [plain.value[0]]) && same([plain.output[0]], [other.output[0]]) && !same(plain.output, other.output),
      measured: {first: maps(plain)[0][0].map(round).join(', ')}}),
  },
  {
    trials: (p) => [p.random, change(p.random, {key_weight: p.random.key_weight.map((row) => row.map((v) => v / 2))}),
      change(p.random, {value_weight: p.random.value_weight.map((row) => row.map((v) => v + 1))})],
    check: ([plain, key, value]) => ({
      holds: same(maps(plain)[0], maps(value)[0]) && same(maps(plain)[1], maps(value)[1]) && !same(plain.output, value.output) && same(plain.value, key.value) && !same(maps(plain)[0], maps(key)[0]),
      measured: {moved: round(largest(maps(plain)[0], maps(value)[0])), key: round(largest(maps(plain)[0], maps(key)[0]))}}),
  },
  {
    trials: (p) => [p.random, change(p.random, {key_weight: p.random.query_weight})],
    check: ([, answer]) => ({
      holds: answer.heads.every((head) => same(head.scores, transposed(head.scores)) && rowSums(head.probabilities).every((sum) => Math.abs(sum - 1) < TINY)) &&
        answer.heads.some((head) => !same(head.probabilities, transposed(head.probabilities)) && columnSums(head.probabilities).some((sum) => Math.abs(sum - 1) > 0.05)),
      measured: {rows: rowSums(maps(answer)[0]).map(round).join(', '), columns: columnSums(maps(answer)[0]).map(round).join(', ')}}),
  },
  {
    // A copied head adds nothing that a larger W_O block of the first could not do.
    trials: (p) => [p.duplicate, change(p.duplicate, {output_weight: folded(p.duplicate.output_weight)})],
    check: ([copies, one]) => ({
      holds: copies.findings.equal_heads.length === 1 && same(copies.output, one.output) && norm(one.heads[1].contribution) === 0 && norm(copies.heads[1].contribution) > 0,
      measured: {two: round(norm(copies.heads[1].contribution)), none: round(norm(one.heads[1].contribution)), difference: round(largest(copies.output, one.output))}}),
  },
  {
    // W_V turns the first token's value into zeros.
    trials: (p) => [p['two-heads'], change(p['two-heads'], {value_weight: [[1, 0, 0, 0], [0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 1]]})],
    check: ([plain, silent]) => ({
      holds: same(maps(plain)[0], maps(silent)[0]) && norm([silent.value[0]]) === 0 && maps(silent)[0][0][0] === Math.max(...maps(silent)[0][0]) && !same(plain.output, silent.output),
      measured: {bright: round(maps(silent)[0][0][0]), carried: round(maps(silent)[0][0][0] * norm([silent.value[0]]))}}),
  },
  {
    // The same maps, the opposite output.
    trials: (p) => [p['two-heads'], change(p['two-heads'], {value_weight: p['two-heads'].value_weight.map((row) => row.map((v) => (v === 0 ? 0 : -v)))})],
    check: ([plain, opposite]) => ({
      holds: largest(maps(plain).flat(), maps(opposite).flat()) === 0 && same(plain.output, opposite.output.map((row) => row.map((v) => -v))) && norm(plain.output) > 1,
      measured: {one: round(plain.output[0][0]), other: round(opposite.output[0][0])}}),
  },
  {
    trials: (p) => [p.random, permuted(p.random, false), permuted(p.random, true)],
    check: ([plain, heads, both]) => ({holds: !same(plain.output, heads.output) && same(plain.output, both.output),
      measured: {heads: round(largest(plain.output, heads.output)), both: round(largest(plain.output, both.output))}}),
  },
  {
    // A constant feature of the keys lets W_Q add a number to all scores of one row, 5 of them to the first.
    trials: (p) => [change(p.random, constantFeature(p.random, 0)), change(p.random, constantFeature(p.random, 5))],
    check: ([plain, shifted]) => {
      const shift = shifted.heads[1].scores[0].map((score, j) => score - plain.heads[1].scores[0][j]);
      return {holds: shift.every((value) => Math.abs(value - 5) < 1e-3) && same(maps(plain)[1], maps(shifted)[1]),
        measured: {shift: shift.map(round).join(', '), moved: round(largest(maps(plain)[1], maps(shifted)[1]))}};
    },
  },
  {
    trials: (p) => [p.random, change(p.random, {mask: 'causal'}), change(p.random, {mask: 'causal', input: swapped(p.random.input, 0, 1)}),
      change(p.random, {input: swapped(p.random.input, 0, 1)})],
    check: ([plain, masked, maskedSwapped, plainSwapped]) => ({
      holds: same(swapped(plain.output, 0, 1), plainSwapped.output) && !same(swapped(masked.output, 0, 1), maskedSwapped.output),
      measured: {free: round(largest(swapped(plain.output, 0, 1), plainSwapped.output)), masked: round(largest(swapped(masked.output, 0, 1), maskedSwapped.output))}}),
  },
  {
    trials: (p) => [change(p.random, {num_heads: 1}), change(p.random, {num_heads: 4})],
    check: ([one, four]) => ({
      holds: one.counters.here.score_multiplications === four.counters.here.score_multiplications && four.counters.here.exponentials === 4 * one.counters.here.exponentials,
      measured: {multiplications: one.counters.here.score_multiplications, one: one.counters.here.exponentials, four: four.counters.here.exponentials}}),
  },
];

// [4, 4] -> [4, 6]: two more columns of an identity.
function wide(matrix) {
  return matrix.map((row, i) => [...row, i === 0 ? 1 : 0, i === 1 ? 1 : 0]);
}

// W_O with the second block moved onto the first.
function folded(weight) {
  return weight.map((row, i) => row.map((value, j) => (i < 2 ? value + weight[i + 2][j] : 0)));
}

function permuted(problem, outputToo) {
  const patch = {};
  for (const key of ['query_weight', 'key_weight', 'value_weight']) patch[key] = swapColumnBlocks(problem[key]);
  if (outputToo) patch.output_weight = swapRowBlocks(problem.output_weight);
  return change(problem, patch);
}

// X's last column is 1 for every token, and 1 reaches the last column of K from it alone: a query's last number is added to all
// its scores, times the scale. X's first column is 1 for the first token only.
function constantFeature(problem, shift) {
  const amount = shift * Math.SQRT2;
  return {
    input: problem.input.map((row, i) => [i === 0 ? 1 : 0, row[1], row[2], 1]),
    key_weight: problem.key_weight.map((row, i) => [...row.slice(0, 3), i === 3 ? 1 : 0]),
    query_weight: problem.query_weight.map((row, i) => [...row.slice(0, 3), i === 0 ? amount : 0]),
  };
}
