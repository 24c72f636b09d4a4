// Two configurations on the same projections: every head against the single head, and the identity between their scores.
import * as store from './store.js';
import {el, name, select} from './dom.js';
import {fixed, t} from './i18n.js';
import {divisors} from './problem.js';
import {Matrix} from './matrix.js';
import {headLabel} from './trace.js';

function shown(id, symbol, label, values, options, exact, visible) {
  const matrix = new Matrix({id, symbol, label, ...options});
  const hidden = visible ? values.map((row, i) => row.map((value, j) => (visible[i][j] ? value : null))) : values;
  matrix.update(hidden, {exact});
  return matrix.node;
}

export class Compare {
  constructor() {
    this.node = el('section', {class: 'block', id: 'compare-room', 'aria-labelledby': 'compare-title', hidden: true});
  }

  update(state, problem, answer) {
    const other = answer.compare;
    this.node.hidden = !state.compare || !other;
    if (this.node.hidden) return;
    const key = JSON.stringify([answer, state.exact, document.documentElement.lang]);
    if (key === this.key) return;
    this.key = key;
    const visible = problem.mask === 'causal' ? answer.visible : null;
    const map = {shaded: true, rowLabel: (i) => t('label.query', {i: i + 1}), columnLabel: (j) => t('label.key', {j: j + 1})};
    const side = (title, stages, prefix) => el('div', {class: 'side-by'}, el('h3', {text: title}),
      stages.heads.map((head, h) => el('div', {class: `flow-row hue-${stages.num_heads === 1 ? 7 : h % 8}`},
        shown(`${prefix}.prob.${h}`, name('A', stages.num_heads === 1 ? t('compare.one') : headLabel(h)), t('stage.probabilities'), head.probabilities, map, state.exact, visible),
        shown(`${prefix}.O.${h}`, name('O', stages.num_heads === 1 ? t('compare.one') : headLabel(h)), t('matrix.O'), head.output, {}, state.exact))),
      el('div', {class: 'flow-row'}, shown(`${prefix}.Y`, name('Y'), t('stage.output'), stages.output, {}, state.exact)));
    const width = answer.num_heads * answer.head_dim;
    this.node.replaceChildren(...[
      el('h2', {id: 'compare-title', text: t('compare.title')}),
      el('p', {text: t('compare.what')}),
      el('div', {class: 'field inline'}, el('label', {for: 'compare-heads', text: t('compare.with')}),
        select(divisors(width).map((h) => [String(h), String(h)]), String(state.compare), (value) => store.set({compare: Number(value)}), {id: 'compare-heads'})),
      el('div', {class: 'side-by-side'},
        side(t('compare.heads', {h: answer.num_heads, d: answer.head_dim}), answer, 'here'),
        side(t('compare.heads', {h: other.num_heads, d: other.head_dim}), other, 'there')),
      answer.num_heads === other.num_heads ? el('p', {class: 'notice', text: t('compare.same')}) : null,
      this.identity(answer, other, state.exact),
      this.difference(answer, other)].filter(Boolean));
  }

  identity(answer, other, exact) {
    if (!other.identity || answer.num_heads === 1) return null;
    const {factor, left, right, difference} = other.identity;
    return el('div', {class: 'identity', id: 'identity'}, el('h3', {text: t('compare.identity')}),
      el('p', {class: 'equation-line'}, name('S', t('compare.one')), ` = (1/√${answer.num_heads}) · (`,
        answer.heads.flatMap((_, h) => [h ? ' + ' : '', name('S', headLabel(h))]), ')'),
      el('div', {class: 'flow-row'}, shown('identity.left', name('S', t('compare.one')), t('stage.scores'), left, {}, exact),
        el('span', {class: 'operator', text: '=', 'aria-hidden': 'true'}),
        shown('identity.right', el('span', {text: `${fixed(factor)} · Σ S`}), t('compare.sum'), right, {}, exact)),
      el('p', {data: {difference}, text: t('compare.difference', {difference: difference === 0 ? '0' : difference.toExponential(1)})}),
      el('p', {text: t('compare.meaning')}));
  }

  difference(answer, other) {
    const largest = Math.max(...answer.output.flatMap((row, i) => row.map((value, j) => Math.abs(value - other.output[i][j]))));
    return el('p', {class: 'verdict', data: {outputs: largest}, text: largest > 1e-6 ? t('compare.outputsDiffer', {largest: fixed(largest)}) : t('compare.outputsEqual')});
  }
}
