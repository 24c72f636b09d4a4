// The Lab: one small layer, every matrix on the table.
import * as api from './api.js';
import * as store from './store.js';
import {announce, button, el, name, segments, select, toggle} from './dom.js';
import {fixed, t} from './i18n.js';
import {Compare} from './compare.js';
import {Counters} from './counters.js';
import {Matrix} from './matrix.js';
import {Misconceptions} from './misconceptions.js';
import {Player} from './player.js';
import {NOTHING_EDITED, divisors, fit, problemOf} from './problem.js';
import {Questions} from './questions.js';
import {LAB_PRESETS} from './state.js';
import {headLabel, subscript, trace} from './trace.js';
import {loadPresets} from './presets.js';

const edit = (patch) => store.set({experiment: 0, trial: 0, ...patch}, {undoable: true});

export class LabRoom {
  constructor(root) {
    this.root = root;
    this.before = null;  // the answer before the last change, for the highlight
    this.shown = null;   // {problem, answer} on the page
    this.turn = 0;
  }

  async mount() {
    this.presets = await loadPresets(store.get().seed);
    this.controls = el('div', {class: 'controls'});
    this.error = el('p', {class: 'error', role: 'alert', hidden: true});
    this.findings = el('ul', {class: 'findings', 'aria-live': 'polite'});
    this.inputs = el('div', {class: 'flow-row', id: 'inputs'});
    this.projections = el('div', {class: 'projections'});
    this.heads = el('div', {class: 'heads'});
    this.result = el('div', {class: 'flow-row'});
    this.tracePanel = el('section', {class: 'panel trace', 'aria-labelledby': 'trace-title'});
    this.changedPanel = el('section', {class: 'panel', id: 'changed-panel', 'aria-live': 'polite'});
    this.compare = new Compare();
    this.counters = new Counters();
    this.player = new Player((sources) => this.mark('playing', sources));
    this.questions = new Questions(this.presets);
    this.misconceptions = new Misconceptions(this.presets);
    this.table = el('div', {class: 'table'},
      this.section('inputs', this.inputs), this.section('projections', this.projections),
      this.section('heads', this.findings, this.heads), this.section('result', this.result));
    this.root.replaceChildren(
      el('div', {class: 'room-title'}, el('h1', {text: t('lab.title')}), el('p', {class: 'lead', text: t('lab.lead')})),
      this.controls, this.error,
      el('div', {class: 'lab-columns'}, this.table,
        el('aside', {class: 'side', 'aria-label': t('lab.side')}, this.tracePanel, this.changedPanel, this.player.node, this.counters.node)),
      this.compare.node, this.questions.node, this.misconceptions.node);
    this.root.addEventListener('pointerleave', () => this.visit(null));
    this.unsubscribe = store.subscribe((state, before) => this.stateChanged(state, before));
    await this.recompute();
    this.misconceptions.resume();
  }

  unmount() { this.unsubscribe?.(); }

  section(key, ...content) {
    return el('section', {class: 'stage', id: `stage-${key}`, 'aria-labelledby': `stage-${key}-title`},
      el('h2', {id: `stage-${key}-title`, text: t(`stage.${key}`)}), el('p', {class: 'stage-what', text: t(`stage.${key}.what`)}), ...content);
  }

  async stateChanged(state, before) {
    if (state.seed !== before.seed) this.presets = await loadPresets(state.seed);
    await this.recompute();
  }

  /** Asks the engine and shows its answer; only the last question's answer counts. */
  async recompute() {
    const turn = ++this.turn;
    document.body.dataset.busy = 'true';
    this.settled = this.follow(turn);
    try {
      await this.settled;
    } finally {
      if (turn === this.turn) document.body.dataset.busy = 'false';
    }
  }

  async follow(turn) {
    const state = store.get();
    const problem = problemOf(state, this.presets);
    const key = JSON.stringify([problem, state.compare]);
    this.showControls(state, problem);
    if (key !== this.key) {
      const ask = state.compare ? {...problem, compare_heads: state.compare} : problem;
      try {
        const answer = await api.compute(ask);
        if (turn !== this.turn) return;
        this.before = this.shown;
        this.shown = {problem, answer};
        this.key = key;
        this.fail(null);
      } catch (error) {
        if (turn !== this.turn) return;
        this.key = null;
        this.fail(error);
        return;
      }
    }
    this.fail(null);
    this.show(state);
  }

  fail(error) {
    this.error.hidden = !error;
    this.error.textContent = error ? t('lab.refused', {message: error.message}) : '';
    this.table.classList.toggle('stale', Boolean(error));
    document.body.dataset.ready = error ? 'refused' : 'computed';
  }

