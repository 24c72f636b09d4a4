// From the state to the problem that the engine computes. A matrix of the wrong size is cut, or continued as an identity.

const MATRICES = {X: 'input', M: 'memory', WQ: 'query_weight', WK: 'key_weight', WV: 'value_weight', WO: 'output_weight'};

const identityAt = (row, column, rows) => (column % rows === row ? 1 : 0);

/** rows x columns of a matrix; what it lacks comes from `beyond(row, column)`. */
export function fit(matrix, rows, columns, beyond = () => 0) {
  return Array.from({length: rows}, (_, row) =>
    Array.from({length: columns}, (_, column) => matrix[row]?.[column] ?? beyond(row, column)));
}

export const divisors = (number) => Array.from({length: number}, (_, i) => i + 1).filter((i) => number % i === 0);

/** The problem of a state. `presets`: by name. */
export function problemOf(state, presets) {
  const base = presets[state.preset];
  const crossing = state.cross === 'yes' || (state.cross === '' && base.memory !== null);
  const input = state.X ?? base.input;
  const d = state.d || input[0].length;
  const n = state.n || input.length;
  const heads = state.h || base.num_heads;
  const headDim = state.dh || base.head_dim;
  // Heads that do not divide the width are the engine's to refuse: until then the projections keep it.
  const width = headDim > 0 ? heads * headDim : d;
  const weight = (key, rows, columns) =>
    fit(state[key] ?? base[MATRICES[key]], rows, columns,
      (row, column) => (key === 'WO' ? identityAt(column, row, columns) : identityAt(row, column, rows)));
  const memory = crossing ? fit(state.M ?? base.memory ?? presets.cross.memory, (state.M ?? base.memory ?? presets.cross.memory).length, d)
    : null;
  return {
    num_heads: heads,
    head_dim: headDim,
    scale: state.scale === 'model' ? 1 / Math.sqrt(d) : base.scale,
    mask: state.mask || base.mask,
    input: fit(input, n, d),
    memory,
    query_weight: weight('WQ', d, width),
    key_weight: weight('WK', d, width),
    value_weight: weight('WV', d, width),
    output_weight: weight('WO', width, d),
  };
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** The state's keys that make it this problem, starting from a preset. */
export function stateOf(problem, preset, base) {
  const state = {preset, seed: 1, n: 0, d: 0, h: problem.num_heads, dh: problem.head_dim, mask: problem.mask,
    cross: problem.memory ? 'yes' : 'no',
    scale: problem.scale !== null ? 'model' : ''};
  for (const [key, member] of Object.entries(MATRICES)) {
    state[key] = problem[member] === null || same(problem[member], base[member]) ? null : problem[member];
  }
  return state;
}

export const NOTHING_EDITED = {n: 0, d: 0, h: 0, dh: 0, mask: '', scale: '', cross: '', X: null, M: null, WQ: null, WK: null,
  WV: null, WO: null, experiment: 0, trial: 0};
