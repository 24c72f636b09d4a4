// The data-flow picture: X, three projections, the split into heads, the heads, the concatenation, the output projection.
import {svg} from './dom.js';
import {bytesText, number, t} from './i18n.js';

const WIDTH = 760;
const shapeText = (extents) => `(${extents.join(', ')})`;

function box({x, y, width, height = 46, title, lines = [], step, kind = '', hue = '', point}) {
  const group = svg('g', {class: `flow-box ${kind} ${hue}`, data: step ? {step} : {}},
    svg('rect', {x, y, width, height, rx: 7}),
    svg('text', {x: x + width / 2, y: y + (lines.length ? 19 : height / 2 + 5), class: 'flow-title'}, title),
    lines.map((line, i) => svg('text', {x: x + width / 2, y: y + 37 + 18 * i, class: 'flow-line'}, line)));
  if (step) {
    group.addEventListener('pointerenter', () => point(step));
    group.addEventListener('pointerleave', () => point(null));
  }
  return group;
}

const arrow = (x1, y1, x2, y2, hue = '') => svg('path', {class: `flow-arrow ${hue}`, d: `M${x1} ${y1}C${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2} ${x2} ${y2 - 6}`, 'marker-end': 'url(#flow-tip)'});
const note = (x, y, text, kind = '') => svg('text', {x, y, class: `flow-note ${kind}`}, text);

// Which heads are drawn: all when few, else the first, a middle one and the last.
function drawnHeads(count) {
  if (count <= 3) return Array.from({length: count}, (_, i) => i + 1);
  return [1, Math.ceil(count / 2), count];
}

/** description: of /api/describe. point(step or null): a step is pointed at. */
export function flowPicture(description, point) {
  const {config, query_len: n, key_len: m} = description;
  const {num_heads: h, num_kv_heads: g, head_dim: d, value_dim: v, model_dim: model} = config;
  const cross = n !== m;
  const S = 'S';
  const T = cross ? 'T' : 'S';
  const X = cross ? 'X′' : 'X';
  const steps = Object.fromEntries(description.steps.map((step) => [step.name, step]));
  const parts = [];
  const add = (...nodes) => parts.push(...nodes);
  const columns = [130, 380, 630];
  const kinds = [['query', 'Q', 'X', [S, h * d], [S, h, d], [h, S, d]], ['key', 'K', X, [T, g * d], [T, g, d], [g, T, d]], ['value', 'V', X, [T, g * v], [T, g, v], [g, T, v]]];

  add(box({x: 255, y: 14, width: 250, title: cross ? `X ${shapeText([S, model])}   X′ ${shapeText([T, model])}` : `X ${shapeText([S, model])}`, lines: [t('flow.step.input')], step: 'input', kind: 'stored', point}));
  kinds.forEach(([kind, letter, from, projected, split, heads], i) => {
    const x = columns[i];
    const hue = `hue-${i}`;
    add(arrow(340 + 40 * i, 60, x, 92, hue),
      box({x: x - 105, y: 92, width: 210, title: `${letter} = ${from} W_${letter}`, lines: [shapeText(projected)], step: `${kind} projection`, kind: 'stored', hue, point}),
      arrow(x, 138, x, 168, hue),
      box({x: x - 105, y: 168, width: 210, height: 64, title: t('flow.reshape'), lines: [`${shapeText(projected)} →`, `${shapeText(split)} → ${shapeText(heads)}`], step: `${kind} heads`, kind: 'not-stored', hue, point}));
  });

  const drawn = drawnHeads(h);
  const places = drawn.length === 1 ? [380] : drawn.length === 2 ? [230, 530] : columns;
  const top = 280;
  const lines = [`S = Q Kᵀ / √${d}`, ...(config.causal ? [t('flow.causal')] : []), t('flow.softmax'), `· V → ${shapeText([S, v])}`];
  const height = 34 + 18 * lines.length;
  add(note(WIDTH / 2, top - 14, t('flow.heads', {h: number(h)}), 'strong'));
  drawn.forEach((head, i) => {
    const x = places[i];
    columns.forEach((from, k) => add(svg('path', {class: `flow-thread hue-${k}`, d: `M${from} 232C${from} 258 ${x} 252 ${x} ${top}`})));
    const label = h === g ? t('flow.head', {i: head, d}) : t('flow.groupedHead', {i: head, d, g: Math.floor((head - 1) / (h / g)) + 1});
    add(box({x: x - 110, y: top, width: 220, height, title: label, lines, step: 'scores', kind: 'not-stored', hue: 'hue-7', point}),
      arrow(x, top + height, WIDTH / 2 + (x - WIDTH / 2) * 0.35, top + height + 42));
  });
  if (h > 3) for (const x of [255, 505]) add(note(x, top + height / 2, '…', 'strong'));

  const y = top + height + 42;
  add(box({x: 200, y, width: 360, title: t('flow.concat'), lines: [`${number(h)} × ${shapeText([S, v])} → ${shapeText([S, h * v])}`], step: 'concatenation', kind: 'stored', point}),
    arrow(380, y + 46, 380, y + 78),
    box({x: 200, y: y + 78, width: 360, title: 'Y = Concat · W_O', lines: [`${shapeText([S, h * v])} → ${shapeText([S, model])}`], step: 'output projection', kind: 'stored', point}),
    note(380, y + 152, t('flow.neverStored', {shape: shapeText([h, n, m].map((extent) => number(extent))), bytes: bytesText(description.bytes_not_stored)}), 'never'),
    note(380, y + 172, `S = ${number(n)}${cross ? `, T = ${number(m)}` : ''}`));
  return svg('svg', {viewBox: `0 0 ${WIDTH} ${y + 186}`, role: 'img', class: 'flow-svg', 'aria-label': t('flow.picture', {h, d, model})},
    svg('defs', {}, svg('marker', {id: 'flow-tip', viewBox: '0 0 8 8', refX: 4, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto'}, svg('path', {d: 'M0 0L8 4L0 8z', class: 'flow-tip'}))), parts);
}