  showControls(state, problem) {
    const key = JSON.stringify([state.preset, state.n, state.d, problem.num_heads, problem.head_dim, problem.mask, state.scale, Boolean(problem.memory),
      state.compare, state.exact, store.canUndo(), store.canRedo(), problem.input.length, problem.input[0].length]);
    if (key === this.controlsKey) return;
    this.controlsKey = key;
    const focused = document.activeElement?.id;
    const d = problem.input[0].length;
    const options = divisors(d).map((h) => [h, String(h)]);
    const other = el('input', {id: 'heads-other', type: 'number', min: 1, max: 16, value: problem.num_heads, class: 'small'});
    other.addEventListener('change', () => edit({h: Math.min(16, Math.max(1, Math.round(other.valueAsNumber) || 1))}));
    const width = el('input', {id: 'head-dim', type: 'number', min: 0, max: Math.floor(16 / problem.num_heads), value: problem.head_dim || '', class: 'small',
      placeholder: 'd/h'});
    width.addEventListener('change', () => edit({dh: Math.min(Math.floor(16 / problem.num_heads), Math.max(0, Math.round(width.valueAsNumber) || 0)),
      h: problem.num_heads}));
    this.controls.replaceChildren(
      el('div', {class: 'controls-row'},
        el('div', {class: 'field'}, el('label', {for: 'preset', text: t('control.preset')}),
          select(LAB_PRESETS.map((key) => [key, t(`preset.${key}`)]), state.preset,
            (preset) => edit({...NOTHING_EDITED, preset, seed: 1}), {id: 'preset'})),
        state.preset === 'random'
          ? button(t('control.again'), () => edit({...NOTHING_EDITED, preset: 'random', seed: (state.seed % 1e6) + 1}), {id: 'again', class: 'bottom'}) : null,
        segments(t('control.heads'), options, problem.num_heads, (h) => edit({h}), {id: 'heads'}),
        el('div', {class: 'field'}, el('label', {for: 'heads-other', text: t('control.otherHeads')}), other),
        el('div', {class: 'field'}, el('label', {for: 'head-dim', text: t('control.headDim')}), width),
        segments(t('control.mask'), [['none', t('mask.none')], ['causal', t('mask.causal')], ['after_softmax', t('mask.after_softmax')]],
          problem.mask, (mask) => edit({mask}), {id: 'mask'}),
        segments(t('control.scale'), [['', '1/√dₖ'], ['model', '1/√d']], state.scale, (scale) => edit({scale}), {id: 'scale'})),
      el('div', {class: 'controls-row'},
        this.counter('tokens', t('control.tokens'), problem.input.length, 1, 12, (n) => edit({n})),
        this.counter('width', t('control.width'), d, 2, 8, (next) => edit({d: next > d ? next + next % 2 : next - next % 2})),
        toggle(t('control.cross'), Boolean(problem.memory), (on) => edit({cross: on ? 'yes' : 'no'}), {id: 'cross'}),
        toggle(t('control.compare'), state.compare > 0, (on) => this.setCompare(on), {id: 'compare'}),
        toggle(t('control.exact'), state.exact, (exact) => store.set({exact}), {id: 'exact'}),
        el('div', {class: 'buttons'},
          button(t('control.undo'), store.undo, {id: 'undo', disabled: !store.canUndo()}),
          button(t('control.redo'), store.redo, {id: 'redo', disabled: !store.canRedo()}),
          button(t('control.reset'), () => edit({...NOTHING_EDITED, preset: state.preset}), {id: 'reset'}),
          button(t('control.link'), () => this.copyLink(), {id: 'link'}))));
    if (focused) document.getElementById(focused)?.focus();
  }

