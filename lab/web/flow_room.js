// Flow: what a layer of any size does to shapes, live from the engine's describe().
import * as api from './api.js';
import * as store from './store.js';
import {el, field, segments, toggle} from './dom.js';
import {bytesText, number, t, withPrefix} from './i18n.js';
import {flowEquation} from './equations.js';
import {flowPicture} from './flow_svg.js';

const PRESETS = ['llama-7b', 'vaswani-base', 'custom'];

function queryOf(state) {
  const query = new URLSearchParams();
  if (state.flow === 'custom') {
    query.set('model_dim', state.fd);
    query.set('num_heads', state.fh);
    if (state.fg) query.set('num_kv_heads', state.fg);
    if (state.fw) query.set('head_dim', state.fw);
    query.set('causal', state.fcausal ? 1 : 0);
    query.set('rotary', state.frotary ? 1 : 0);
    query.set('bias', state.fbias ? 1 : 0);
  } else {
    query.set('preset', state.flow);
  }
  if (state.S) query.set('query_len', state.S);
  if (state.T) query.set('key_len', state.T);
  return query;
}

export class FlowRoom {
  constructor(root) {
    this.root = root;
    this.turn = 0;
  }

  async mount() {
    this.controls = el('div', {class: 'controls'});
    this.error = el('p', {class: 'error', role: 'alert', hidden: true});
    this.picture = el('div', {class: 'flow-picture'});
    this.equation = el('div', {class: 'equation'});
    this.totals = el('dl', {class: 'totals'});
    this.table = el('div', {class: 'flow-table'});
    this.root.replaceChildren(
      el('div', {class: 'room-title'}, el('h1', {text: t('flow.title')}), el('p', {class: 'lead', text: t('flow.lead')})),
      this.controls, this.error,
      el('div', {class: 'flow-columns'}, this.picture,
        el('div', {class: 'flow-beside'},
          el('section', {class: 'panel', 'aria-labelledby': 'flow-equation'}, el('h2', {id: 'flow-equation', text: t('flow.equation')}), this.equation),
          el('section', {class: 'panel', 'aria-labelledby': 'flow-totals'}, el('h2', {id: 'flow-totals', text: t('flow.totals')}), this.totals))),
      el('section', {class: 'panel flow-steps', 'aria-labelledby': 'flow-steps'}, el('h2', {id: 'flow-steps', text: t('flow.steps')}), this.table));
    this.unsubscribe = store.subscribe(() => this.update());
    await this.update();
  }

  unmount() { this.unsubscribe?.(); }

  async update() {
    const state = store.get();
    const key = String(queryOf(state));
    if (key === this.key && this.flow === state.flow) return;
    this.key = key;
    this.flow = state.flow;
    const turn = ++this.turn;
    document.body.dataset.busy = 'true';
    try {
      const description = await api.get(`/api/describe?${key}&refusals=answer`);
      if (turn !== this.turn) return;
      this.error.hidden = !description.refused;
      if (description.refused) {
        this.error.textContent = t('lab.refused', {message: description.refused});
        this.showControls(state, this.description ?? null);
      } else {
        this.description = description;
        this.showControls(state, description);
        this.show(description);
      }
    } finally {
      if (turn === this.turn) document.body.dataset.busy = 'false';
    }
  }

