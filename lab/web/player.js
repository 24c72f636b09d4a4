// One row, one operation at a time; or one key at a time, as the fused kernel does it.
import * as store from './store.js';
import {button, el, select, toggle} from './dom.js';
import {fixed, short, t} from './i18n.js';
import {headLabel, subscript} from './trace.js';

const list = (values) => `(${values.map((value) => fixed(value)).join(', ')})`;

// The steps of row i in head h: {key, numbers, sources, table}. `key` names the texts.
function plainSteps(problem, answer, h, i) {
  const head = answer.heads[h];
  const d = answer.head_dim;
  const keys = answer.visible[i].map((yes, j) => (yes || problem.mask !== 'causal' ? j : -1)).filter((j) => j >= 0);
  const scores = keys.map((j) => head.scores[i][j]);
  const max = Math.max(...scores);
  const weights = scores.map((score) => Math.exp(score - max));
  const total = weights.reduce((a, b) => a + b, 0);
  const cells = (kind, values) => values.map((k) => `${kind}.${h}.${i}.${k}`);
  const q = `Q${subscript(h)}[${i + 1}]`;
  const all = head.products[i].map((_, j) => j);
  return [
    {key: 'query', numbers: `${q} = ${list(head.query[i])}`, sources: head.query[i].map((_, k) => `Q.${i}.${h * d + k}`)},
    {key: 'scores', numbers: all.map((j) => `${q} · K${subscript(h)}[${j + 1}] · ${fixed(answer.scale)} = ${fixed(head.products[i][j] * answer.scale)}`).join('\n'),
      sources: cells('score', all)},
    {key: 'mask', numbers: all.map((j) => `${t('player.key')} ${j + 1}: ${keys.includes(j) ? fixed(head.scores[i][j]) : t('masked')}`).join('\n'), sources: cells('score', keys)},
    {key: 'max', numbers: `m = max ${list(scores)} = ${fixed(max)}`, sources: cells('score', keys)},
    {key: 'exp', numbers: keys.map((j, n) => `exp(${fixed(scores[n])} − ${max < 0 ? `(${fixed(max)})` : fixed(max)}) = ${fixed(weights[n])}`).join('\n'), sources: cells('score', keys)},
    {key: 'sum', numbers: `l = ${weights.map((w) => fixed(w)).join(' + ')} = ${fixed(total)}`, sources: cells('score', keys)},
    {key: 'coefficients', numbers: keys.map((j, n) => `A${subscript(h)}[${i + 1}, ${j + 1}] = ${fixed(weights[n])} / ${fixed(total)} = ${fixed(head.probabilities[i][j])}`).join('\n'),
      sources: cells('prob', keys)},
    {key: 'values', numbers: keys.map((j) => `${fixed(head.probabilities[i][j])} · ${list(head.value[j])}`).join('\n+ ') + `\n= ${list(head.output[i])}`,
      sources: [...cells('prob', keys), ...cells('O', head.output[i].map((_, k) => k))]},
    {key: 'concat', numbers: `Concat[${i + 1}] = ${list(answer.concat[i])}`, sources: answer.concat[i].map((_, k) => `concat.${i}.${k}`)},
    {key: 'output', numbers: `Y[${i + 1}] = Concat[${i + 1}] · W_O = ${list(answer.output[i])}`, sources: answer.output[i].map((_, k) => `Y.${i}.${k}`)},
  ];
}

// One step a key, and the division at the end.
function onlineSteps(answer, h, i) {
  const head = answer.heads[h];
  const steps = (head.online[i] ?? []).map((step, n, all) => {
    const before = n > 0 ? all[n - 1] : null;
    return {key: n === 0 ? 'first' : step.rescale < 1 ? 'rescaled' : 'kept', values: {key: step.key + 1}, online: all.slice(0, n + 1),
      numbers: [`s = ${fixed(step.score)}`,
        `m = ${before ? `max(${fixed(before.max)}, ${fixed(step.score)})` : fixed(step.score)} = ${fixed(step.max)}`,
        `α = ${before ? `exp(${fixed(before.max)} − ${short(Number(step.max.toFixed(3)))})` : '0'} = ${fixed(step.rescale)}`,
        `l = ${before ? `${fixed(before.sum)} · ${fixed(step.rescale)} + ` : ''}${fixed(step.weight)} = ${fixed(step.sum)}`,
        `o = ${list(step.output)}`].join('\n'),
      sources: [`score.${h}.${i}.${step.key}`, `prob.${h}.${i}.${step.key}`]};
  });
  if (!steps.length) return steps;
  const last = head.online[i].at(-1);
  return [...steps, {key: 'finish', online: head.online[i], numbers: `O${subscript(h)}[${i + 1}] = o / l = ${list(last.output)} / ${fixed(last.sum)} = ${list(head.output[i])}\n` +
    `lse = m + ln l = ${fixed(head.lse[i])}`, sources: head.output[i].map((_, k) => `O.${h}.${i}.${k}`)}];
}

