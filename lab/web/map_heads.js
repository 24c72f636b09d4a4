// All heads as small maps, in the order of any statistic: the way into a capture.
import * as api from './api.js';
import {el} from './dom.js';
import {t} from './i18n.js';
import {SCHEMA} from './state.js';
import {paint} from './map_colour.js';
import {pageColours} from './map_view.js';

const SIDE = 64;
export const SORTS = ['head', 'normalized_entropy', 'confidence', 'effective_keys', 'mean_distance', 'sink_mass', 'self_mass', 'previous_mass', 'max_score', 'output_norm'];
if (!SORTS.every((sort) => SCHEMA.sort.read(sort) === sort)) throw new Error('the state does not know all orders');

const valueOf = (statistics, sort) => {
  const entry = statistics?.[sort];
  return entry === null || entry === undefined ? null : typeof entry === 'number' ? entry : entry.value;
};

export class Heads {
  /** choose(head) */
  constructor(choose) {
    this.choose = choose;
    this.grid = el('div', {class: 'head-grid'});
    this.status = el('p', {class: 'hint', 'aria-live': 'polite'});
    this.thumbnails = new Map();
    this.alive = true;
  }

  close() { this.alive = false; clearTimeout(this.timer); }

  async open(capture, sort, current) {
    this.sort = sort;
    this.current = current;
    if (this.capture !== capture) {
      this.capture = capture;
      this.answer = null;
      this.thumbnails.clear();
      clearTimeout(this.timer);
      await this.poll(capture);
    }
    this.show();
  }

  async poll(capture) {
    const answer = await api.get(`/api/captures/${capture.id}/heads`);
    if (!this.alive || this.capture !== capture) return;
    const news = answer.ready !== this.answer?.ready;
    this.answer = answer;
    if (news) this.show();
    if (answer.ready < answer.heads.length) this.timer = setTimeout(() => this.poll(capture), 700);
  }

  show() {
    if (!this.answer) return;
    const {heads, ready} = this.answer;
    const ordered = [...heads].sort((a, b) => this.sort === 'head' ? a.head - b.head
      : (valueOf(b.statistics, this.sort) ?? -Infinity) - (valueOf(a.statistics, this.sort) ?? -Infinity) || a.head - b.head);
    this.status.textContent = ready < heads.length ? t('map.statistics', {ready, heads: heads.length}) : '';
    const grouped = this.capture.num_kv_heads !== this.capture.num_heads;
    const focused = document.activeElement?.dataset.head;
    this.grid.replaceChildren(...ordered.map(({head, kv_head: group, statistics}) => {
      const value = valueOf(statistics, this.sort);
      const words = this.sort === 'head' || value === null ? '' : value.toPrecision(3);
      const node = el('button', {type: 'button', class: 'head-button', 'aria-pressed': String(head === this.current), data: {head}, on: {click: () => this.choose(head)}},
        this.thumbnail(head), el('span', {text: grouped ? t('map.groupedHead', {head, group}) : t('map.oneHead', {head})}), words ? el('small', {text: words}) : null);
      return node;
    }));
    if (focused) this.grid.querySelector(`[data-head="${focused}"]`)?.focus();
  }

  thumbnail(head) {
    const kept = this.thumbnails.get(head);
    if (kept) return kept;
    const canvas = el('canvas', {width: SIDE, height: SIDE, 'aria-hidden': 'true'});
    this.thumbnails.set(head, canvas);
    fetch(`/api/captures/${this.capture.id}/${head}/thumbnail`).then(async (answer) => {
      if (!answer.ok) return;
      const codes = new Int16Array(await answer.arrayBuffer());
      const context = canvas.getContext('2d');
      const data = context.createImageData(SIDE, SIDE);
      const {paper, ink} = pageColours();
      paint(codes, data.data, SIDE, {colour: 'log', low: -16, high: 0, hatch: false, paper, ink}, () => 0);
      context.putImageData(data, 0, 0);
    });
    return canvas;
  }
}