  showControls(state, description) {
    const focused = document.activeElement?.id;
    const config = description?.config;
    const size = (id, label, value, key, min, max, extra = {}) => {
      const input = el('input', {id, type: 'number', min, max, value: value ?? '', class: 'small', ...extra});
      input.addEventListener('change', () => store.set({[key]: Math.min(max, Math.max(min, Math.round(input.valueAsNumber) || 0)) || SCHEMA_LEAST[key]}, {undoable: true}));
      return field(label, input);
    };
    const custom = state.flow === 'custom';
    const become = (flow) => {
      // A custom layer starts from what was on the page.
      const from = config && flow === 'custom' ? {fd: config.model_dim, fh: config.num_heads, fg: config.num_kv_heads === config.num_heads ? 0 : config.num_kv_heads,
        fw: config.head_dim * config.num_heads === config.model_dim ? 0 : config.head_dim, fcausal: config.causal, frotary: config.rotary} : {};
      store.set({...from, flow, S: 0, T: 0}, {undoable: true});
    };
    this.controls.replaceChildren(
      el('div', {class: 'controls-row'},
        segments(t('control.preset'), PRESETS.map((key) => [key, t(`flow.${key}`)]), state.flow, become, {id: 'flow-preset'}),
        size('flow-S', t('flow.queries'), state.S || description?.query_len, 'S', 0, 1e9),
        size('flow-T', t('flow.keys'), state.T || description?.key_len, 'T', 0, 1e9)),
      ...(custom ? [el('div', {class: 'controls-row'},
        size('flow-d', t('control.width'), state.fd, 'fd', 1, 1e6),
        size('flow-h', t('control.heads'), state.fh, 'fh', 1, 10000),
        size('flow-g', t('flow.kvHeads'), state.fg || '', 'fg', 0, 10000, {placeholder: String(state.fh)}),
        size('flow-w', t('control.headDim'), state.fw || '', 'fw', 0, 1e6, {placeholder: 'd/h'}),
        toggle(t('mask.causal'), state.fcausal, (fcausal) => store.set({fcausal}, {undoable: true}), {id: 'flow-causal'}),
        toggle(t('flow.rotary'), state.frotary, (frotary) => store.set({frotary}, {undoable: true}), {id: 'flow-rotary'}),
        toggle(t('flow.bias'), state.fbias, (fbias) => store.set({fbias}, {undoable: true}), {id: 'flow-bias'}))] : []));
    if (focused) document.getElementById(focused)?.focus();
  }

  show(description) {
    const point = (name) => this.root.querySelectorAll('[data-step]').forEach((node) => node.classList.toggle('pointed', node.dataset.step === name));
    this.picture.replaceChildren(flowPicture(description, point));
    this.equation.replaceChildren(...flowEquation(description));
    const stored = description.steps.filter((step) => step.stored).reduce((sum, step) => sum + step.bytes, 0);
    const fact = (key, value) => [el('dt', {text: t(`flow.${key}`)}), el('dd', {data: {fact: key}, text: value})];
    this.totals.replaceChildren(...fact('parameters', number(description.parameters)), ...fact('operations', withPrefix(description.operations)),
      ...fact('stored', bytesText(stored)), ...fact('notStored', bytesText(description.bytes_not_stored)));
    const most = Math.max(...description.steps.map((step) => step.operations), 1);
    this.table.replaceChildren(el('table', {class: 'numbers steps', tabindex: '0', 'aria-labelledby': 'flow-steps'},
      el('thead', {}, el('tr', {}, ['step', 'shape', 'parameters', 'operations', 'bytes', 'kept'].map((column) => el('th', {scope: 'col', text: t(`flow.column.${column}`)})))),
      el('tbody', {}, description.steps.map((step) => {
        const row = el('tr', {data: {step: step.name}, class: step.stored ? 'stored' : 'not-stored'},
          el('th', {scope: 'row'}, el('span', {text: t(`flow.step.${step.name}`)}), el('small', {text: step.equation})),
          el('td', {class: 'mono', text: `(${step.shape.map((extent) => number(extent)).join(', ')})`}),
          el('td', {text: step.parameters ? number(step.parameters) : ''}),
          el('td', {class: 'bar', style: {'--share': (step.operations / most).toFixed(4)}, text: step.operations ? withPrefix(step.operations) : ''}),
          el('td', {text: bytesText(step.bytes)}), el('td', {text: step.stored ? t('flow.yes') : t('flow.never')}));
        row.addEventListener('pointerenter', () => point(step.name));
        row.addEventListener('pointerleave', () => point(null));
        return row;
      }))));
  }
}

// What an emptied field means.
const SCHEMA_LEAST = {S: 0, T: 0, fd: 1, fh: 1, fg: 0, fw: 0};
