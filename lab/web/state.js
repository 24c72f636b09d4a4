// The page's one state, and its form in the URL: #v=1&key=value…, only what differs from the defaults.
// decode(encode(x)) equals x for every state; unknown keys and broken values are left out, so old and foreign links still open.

export const VERSION = 1;

const word = (values) => ({
  default: values[0],
  write: String,
  read: (text) => (values.includes(text) ? text : undefined),
});
const free = {default: '', write: encodeURIComponent, read: (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}};
const integer = (otherwise, min, max) => ({
  default: otherwise,
  write: String,
  read: (text) => (/^-?\d+$/.test(text) && Number(text) >= min && Number(text) <= max ? Number(text) : undefined),
});
const real = (otherwise) => ({
  default: otherwise,
  write: String,
  read: (text) => (text !== '' && Number.isFinite(Number(text)) ? Number(text) : undefined),
});
const flag = (otherwise = false) => ({
  default: otherwise,
  write: (value) => (value ? '1' : '0'),
  read: (text) => ({1: true, 0: false})[text],
});
// Rows by ";", numbers by ",". null: the preset's.
const matrix = {
  default: null,
  write: (rows) => rows.map((row) => row.join(',')).join(';'),
  read: (text) => {
    const rows = text.split(';').map((row) => row.split(',').map((cell) => (cell === '' ? NaN : Number(cell))));
    const regular = rows.every((row) => row.length === rows[0].length && row.every(Number.isFinite));
    return regular && rows.length <= 16 && rows[0].length <= 16 ? rows : undefined;
  },
};

export const ROOMS = ['lab', 'flow', 'figure', 'map'];
export const LAB_PRESETS = ['two-heads', 'random', 'identity', 'duplicate', 'cross'];

export const SCHEMA = {
  room: word(ROOMS),
  lang: word(['', 'en', 'zh', 'ru']),
  theme: word(['', 'light', 'dark']),
  // Lab. null and 0: the preset's.
  preset: word(LAB_PRESETS),
  seed: integer(1, 0, 1e9),
  n: integer(0, 0, 12),
  d: integer(0, 0, 16),
  h: integer(0, 0, 16),
  dh: integer(0, 0, 16),
  mask: word(['', 'none', 'causal', 'after_softmax']),
  scale: word(['', 'model']),
  cross: word(['', 'yes', 'no']),
  X: matrix, M: matrix, WQ: matrix, WK: matrix, WV: matrix, WO: matrix,
  compare: integer(0, 0, 16),
  exact: flag(),
  weighted: flag(),
  experiment: integer(0, 0, 17),
  trial: integer(0, 0, 4),
  // The player: of which head's row, which step; online: the fused kernel's way.
  play: flag(), playHead: integer(0, 0, 15), playRow: integer(0, 0, 11), playStep: integer(0, 0, 99), online: flag(),
  // Flow
  flow: word(['llama-7b', 'vaswani-base', 'custom']),
  S: integer(0, 0, 1e9),
  T: integer(0, 0, 1e9),
  fd: integer(4096, 1, 1e6), fh: integer(32, 1, 10000), fg: integer(0, 0, 10000), fw: integer(0, 0, 1e6),
  fcausal: flag(true), frotary: flag(false), fbias: flag(),
  // Figure
  figure: word(['lab', 'capture']),
  figureHead: integer(0, 0, 1e6), figureStep: integer(0, 0, 1e6),
  // Map
  capture: free, head: integer(-1, -1, 1e6), other: integer(-1, -1, 1e6),
  row: integer(-1, -1, 1e9), key: integer(-1, -1, 1e9),
  top: real(0), left: real(0), span: real(0),  // first row, first key, keys across; 0: the whole map
  pool: word(['max', 'mean', 'mass']),
  colour: word(['log', 'linear', 'lift']),
  low: real(-16), high: real(0),
  values: flag(), follow: flag(), hatch: flag(true),
  sort: word(['head', 'normalized_entropy', 'confidence', 'effective_keys', 'mean_distance', 'sink_mass', 'self_mass', 'previous_mass', 'max_score', 'output_norm']),
};

export function defaults() {
  return Object.fromEntries(Object.entries(SCHEMA).map(([key, type]) => [key, type.default]));
}

export function encode(state) {
  const parts = [`v=${VERSION}`];
  for (const [key, type] of Object.entries(SCHEMA)) {
    if (state[key] !== type.default && state[key] !== null) parts.push(`${key}=${type.write(state[key])}`);
  }
  return '#' + parts.join('&');
}

export function decode(hash) {
  const state = defaults();
  const parts = new Map(hash.replace(/^#/, '').split('&').map((part) => {
    const at = part.indexOf('=');
    return [part.slice(0, at), part.slice(at + 1)];
  }));
  if (parts.has('v') && parts.get('v') !== String(VERSION)) return state;
  for (const [key, type] of Object.entries(SCHEMA)) {
    const value = parts.has(key) ? type.read(parts.get(key)) : undefined;
    if (value !== undefined) state[key] = value;
  }
  return state;
}
