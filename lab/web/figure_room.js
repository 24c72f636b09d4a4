// Figure: one head as planes in space, from the lab's numbers or a capture's; steps, and leaves as SVG or as a slide.
import * as api from './api.js';
import * as store from './store.js';
import {button, download, el, field, segments, select} from './dom.js';
import {fixed, t} from './i18n.js';
import {DARK, LIGHT, figurePicture, figureStep, figureSteps, svgFile} from './figure_svg.js';
import {loadPresets} from './presets.js';
import {problemOf} from './problem.js';
import {slide} from './slide.js';
import {subscript} from './trace.js';

const isDark = () => getComputedStyle(document.documentElement).colorScheme === 'dark';
const list = (values) => values.map((value) => fixed(value, {digits: 2})).join(', ');

export class FigureRoom {
  constructor(root) {
    this.root = root;
    this.turn = 0;
  }

  async mount() {
    this.captures = (await api.get('/api/captures')).captures.filter((capture) => capture.has_values);
    this.controls = el('div', {class: 'controls'});
    this.error = el('p', {class: 'error', role: 'alert', hidden: true});
    this.stage = el('div', {class: 'figure-stage'});
    this.words = el('section', {class: 'panel', 'aria-live': 'polite'});
    this.root.replaceChildren(
      el('div', {class: 'room-title'}, el('h1', {text: t('figure.title')}), el('p', {class: 'lead', text: t('figure.lead')})),
      this.controls, this.error,
      el('div', {class: 'figure-columns'}, this.stage, el('div', {class: 'figure-side'}, this.words,
        el('section', {class: 'panel', 'aria-labelledby': 'figure-export'}, el('h2', {id: 'figure-export', text: t('figure.export')}),
          el('p', {class: 'hint', text: t('figure.export.what')}),
          el('div', {class: 'buttons'}, button(t('figure.svg'), () => this.exportFigure(), {id: 'export-svg'}), button(t('figure.slide'), () => this.exportSlide(), {id: 'export-slide'}))))));
    this.unsubscribe = store.subscribe(() => this.update());
    await this.update();
  }

  unmount() { this.unsubscribe?.(); }

  /** {Q, K, V, A, Y, heads, cross, causal, config} of what the state names. */
  async load(state) {
    if (state.figure === 'capture' && this.captures.length) {
      const capture = this.captures.find(({id}) => id === state.capture) ?? this.captures[0];
      const head = Math.min(state.figureHead, capture.num_heads - 1);
      const answer = await api.get(`/api/captures/${capture.id}/${head}/figure`);
      return {...answer, head, heads: capture.num_heads, cross: !capture.square, causal: capture.causal,
        config: {h: capture.num_heads, dk: capture.head_dim, dv: answer.V[0].length, name: capture.name}};
    }
    const problem = problemOf(state, await loadPresets(state.seed));
    const answer = await api.compute(problem);
    const head = Math.min(state.figureHead, answer.num_heads - 1);
    const stages = answer.heads[head];
    const A = stages.probabilities.map((row, i) => row.map((value, j) => (problem.mask === 'causal' && !answer.visible[i][j] ? null : value)));
    return {Q: stages.query, K: stages.key, V: stages.value, A, Y: stages.output, head, heads: answer.num_heads, cross: problem.memory !== null,
      causal: problem.mask === 'causal', config: {h: answer.num_heads, dk: answer.head_dim, dv: answer.value_dim, name: t(`preset.${state.preset}`)}};
  }

  async update() {
    const state = store.get();
    const turn = ++this.turn;
    const {figureStep: _, ...subject} = state;
    const key = JSON.stringify(subject);
    document.body.dataset.busy = 'true';
    try {
      if (key !== this.key) {
        const data = await this.load(state);
        if (turn !== this.turn) return;
        this.data = data;
        this.key = key;
      }
      this.error.hidden = true;
      this.show(state);
    } catch (error) {
      if (!(error instanceof api.EngineError)) throw error;
      this.error.hidden = false;
      this.error.textContent = t('lab.refused', {message: error.message});
    } finally {
      if (turn === this.turn) document.body.dataset.busy = 'false';
    }
  }

  labels() {
    const sub = subscript(this.data.head);
    return {Q: `Q${sub}`, K: `K${sub}`, V: `V${sub}`, A: `A${sub}`, Y: this.data.heads === 1 ? 'Y' : `O${sub}`, queries: t('figure.queries'), keys: t('figure.keys')};
  }

