// Equations as MathML, with a configuration's numbers in them.
import {math} from './dom.js';

const mi = (text) => { const node = math('mi'); node.textContent = text; return node; };
const mn = (text) => { const node = math('mn'); node.textContent = text; return node; };
const mo = (text) => { const node = math('mo'); node.textContent = text; return node; };
const row = (...parts) => math('mrow', ...parts);
const sub = (a, b) => math('msub', typeof a === 'string' ? mi(a) : a, typeof b === 'string' ? mi(b) : b);
const sup = (a, b) => math('msup', a, b);
const prime = () => sup(mi('X'), mo('′'));
const power = (extents) => sup(mi('ℝ'), row(...extents.flatMap((extent, i) => (i ? [mo('×'), extent] : [extent]))));

function block(...parts) {
  const node = math('math', row(...parts));
  node.setAttribute('display', 'block');
  return node;
}

const dims = (value) => mn(String(value));

/** The layer's equations, with h, d and the widths of this configuration. */
export function flowEquation({config, query_len, key_len}) {
  const {num_heads: h, num_kv_heads: g, head_dim: d, value_dim: v, model_dim: model} = config;
  const cross = query_len !== key_len;
  const T = () => mi(cross ? 'T' : 'S');
  const input = () => (cross ? prime() : mi('X'));
  const group = h === g ? mi('i') : row(mo('⌊'), mi('i'), mo('/'), mn(String(h / g)), mo('⌋'));
  const key = () => sub('K', group.cloneNode(true));
  const transposed = math('msubsup', mi('K'), group.cloneNode(true), mo('⊤'));
  return [
    block(mi('Y'), mo('='), mi('Concat'), mo('('), sub('O', mn('1')), mo(','), mo('…'), mo(','), sub('O', mn(String(h))), mo(')'), sub('W', 'O')),
    block(sub('O', 'i'), mo('='), mi('softmax'), mo('('), math('mfrac', row(sub('Q', 'i'), transposed), math('msqrt', dims(d))),
      ...(config.causal ? [mo('+'), mi('M')] : []), mo(')'), sub('V', group.cloneNode(true))),
    block(mi('Q'), mo('='), mi('X'), sub('W', 'Q'), mo('∈'), power([mi('S'), dims(h * d)])),
    block(mi('K'), mo('='), input(), sub('W', 'K'), mo('∈'), power([T(), dims(g * d)])),
    block(mi('V'), mo('='), input(), sub('W', 'V'), mo('∈'), power([T(), dims(g * v)])),
    block(sub('Q', 'i'), mo('∈'), power([mi('S'), dims(d)]), mo(','), key(), mo('∈'), power([T(), dims(d)]), mo(','), sub('O', 'i'), mo('∈'), power([mi('S'), dims(v)]), mo(','), mi('Y'), mo('∈'), power([mi('S'), dims(model)])),
  ];
}
