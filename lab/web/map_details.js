// Beside the map: the cell that is looked at, its row and column, the row's largest keys.
import * as api from './api.js';
import {button, el, svg} from './dom.js';
import {number, t} from './i18n.js';

const BINS = 256;
const probability = (value) => (value === null ? '–' : value === 0 ? '0' : value < 1e-4 ? value.toExponential(3) : value.toPrecision(5));

/** A profile of log2 values as a small area chart. */
function chart(profile, label, mark) {
  const width = 300;
  const height = 54;
  const least = -24;
  const points = profile.map((value, i) => `${(i / Math.max(1, profile.length - 1) * width).toFixed(1)},${(height - (Math.max(least, value ?? least) - least) / -least * height).toFixed(1)}`);
  return svg('svg', {viewBox: `0 0 ${width} ${height}`, class: 'profile', role: 'img', 'aria-label': label, preserveAspectRatio: 'none'},
    svg('polygon', {points: `0,${height} ${points.join(' ')} ${width},${height}`, class: 'profile-area'}),
    mark !== null ? svg('line', {x1: mark * width, x2: mark * width, y1: 0, y2: height, class: 'profile-mark'}) : null);
}

const place = (index, token) => (token ? `${number(index)} “${token}”` : number(index));

export class Details {
  /** go(row, key): moves the crosshair. */
  constructor(go) {
    this.go = go;
    this.cell = el('p', {class: 'cell-words', id: 'cell-words', 'aria-live': 'polite'});
    this.pinned = el('div', {class: 'pinned'});
    this.node = el('section', {class: 'panel', 'aria-labelledby': 'details-title'}, el('h2', {id: 'details-title', text: t('map.details')}), this.cell, this.pinned);
    this.turn = 0;
  }

  say(text) { this.cell.textContent = text; }

  /** Words for a cell: exact when it is one coefficient, else what it pools and where its largest lies. */
  async tell(view, row, key) {
    const turn = ++this.turn;
    const cell = view.cellOf(row, key);
    const base = `/api/captures/${view.capture.id}/${view.head}`;
    try {
      if (!cell || cell.cells === 1) {
        const exact = await api.get(`${base}/at?i=${row}&j=${key}`);
        if (turn === this.turn) this.say(this.words(exact));
        return exact;
      }
      const rows = Math.min(cell.cells, view.capture.query_len - cell.row);
      const keys = Math.min(cell.cells, view.capture.key_len - cell.key);
      const largest = await api.get(`${base}/cell?row=${cell.row}&rows=${rows}&key=${cell.key}&keys=${keys}`);
      if (turn !== this.turn) return largest;
      const pooled = cell.code > -32765 ? probability(2 ** (cell.code / 256)) : t('map.state.masked');
      this.say(largest.found ? t('map.pooled', {pool: t(`map.pool.${view.pool}`), pooled, cells: cell.cells, row: place(largest.i, largest.query_token), key: place(largest.j, largest.key_token), largest: probability(largest.probability)})
        : t('map.emptyCell', {row: number(cell.row), key: number(cell.key)}));
      return largest;
    } catch (error) {
      if (turn === this.turn) this.say(error.message);
      return null;
    }
  }

  words(exact) {
    const where = {row: place(exact.i, exact.query_token), key: place(exact.j, exact.key_token)};
    if (exact.state === 'masked') return t('map.isMasked', where);
    if (exact.state === 'non_finite') return t('map.isNonFinite', where);
    return t('map.exact', {...where, probability: probability(exact.probability), log2: exact.log2 === null ? '−∞' : exact.log2.toFixed(3), lift: exact.log2 === null ? '0' : (2 ** exact.log2 * exact.visible).toPrecision(3)});
  }

  /** The crosshair's row and column. */
  async pin(view, row, key) {
    const wanted = `${view.capture.id}/${view.head}/${row}/${key}`;
    if (wanted === this.wanted) return;
    this.wanted = wanted;
    if (row < 0) {
      this.pinned.replaceChildren(el('p', {class: 'hint', text: t('map.pinHint')}));
      return;
    }
    const base = `/api/captures/${view.capture.id}/${view.head}`;
    const [across, down] = await Promise.all([api.get(`${base}/row?i=${row}&top=8&bins=${BINS}`), api.get(`${base}/column?j=${key}&bins=${BINS}`)]);
    if (this.wanted !== wanted) return;
    const {query_len: n, key_len: m} = view.capture;
    this.pinned.replaceChildren(
      el('h3', {text: t('map.rowTitle', {row: place(row, across.token)})}), chart(across.profile, t('map.rowProfile', {row: number(row)}), key / Math.max(1, m)),
      el('p', {class: 'hint', text: t('map.rowTime', {visible: number(across.visible), milliseconds: across.milliseconds.toFixed(1)})}),
      el('table', {class: 'numbers top-keys'}, el('caption', {text: t('map.top')}),
        el('thead', {}, el('tr', {}, ['map.key', 'map.coefficient', 'map.logarithm'].map((column) => el('th', {scope: 'col', text: t(column)})))),
        el('tbody', {}, across.top.map((entry) => el('tr', {}, el('th', {scope: 'row'}, button(place(entry.key, entry.token), () => this.go(row, entry.key), {class: 'link'})),
          el('td', {text: probability(entry.probability)}), el('td', {text: entry.log2 === null ? '' : entry.log2.toFixed(2)}))))),
      el('h3', {text: t('map.columnTitle', {key: place(key, down.token)})}), chart(down.profile, t('map.columnProfile', {key: number(key)}), row / Math.max(1, n)));
  }
}
