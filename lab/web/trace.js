// Where a number comes from: for a cell's address the formula, the same with its numbers, and the cells that it uses.
import {fixed, short, t} from './i18n.js';

/** Heads are numbered from 1, as in the equation. */
export const headLabel = (head) => String(head + 1);
export const subscript = (head) => headLabel(head).replace(/\d/g, (digit) => '₀₁₂₃₄₅₆₇₈₉'[digit]);
const at = (name, i, j) => `${name}[${i + 1}, ${j + 1}]`;

function term(a, b) {
  const left = short(Number(a.toFixed(3)));
  const right = short(Number(b.toFixed(3)));
  return `${left}·${right.startsWith('−') ? `(${right})` : right}`;
}

function sum(terms) {
  return terms.length <= 8 ? terms.join(' + ') : [...terms.slice(0, 6), '…', terms.at(-1)].join(' + ');
}

// sum over k of left[i][k] right[k][j]
function productTrace(title, i, j, left, right, leftCell, rightCell, value, leftName, rightName) {
  const width = left[i].length;
  const terms = Array.from({length: width}, (_, k) => term(left[i][k], right(k, j)));
  return {
    title,
    formula: `${title} = Σₖ ${leftName}[${i + 1}, k] · ${rightName}`,
    substituted: sum(terms),
    value,
    sources: Array.from({length: width}, (_, k) => [leftCell(k), rightCell(k)]).flat(),
  };
}

/** problem: what was computed; answer: the engine's stages. Undefined for addresses that are nobody's. */
export function trace(address, problem, answer) {
  const parts = address.split('.');
  const kind = parts[0];
  const [i, j] = parts.slice(-2).map(Number);
  const h = Number(parts[1]);
  const head = answer.heads[h];
  const memory = problem.memory ?? problem.input;
  const memoryCell = problem.memory ? 'M' : 'X';
  const name = problem.memory ? 'X′' : 'X';
  const d = answer.head_dim;
  switch (kind) {
    case 'X': case 'M': case 'WQ': case 'WK': case 'WV': case 'WO':
      return {title: at(kind === 'M' ? 'X′' : kind.replace(/W(.)/, 'W_$1'), i, j), formula: t('trace.given'), substituted: '', value: null, sources: []};
    case 'Q':
      return productTrace(at('Q', i, j), i, j, problem.input, (k) => problem.query_weight[k][j], (k) => `X.${i}.${k}`,
        (k) => `WQ.${k}.${j}`, answer.query[i][j], 'X', `W_Q[k, ${j + 1}]`);
    case 'K':
      return productTrace(at('K', i, j), i, j, memory, (k) => problem.key_weight[k][j], (k) => `${memoryCell}.${i}.${k}`,
        (k) => `WK.${k}.${j}`, answer.key[i][j], name, `W_K[k, ${j + 1}]`);
    case 'V':
      return productTrace(at('V', i, j), i, j, memory, (k) => problem.value_weight[k][j], (k) => `${memoryCell}.${i}.${k}`,
        (k) => `WV.${k}.${j}`, answer.value[i][j], name, `W_V[k, ${j + 1}]`);
    case 'score': {
      const traced = productTrace(at(`S${subscript(h)}`, i, j), i, j, head.query, (k) => head.key[j][k], (k) => `Q.${i}.${h * d + k}`,
        (k) => `K.${j}.${h * d + k}`, head.scores[i][j], `Q${subscript(h)}`, `K${subscript(h)}[${j + 1}, k]`);
      const root = Math.abs(answer.scale - 1 / Math.sqrt(d)) < 1e-6;
      traced.formula += root ? ' / √dₖ' : ' · scale';
      traced.substituted = `(${traced.substituted}) ${root ? `/ √${d}` : `· ${fixed(answer.scale)}`}`;
      return traced;
    }
    case 'prob':
      return probabilityTrace(h, i, j, problem, answer);
    case 'O':
      return productTrace(at(`O${subscript(h)}`, i, j), i, j, head.probabilities, (k) => head.value[k][j], (k) => `prob.${h}.${i}.${k}`,
        (k) => `V.${k}.${h * answer.value_dim + j}`, head.output[i][j], `A${subscript(h)}`, `V${subscript(h)}[k, ${j + 1}]`);
    case 'concat': {
      const from = Math.floor(j / answer.value_dim);
      const column = j % answer.value_dim;
      return {title: at('Concat', i, j), formula: `${at('Concat', i, j)} = ${at(`O${subscript(from)}`, i, column)}`, substituted: t('trace.copied'),
        value: answer.concat[i][j], sources: [`O.${from}.${i}.${column}`]};
    }
    case 'Y':
      return productTrace(at('Y', i, j), i, j, answer.concat, (k) => problem.output_weight[k][j], (k) => `concat.${i}.${k}`,
        (k) => `WO.${k}.${j}`, answer.output[i][j], 'Concat', `W_O[k, ${j + 1}]`);
    default:
      return undefined;
  }
}

function probabilityTrace(h, i, j, problem, answer) {
  const head = answer.heads[h];
  const title = at(`A${subscript(h)}`, i, j);
  const visible = answer.visible[i];
  if (!visible[j]) {
    return {title, formula: problem.mask === 'causal' ? t('trace.masked', {query: i + 1, key: j + 1}) : t('trace.zeroed'), substituted: '',
      value: head.probabilities[i][j], sources: []};
  }
  // The wrong way's softmax sees everything.
  const seen = problem.mask === 'causal' ? visible.map((yes, k) => (yes ? k : -1)).filter((k) => k >= 0) : visible.map((_, k) => k);
  const exponent = (k) => `exp(${short(Number(head.scores[i][k].toFixed(2)))})`;
  return {
    title,
    formula: `${title} = exp S${subscript(h)}[${i + 1}, ${j + 1}] / Σₖ exp S${subscript(h)}[${i + 1}, k]`,
    substituted: `${exponent(j)} / (${sum(seen.map(exponent))})`,
    value: head.probabilities[i][j],
    sources: seen.map((k) => `score.${h}.${i}.${k}`),
  };
}