  picture(step, palette) {
    return figurePicture(this.data, step, this.labels(), palette, this.caption(step));
  }

  caption(step) {
    const {phase, row} = figureStep(step);
    return t(`figure.${phase}`, {row: row + 1, head: this.data.head + 1, output: this.labels().Y});
  }

  show(state) {
    const count = figureSteps(this.data.Q.length);
    const step = Math.min(state.figureStep, count - 1);
    this.showControls(state, step, count);
    this.stage.replaceChildren(this.picture(step, isDark() ? DARK : LIGHT));
    const {phase, row} = figureStep(step);
    const {A, Y, K} = this.data;
    const numbers = phase === 'overview' ? '' : phase === 'compare' ? `${this.labels().A}[${row + 1}] = (${A[row].map((v) => (v === null ? t('masked') : fixed(v))).join(', ')})`
      : `${this.labels().Y}[${row + 1}] = (${list(Y[row].slice(0, 16))}${Y[row].length > 16 ? ', …' : ''})`;
    this.words.replaceChildren(el('h2', {text: t('figure.step', {step: step + 1, steps: count})}), el('p', {text: this.caption(step)}),
      numbers ? el('p', {class: 'figure-numbers', text: numbers}) : el('p', {text: t(this.data.cross ? 'figure.cross' : 'figure.self')}),
      el('p', {class: 'hint', text: t('figure.shape', {queries: A.length, keys: K.length})}),
      this.data.first_row !== undefined ? el('p', {class: 'hint', text: t('figure.window', {row: this.data.first_row, key: this.data.first_key})}) : '');
  }

  showControls(state, step, count) {
    const focused = document.activeElement?.id;
    const go = (to) => store.set({figureStep: Math.max(0, Math.min(count - 1, to))});
    const scrub = el('input', {type: 'range', id: 'figure-scrub', min: 0, max: count - 1, value: step, 'aria-label': t('player.scrub')});
    scrub.addEventListener('input', () => go(scrub.valueAsNumber));
    const sources = [['lab', t('figure.lab')], ...(this.captures.length ? [['capture', t('figure.capture')]] : [])];
    this.controls.replaceChildren(el('div', {class: 'controls-row'},
      segments(t('figure.source'), sources, this.captures.length ? state.figure : 'lab', (figure) => store.set({figure, figureHead: 0, figureStep: 0})),
      state.figure === 'capture' && this.captures.length > 1
        ? field(t('map.capture'), select(this.captures.map(({id, name}) => [id, name]), state.capture, (capture) => store.set({capture, figureHead: 0}), {id: 'figure-capture'})) : null,
      field(t('head'), select(Array.from({length: this.data.heads}, (_, h) => [String(h), String(h + 1)]), String(this.data.head), (h) => store.set({figureHead: Number(h)}), {id: 'figure-head'})),
      el('div', {class: 'buttons'},
        button(t('player.back'), () => go(step - 1), {id: 'figure-back', disabled: step === 0}),
        button(t('player.next'), () => go(step + 1), {id: 'figure-next', class: 'primary', disabled: step === count - 1})),
      scrub));
    if (focused) document.getElementById(focused)?.focus();
  }

  currentStep() {
    return Math.min(store.get().figureStep, figureSteps(this.data.Q.length) - 1);
  }

  exportFigure() {
    download('attention-figure.svg', svgFile(this.picture(this.currentStep(), LIGHT)));
  }

  slideNode() {
    const {h, dk, dv, name} = this.data.config;
    const texts = {
      title: t('slide.title'),
      subtitle: `${t('slide.subject')} · h = ${h} · d_k = ${dk} · d_v = ${dv} · ${name}`,
      equation: t('slide.equation'), caption: this.caption(this.currentStep()), why: t('slide.why'),
      points: [1, 2, 3].map((i) => [t(`slide.point${i}`), t(`slide.point${i}.what`, {h, dk, dv})]),
      payoff: t('slide.payoff'), source: t('theory.source'),
    };
    return slide(this.picture(this.currentStep(), LIGHT), texts, this.data.causal);
  }

  exportSlide() {
    download('attention-slide.svg', svgFile(this.slideNode()));
  }
}