  // Shown where it is: below the table.
  async setCompare(on) {
    store.set({compare: on ? 1 : 0});
    if (!on) return;
    await this.settled;
    this.compare.node.scrollIntoView({block: 'start', behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth'});
  }

  counter(id, label, value, min, max, change) {
    return el('div', {class: 'stepper', role: 'group', 'aria-label': label}, el('span', {text: label}),
      button('−', () => change(Math.max(min, value - 1)), {id: `${id}-less`, 'aria-label': `${label} −`, disabled: value <= min}),
      el('output', {text: String(value)}),
      button('+', () => change(Math.min(max, value + 1)), {id: `${id}-more`, 'aria-label': `${label} +`, disabled: value >= max}));
  }

  async copyLink() {
    try {
      await navigator.clipboard.writeText(location.href);
      announce(t('control.linkCopied'));
    } catch {
      announce(location.href);
    }
  }

  editable(key, symbol, label, member, extra = {}) {
    return new Matrix({id: key, symbol, label, visit: (address) => this.visit(address), ...extra,
      edit: (row, column, value) => {
        const {problem} = this.shown;
        const rows = problem[member].map((cells) => [...cells]);
        rows[row][column] = value;
        // The number that is not the width of a preset keeps its matrix whole.
        edit({[key]: fit(rows, rows.length, rows[0].length)});
      }});
  }

  readable(id, symbol, label, extra = {}) {
    return new Matrix({id, symbol, label, visit: (address) => this.visit(address), ...extra});
  }

  build(problem, answer) {
    const shape = JSON.stringify([answer.num_heads, answer.head_dim, Boolean(problem.memory), document.documentElement.lang]);
    if (shape === this.built) return;
    this.built = shape;
    const byColumn = (width) => (_, column) => Math.floor(column / width);
    const byRow = (width) => (row) => Math.floor(row / width);
    const hues = {headOf: byColumn(answer.head_dim)};
    const token = {rowLabel: (i) => String(i + 1)};
    this.view = {
      X: this.editable('X', name('X'), t('matrix.X'), 'input', token),
      M: this.editable('M', name('X', '', '′'), t('matrix.M'), 'memory', token),
      WQ: this.editable('WQ', name('W', 'Q'), 'W_Q', 'query_weight', hues),
      WK: this.editable('WK', name('W', 'K'), 'W_K', 'key_weight', hues),
      WV: this.editable('WV', name('W', 'V'), 'W_V', 'value_weight', hues),
      WO: this.editable('WO', name('W', 'O'), 'W_O', 'output_weight', {headOf: byRow(answer.value_dim)}),
      Q: this.readable('Q', name('Q'), t('matrix.Q'), hues),
      K: this.readable('K', name('K'), t('matrix.K'), hues),
      V: this.readable('V', name('V'), t('matrix.V'), hues),
      concat: this.readable('concat', el('span', {text: 'Concat'}), t('stage.concat'), {headOf: byColumn(answer.value_dim), ...token}),
      Y: this.readable('Y', name('Y'), t('stage.output'), token),
      heads: answer.heads.map((_, h) => this.headViews(h)),
    };
    const {view} = this;
    const times = () => el('span', {class: 'operator', text: '×', 'aria-hidden': 'true'});
    const equals = () => el('span', {class: 'operator', text: '=', 'aria-hidden': 'true'});
    this.inputs.replaceChildren(view.X.node, ...(problem.memory ? [view.M.node] : []));
    this.projections.replaceChildren(...['Q', 'K', 'V'].map((kind) =>
      el('div', {class: 'projection'}, el('p', {class: 'equation-line'}, name(kind), ' = ', name('X', '', kind !== 'Q' && problem.memory ? '′' : ''), ' ', name('W', kind)),
        view[`W${kind}`].node, el('span', {class: 'operator', text: '↓', 'aria-hidden': 'true'}), view[kind].node)));
    this.heads.replaceChildren(...answer.heads.map((_, h) => this.headCard(h)));
    this.result.replaceChildren(view.concat.node, times(), view.WO.node, equals(), view.Y.node);
  }

  headViews(h) {
    const map = {rowLabel: (i) => t('label.query', {i: i + 1}), columnLabel: (j) => t('label.key', {j: j + 1})};
    const sub = headLabel(h);
    return {
      score: this.readable(`score.${h}`, name('S', sub), `${t('stage.scores')} ${sub}`, map),
      prob: this.readable(`prob.${h}`, name('A', sub), `${t('stage.probabilities')} ${sub}`, {...map, shaded: true}),
      O: this.readable(`O.${h}`, name('O', sub), `${t('matrix.O')} ${sub}`),
      sums: el('p', {class: 'sums'}),
    };
  }

  headCard(h) {
    const views = this.view.heads[h];
    const arrow = (text) => el('span', {class: 'operator wide', 'aria-hidden': 'true'}, el('span', {text: '→'}), el('small', {text}));
    return el('section', {class: `head hue-${h % 8}`, data: {head: h}, 'aria-labelledby': `head-${h}-title`},
      el('h3', {id: `head-${h}-title`}, el('span', {class: 'badge', text: headLabel(h)}), ` ${t('head')} ${headLabel(h)}`,
        el('span', {class: 'head-columns'})),
      el('div', {class: 'flow-row'}, views.score.node, arrow('softmax'), views.prob.node, arrow(`· V`), views.O.node),
      views.sums);
  }

  show(state) {
    const {problem, answer} = this.shown;
    const before = this.before;
    this.build(problem, answer);
    const {view} = this;
    const changed = [];
    const put = (matrix, title, values, old, options = {}) => {
      if (matrix.update(values, {before: old ?? null, exact: state.exact, ...options})) changed.push(title);
    };
    for (const [key, member, title] of [['X', 'input', 'X'], ['M', 'memory', 'X′'], ['WQ', 'query_weight', 'W_Q'], ['WK', 'key_weight', 'W_K'],
      ['WV', 'value_weight', 'W_V'], ['WO', 'output_weight', 'W_O']]) {
      if (problem[member]) put(view[key], title, problem[member], before?.problem[member]);
    }
    for (const [key, member] of [['Q', 'query'], ['K', 'key'], ['V', 'value']]) put(view[key], key, answer[member], before?.answer[member]);
    answer.heads.forEach((head, h) => this.showHead(h, head, before, put));
    put(view.concat, 'Concat', answer.concat, before?.answer.concat);
    put(view.Y, 'Y', answer.output, before?.answer.output);
    this.showChanged(changed, before);
    this.showFindings(answer);
    this.counters.update(problem, answer);
    this.compare.update(state, problem, answer);
    this.player.update(state, problem, answer);
    this.misconceptions.update(state);
    this.visit(this.visited ?? `prob.0.0.0`);
  }

  showHead(h, head, before, put) {
    const {problem, answer} = this.shown;
    const views = this.view.heads[h];
    const old = before?.answer.heads[h];
    const hide = (rows, seen) => rows?.map((row, i) => row.map((value, j) => (seen[i]?.[j] === false ? null : value)));
    const causal = problem.mask === 'causal';
    const seen = causal ? answer.visible : [];
    const seenBefore = before?.problem.mask === 'causal' ? before.answer.visible : [];
    put(views.score, `S${subscript(h)}`, hide(head.scores, seen), hide(old?.scores, seenBefore));
    put(views.prob, `A${subscript(h)}`, hide(head.probabilities, seen), hide(old?.probabilities, seenBefore));
    put(views.O, `O${subscript(h)}`, head.output, old?.output);
    const rows = head.probabilities.map((row) => row.reduce((a, b) => a + b, 0));
    const columns = head.probabilities[0].map((_, j) => head.probabilities.reduce((a, row) => a + row[j], 0));
    const list = (values) => values.map((value) => fixed(value, {digits: 2})).join(' · ');
    views.sums.textContent = t('head.sums', {rows: list(rows), columns: list(columns)});
    views.sums.classList.toggle('wrong', rows.some((row) => Math.abs(row - 1) > 1e-4));
  }

  showChanged(changed, before) {
    this.changedPanel.hidden = !before;
    this.changedPanel.replaceChildren(el('h2', {text: t('changed.title')}),
      el('p', {class: 'changed-list', data: {changed: changed.join(' ')}, text: changed.length ? changed.join(', ') : t('changed.nothing')}));
  }

  showFindings(answer) {
    const {equal_maps: maps, equal_heads: heads, averaged} = answer.findings;
    const copies = new Set(heads.map(String));
    const texts = heads.map(([a, b]) => t('finding.copy', {a: headLabel(a), b: headLabel(b)}));
    for (const pair of maps) {
      if (!copies.has(String(pair))) texts.push(t('finding.sameMap', {a: headLabel(pair[0]), b: headLabel(pair[1])}));
    }
    if (averaged) texts.push(t('finding.averaged'));
    this.findings.replaceChildren(...texts.map((text) => el('li', {text})));
  }

  /** A cell is looked at: tell where it comes from, and mark what it uses. */
  visit(address) {
    if (!this.shown || !address) return;
    const {problem, answer} = this.shown;
    let traced;
    try {
      traced = trace(address, problem, answer);
    } catch {
      traced = undefined;  // an address of a matrix that has shrunk
    }
    if (!traced) return;
    this.visited = address;
    this.mark('source', traced.sources);
    this.mark('visited', [address]);
    this.tracePanel.replaceChildren(el('h2', {id: 'trace-title', text: t('trace.title')}),
      el('p', {class: 'trace-formula', text: traced.formula}),
      traced.substituted ? el('p', {class: 'trace-numbers', text: `= ${traced.substituted}`}) : null,
      traced.value === null ? null : el('p', {class: 'trace-value'}, el('span', {text: '= '}), el('strong', {text: fixed(traced.value, {exact: store.get().exact})})),
      el('p', {class: 'hint', text: t('trace.hint')}));
  }

  mark(className, addresses) {
    const wanted = new Set(addresses);
    this.table.querySelectorAll(`.${className}`).forEach((cell) => wanted.has(cell.dataset.cell) || cell.classList.remove(className));
    for (const address of wanted) this.table.querySelector(`[data-cell="${address}"]`)?.classList.add(className);
  }
}