export class Player {
  /** mark(addresses): shows which cells a step is about. */
  constructor(mark) {
    this.mark = mark;
    this.stage = el('div', {class: 'player-stage', 'aria-live': 'polite'});
    this.controls = el('div', {class: 'controls-row'});
    this.node = el('section', {class: 'panel', id: 'player', 'aria-labelledby': 'player-title'},
      el('h2', {id: 'player-title', text: t('player.title')}), el('p', {class: 'hint', text: t('player.what')}), this.controls, this.stage);
  }

  update(state, problem, answer) {
    const head = Math.min(state.playHead, answer.num_heads - 1);
    const row = Math.min(state.playRow, answer.query.length - 1);
    const online = state.online && answer.heads[head].online.length > 0;
    const steps = online ? onlineSteps(answer, head, row) : plainSteps(problem, answer, head, row);
    const at = Math.min(state.playStep, steps.length - 1);
    this.showControls(state, answer, {head, row, at, online, count: steps.length});
    if (!state.play) {
      this.stage.replaceChildren();
      this.mark([]);
      return;
    }
    const step = steps[at];
    const words = (suffix) => (online ? t(`online.${step.key}${suffix}`, step.values) : t(`step.${step.key}${suffix}`, step.values));
    this.stage.replaceChildren(...[
      el('p', {class: 'player-place', text: t('player.place', {head: headLabel(head), row: row + 1, step: at + 1, steps: steps.length})}),
      el('h3', {text: words('')}),
      el('p', {text: words('.what')}),
      el('pre', {class: 'player-numbers', tabindex: '0', text: step.numbers}),
      step.online ? this.onlineTable(step.online) : null].filter(Boolean));
    this.mark(step.sources);
  }

  onlineTable(steps) {
    return el('table', {class: 'numbers'}, el('thead', {}, el('tr', {}, ['player.key', 's', 'm', 'α', 'l', 'o'].map((title) =>
      el('th', {scope: 'col', text: title.startsWith('player') ? t(title) : title})))),
      el('tbody', {}, steps.map((step) => el('tr', {}, el('th', {scope: 'row', text: String(step.key + 1)}),
        [step.score, step.max, step.rescale, step.sum].map((value) => el('td', {text: fixed(value)})), el('td', {text: list(step.output)})))));
  }

  showControls(state, answer, {head, row, at, online, count}) {
    const key = JSON.stringify([state.play, head, row, at, online, count, answer.num_heads, answer.query.length]);
    if (key === this.key) return;
    this.key = key;
    const focused = document.activeElement?.id;
    const go = (patch) => store.set({play: true, ...patch});
    const wanted = (to) => go({playStep: Math.max(0, Math.min(count - 1, to))});
    const scrub = el('input', {type: 'range', id: 'player-scrub', min: 0, max: count - 1, value: at, 'aria-label': t('player.scrub'),
      'aria-valuetext': t('player.place', {head: headLabel(head), row: row + 1, step: at + 1, steps: count})});
    scrub.addEventListener('input', () => wanted(scrub.valueAsNumber));
    this.controls.replaceChildren(
      el('div', {class: 'field'}, el('label', {for: 'player-head', text: t('head')}),
        select(answer.heads.map((_, h) => [String(h), headLabel(h)]), String(head), (h) => go({playHead: Number(h), playStep: 0}), {id: 'player-head'})),
      el('div', {class: 'field'}, el('label', {for: 'player-row', text: t('player.row')}),
        select(answer.query.map((_, i) => [String(i), String(i + 1)]), String(row), (i) => go({playRow: Number(i), playStep: 0}), {id: 'player-row'})),
      toggle(t('player.online'), online, (on) => go({online: on, playStep: 0}), {id: 'player-online', disabled: answer.heads[head].online.length === 0}),
      el('div', {class: 'buttons'},
        button(t('player.back'), () => wanted(at - 1), {id: 'player-back', disabled: at === 0}),
        button(state.play ? t('player.next') : t('player.start'), () => wanted(state.play ? at + 1 : 0), {id: 'player-next', class: 'primary', disabled: state.play && at === count - 1}),
        state.play ? button(t('player.close'), () => store.set({play: false, playStep: 0}), {id: 'player-close'}) : null),
      scrub);
    if (focused) document.getElementById(focused)?.focus();
  }
}
