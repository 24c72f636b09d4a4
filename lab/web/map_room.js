// Map: a capture's coefficients, recomputed where somebody looks, from the whole map down to a single one.
import * as api from './api.js';
import * as store from './store.js';
import {announce, button, download, el, field, segments, select, toggle} from './dom.js';
import {number, t} from './i18n.js';
import {DOMAINS} from './map_colour.js';
import {Details} from './map_details.js';
import {exportHtml, exportPng, exportSvg} from './map_export.js';
import {Heads, SORTS} from './map_heads.js';
import {HELP, actionOf} from './map_keys.js';
import {Legend} from './map_legend.js';
import {Minimap} from './map_minimap.js';
import {Tiles} from './map_tiles.js';
import {MapView, pageColours} from './map_view.js';

const POOLS = ['max', 'mean', 'mass'];

export class MapRoom {
  constructor(root) { this.root = root; }

  async mount() {
    this.captures = (await api.get('/api/captures')).captures;
    const title = el('div', {class: 'room-title'}, el('h1', {text: t('map.title')}), el('p', {class: 'lead', text: t('map.lead')}));
    if (!this.captures.length) {
      this.root.replaceChildren(title, el('div', {class: 'notice'}, el('p', {text: t('map.none')}), el('pre', {class: 'player-numbers', tabindex: '0', text: 'multihead capture --preset vaswani-base --length 600 --values --output base.safetensors\nmultihead lab base.safetensors'})));
      return;
    }
    this.tiles = new Tiles(() => this.schedule(), (tile) => { this.last = tile; });
    this.canvas = el('canvas', {class: 'map-canvas', tabindex: '0', role: 'application', 'aria-roledescription': t('map.role'), 'aria-describedby': 'map-keys cell-words'});
    this.otherCanvas = el('canvas', {class: 'map-canvas other', role: 'img', hidden: true});
    this.view = new MapView(this.canvas, this.tiles);
    this.otherView = new MapView(this.otherCanvas, this.tiles);
    this.controls = el('div', {class: 'controls'});
    this.info = el('p', {class: 'map-info', id: 'map-info'});
    this.sweep = el('div', {class: 'map-sweep', hidden: true});
    this.heads = new Heads((head) => store.set({head}));
    this.details = new Details((row, key) => this.moveCross(row, key, true));
    this.legend = new Legend();
    this.minimap = new Minimap((row, key) => this.centre(row, key));
    this.help = el('details', {class: 'panel', id: 'map-help'}, el('summary', {text: t('map.keys')}),
      el('dl', {class: 'keys'}, HELP.flatMap(([keys, text]) => [el('dt', {}, el('kbd', {text: keys})), el('dd', {text: t(`map.action.${text}`)})])));
    this.gotoInput = el('input', {type: 'text', id: 'goto', class: 'goto', autocomplete: 'off', placeholder: 'i, j'});
    this.gotoInput.addEventListener('keydown', (event) => event.key === 'Enter' && this.goTo(this.gotoInput.value));
    this.root.replaceChildren(title,
      el('section', {class: 'heads-strip', 'aria-labelledby': 'heads-title'}, el('div', {class: 'strip-title'}, el('h2', {id: 'heads-title', text: t('map.heads')}), this.sortSlot = el('div')),
        this.heads.grid, this.heads.status),
      this.controls, this.sweep,
      el('div', {class: 'map-columns'},
        el('div', {class: 'map-main'}, this.info, el('div', {class: 'map-stage'}, this.canvas, this.otherCanvas),
          el('p', {class: 'hint', id: 'map-keys', text: t('map.hint')}), this.legend.node),
        el('aside', {class: 'map-side', 'aria-label': t('map.side')},
          el('section', {class: 'panel', 'aria-labelledby': 'minimap-title'}, el('h2', {id: 'minimap-title', text: t('map.minimap')}), this.minimap.canvas,
            el('div', {class: 'field'}, el('label', {for: 'goto', text: t('map.goto')}), el('div', {class: 'buttons'}, this.gotoInput, button(t('map.go'), () => this.goTo(this.gotoInput.value), {id: 'goto-go'})))),
          this.details.node,
          el('section', {class: 'panel', 'aria-labelledby': 'map-export'}, el('h2', {id: 'map-export', text: t('figure.export')}),
            el('div', {class: 'buttons'}, button('PNG', async () => download('attention-map.png', await exportPng(this.view)), {id: 'map-png'}),
              button('SVG', async () => download('attention-map.svg', await exportSvg(this.view)), {id: 'map-svg'}),
              button('HTML', async () => download('attention-map.html', await exportHtml(this.view)), {id: 'map-html'}))),
          this.help)));
    this.listen();
    this.resizer = new ResizeObserver(() => this.resize());
    this.resizer.observe(this.canvas.parentElement);
    this.unsubscribe = store.subscribe((state, before) => this.update(state, before));
    this.resize();
    await this.update(store.get(), null);
  }

  unmount() {
    this.unsubscribe?.();
    this.resizer?.disconnect();
    this.heads?.close();
    clearTimeout(this.sweepTimer);
    this.closed = true;
  }

  get capture() {
    return this.captures.find(({id}) => id === store.get().capture) ?? this.captures[0];
  }

  get head() { return Math.min(Math.max(0, store.get().head), this.capture.num_heads - 1); }

  viewOf(state) {
    if (state.span > 0) return {top: state.top, left: state.left, span: state.span};
    // The whole map, in the middle.
    const {query_len: n, key_len: m} = this.capture;
    const aspect = this.canvas.width / this.canvas.height;
    const span = Math.max(m, n * aspect, 1);
    return {span, left: (m - span) / 2, top: (n - span / aspect) / 2};
  }

  async update(state, before) {
    const subject = `${this.capture.id}/${this.head}`;
    this.showControls(state);
    if (subject !== this.subject || state.sort !== before?.sort) {
      this.subject = subject;
      this.heads.open(this.capture, state.sort, this.head).catch((error) => announce(error.message));
      this.watchSweep();
    }
    if (state.colour === 'lift' && !this.capture.plainly_causal) await this.loadVisible();
    this.schedule();
    Object.assign(this.view, {capture: this.capture, head: this.head});
    this.details.pin(this.view, state.row, state.key).catch((error) => this.details.say(error.message));
    // A link with a crosshair says at once what lies under it.
    if (!before && state.row >= 0) requestAnimationFrame(() => this.details.tell(this.view, state.row, state.key));
  }

  // V(i) of the rows, as finely as a lift needs it, for maps where it does not follow from causality.
  async loadVisible() {
    const key = `${this.capture.id}/${this.head}`;
    if (this.visibleKey === key) return;
    this.visibleKey = key;
    const {visible} = await api.get(`/api/captures/${key}/visible?bins=1024`);
    const n = this.capture.query_len;
    this.view.visibleKeys = this.otherView.visibleKeys = (row) => visible[Math.min(visible.length - 1, Math.floor(row / n * visible.length))];
    this.view.visibleVersion = this.otherView.visibleVersion = key;
  }

  /** Asks how far the sweep of the coarse zooms is until it is through. */
  async watchSweep() {
    clearTimeout(this.sweepTimer);
    const subject = this.subject;
    const {done, failure} = await api.get(`/api/captures/${this.capture.id}/${this.head}/sweep`);
    if (this.closed || subject !== this.subject) return;
    const running = done < 1 && !failure;
    const ended = !running && !this.sweep.hidden;
    this.sweep.hidden = !running;
    this.sweep.replaceChildren(el('label', {}, t('map.sweeping', {percent: Math.round(100 * done)}), el('progress', {max: 1, value: done})));
    if (running) this.sweepTimer = setTimeout(() => this.watchSweep(), 500);
    if (ended) {
      this.tiles.forgetSampled();
      announce(t('map.swept'));
    }
  }

  resize() {
    const stage = this.canvas.parentElement;
    const other = store.get().other >= 0;
    const width = Math.max(120, Math.floor((stage.clientWidth - (other ? 12 : 0)) / (other ? 2 : 1)));
    const height = Math.max(160, Math.min(width, Math.floor(innerHeight * 0.78)));
    for (const canvas of [this.canvas, this.otherCanvas]) {
      canvas.width = Math.round(width * devicePixelRatio);
      canvas.height = Math.round(height * devicePixelRatio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    this.schedule();
  }

  schedule() {
    if (this.frame || this.closed) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    const state = store.get();
    const both = state.other >= 0 && state.other < this.capture.num_heads;
    if (this.otherCanvas.hidden === both) {
      this.otherCanvas.hidden = !both;
      this.resize();
    }
    const {paper, ink} = pageColours();
    const values = state.values && this.capture.has_values;
    const look = {colour: state.colour, low: state.low, high: state.high, hatch: state.hatch, paper, ink};
    const common = {capture: this.capture, view: this.viewOf(state), look, pool: values ? 'max' : state.pool, values, cross: state.row >= 0 ? {row: state.row, key: state.key} : null};
    this.view.set({...common, head: this.head});
    const wanted = this.view.draw();
    if (both) {
      this.otherView.set({...common, head: state.other});
      wanted.push(...this.otherView.draw());
      this.otherCanvas.setAttribute('aria-label', t('map.label', {head: state.other, n: number(this.capture.query_len), m: number(this.capture.key_len)}));
    }
    this.tiles.want([...wanted, this.minimap.address(this.view)]);
    this.minimap.draw(this.view);
    this.legend.show(look, this.view);
    this.canvas.setAttribute('aria-label', t('map.label', {head: this.head, n: number(this.capture.query_len), m: number(this.capture.key_len)}));
    this.showInfo();
    if (state.follow && this.tiles.pending() === 0) this.followDomain(state);
    document.body.dataset.tiles = this.tiles.pending() === 0 ? 'ready' : 'loading';
  }

  showInfo() {
    const {zoom, cells} = this.view;
    const group = this.capture.num_heads / this.capture.num_kv_heads;
    const how = this.last ? t(`map.source.${this.last.source}`, {milliseconds: this.last.milliseconds.toFixed(1), step: this.last.step}) : '';
    const sampled = this.tiles.peek(Tiles.address(this.capture, this.head, 0, 0, 0, this.view.pool, this.view.values))?.source === 'sampled' && zoom <= 4;
    this.info.replaceChildren(el('strong', {text: this.capture.name}), ` · ${group > 1 ? t('map.groupedHead', {head: this.head, group: Math.floor(this.head / group)}) : t('map.oneHead', {head: this.head})}`,
      ` · z ${zoom} / ${this.capture.max_zoom} · ${t('map.cell', {cells})} · `, el('span', {id: 'tile-source', text: how}), sampled ? el('strong', {class: 'sampled', text: ` ${t('map.sampled')}`}) : '');
  }

  // Limits at the percentiles of what is in sight.
  followDomain(state) {
    if (state.colour !== 'log') return;
    const {codes} = this.view.visibleCodes();
    const sorted = Int16Array.from(codes.filter((code) => code > -32765)).sort();
    if (!sorted.length) return;
    const low = Math.floor(sorted[Math.floor(sorted.length * 0.01)] / 256);
    const high = Math.max(low + 1, Math.ceil(sorted[Math.floor(sorted.length * 0.995)] / 256));
    if (low !== state.low || high !== state.high) store.set({low, high});
  }

  showControls(state) {
    const focused = document.activeElement?.id;
    const limit = (id, label, key) => {
      const input = el('input', {id, type: 'number', step: 'any', value: state[key], class: 'small'});
      input.addEventListener('change', () => Number.isFinite(input.valueAsNumber) && store.set({[key]: input.valueAsNumber, follow: false}));
      return field(label, input);
    };
    const heads = Array.from({length: this.capture.num_heads}, (_, head) => [String(head), String(head)]);
    this.sortSlot.replaceChildren(field(t('map.sort'), select(SORTS.map((sort) => [sort, t(`map.sort.${sort}`)]), state.sort, (sort) => store.set({sort}), {id: 'sort'})));
    this.controls.replaceChildren(el('div', {class: 'controls-row'}, ...[
      this.captures.length > 1 ? field(t('map.capture'), select(this.captures.map(({id, name}) => [id, name]), this.capture.id,
        (capture) => store.set({capture, head: 0, other: -1, row: -1, key: -1, top: 0, left: 0, span: 0}), {id: 'capture'})) : null,
      field(t('head'), select(heads, String(this.head), (head) => store.set({head: Number(head)}), {id: 'map-head'})),
      field(t('map.against'), select([['-1', t('map.nobody')], ...heads], String(state.other), (other) => store.set({other: Number(other)}), {id: 'map-other'})),
      segments(t('map.pooling'), POOLS.map((pool) => [pool, t(`map.pool.${pool}`)]), state.pool, (pool) => store.set({pool, values: false}), {id: 'pool'}),
      segments(t('map.colours'), Object.keys(DOMAINS).map((colour) => [colour, t(`map.colour.${colour}`)]), state.colour,
        (colour) => store.set({colour, low: DOMAINS[colour][0], high: DOMAINS[colour][1], follow: false}), {id: 'colour'}),
      limit('low', t('map.low'), 'low'), limit('high', t('map.high'), 'high'),
      toggle(t('map.follow'), state.follow, (follow) => store.set({follow}), {id: 'follow', disabled: state.colour !== 'log'}),
      this.capture.has_values ? toggle(t('map.values'), state.values, (values) => store.set({values}), {id: 'values'}) : null,
      el('div', {class: 'buttons'}, button('−', () => this.zoomBy(2), {id: 'zoom-out', 'aria-label': t('map.action.zoomOut')}), button('+', () => this.zoomBy(0.5), {id: 'zoom-in', 'aria-label': t('map.action.zoomIn')}),
        button(t('map.whole'), () => this.act(['whole']), {id: 'whole'}), button(t('map.largest'), () => this.act(['largest']), {id: 'largest'}))].filter(Boolean)));
    if (focused) document.getElementById(focused)?.focus();
  }

  // ---- what people do ----

  listen() {
    const {canvas} = this;
    let dragged = null;
    const pixels = (event) => {
      const box = event.target.getBoundingClientRect();
      return [(event.clientX - box.left) * devicePixelRatio, (event.clientY - box.top) * devicePixelRatio];
    };
    for (const target of [canvas, this.otherCanvas]) {
      target.addEventListener('wheel', (event) => {
        event.preventDefault();
        const [x, y] = pixels(event);
        this.zoomBy(2 ** (Math.max(-60, Math.min(60, event.deltaY)) / 120), x, y);
      }, {passive: false});
      target.addEventListener('pointerdown', (event) => {
        target.setPointerCapture(event.pointerId);
        dragged = {x: event.clientX, y: event.clientY, view: this.viewOf(store.get()), moved: false};
      });
      target.addEventListener('pointermove', (event) => {
        if (!dragged) return this.hover(target, ...pixels(event));
        const factor = devicePixelRatio / this.view.pixel;
        dragged.moved ||= Math.hypot(event.clientX - dragged.x, event.clientY - dragged.y) > 4;
        if (dragged.moved) this.show({...dragged.view, left: dragged.view.left - (event.clientX - dragged.x) * factor, top: dragged.view.top - (event.clientY - dragged.y) * factor});
      });
      target.addEventListener('pointerup', (event) => {
        if (dragged && !dragged.moved) {
          const at = this.view.at(...pixels(event));
          if (at) this.moveCross(at.row, at.key, false);
        }
        dragged = null;
      });
    }
    canvas.addEventListener('keydown', (event) => {
      const action = actionOf(event);
      if (!action) return;
      event.preventDefault();
      this.act(action);
    });
    // Single letters work everywhere in the room but in fields.
    this.onKey = (event) => {
      if (event.target === canvas || event.target.matches('input, select, textarea, button')) return;
      const action = actionOf(event);
      if (!action || !['head', 'goto', 'masked', 'pooling', 'help', 'whole', 'zoom'].includes(action[0])) return;
      event.preventDefault();
      this.act(action);
    };
    this.root.addEventListener('keydown', this.onKey);
  }

  act([name, ...values]) {
    const state = store.get();
    const view = this.viewOf(state);
    const step = view.span / 8;
    switch (name) {
      case 'pan': return this.show({...view, left: view.left + values[0] * step, top: view.top + values[1] * step});
      case 'zoom': return this.zoomBy(values[0]);
      case 'whole': return store.set({top: 0, left: 0, span: 0});
      case 'head': return store.set({head: (this.head + values[0] + this.capture.num_heads) % this.capture.num_heads});
      case 'goto': return this.gotoInput.focus();
      case 'masked': return store.set({hatch: !state.hatch});
      case 'pooling': {
        const pool = POOLS[(POOLS.indexOf(state.pool) + 1) % POOLS.length];
        store.set({pool, values: false});
        return announce(t('map.poolingNow', {pool: t(`map.pool.${pool}`)}));
      }
      case 'help':
        this.help.open = !this.help.open;
        return this.help.querySelector('summary').focus();
      case 'pin': case 'cross': {
        const from = state.row >= 0 ? {row: state.row, key: state.key} : this.middle();
        const cells = this.view.cells;
        const [keys, rows] = name === 'cross' ? values : [0, 0];
        return this.moveCross(from.row + rows * cells, from.key + keys * cells, true);
      }
      case 'largest': return this.jump();
      default: throw new Error(`no action ${name}`);
    }
  }

  /** Twice the whole map. */
  get widest() { return 2 * Math.max(this.capture.key_len, this.capture.query_len * this.canvas.width / this.canvas.height, 4); }

  middle() {
    const view = this.viewOf(store.get());
    const clamp = (value, end) => Math.max(0, Math.min(end - 1, Math.floor(value)));
    return {row: clamp(view.top + this.canvas.height / this.view.pixel / 2, this.capture.query_len), key: clamp(view.left + view.span / 2, this.capture.key_len)};
  }

  /** Sets the view, kept where something of the map is in sight. */
  show({top, left, span}) {
    const wide = Math.min(this.widest, Math.max(4, span));
    const tall = wide * this.canvas.height / this.canvas.width;
    const round = (value) => Math.round(value * 64) / 64;
    store.set({span: round(wide), left: round(Math.max(-wide / 2, Math.min(this.capture.key_len - wide / 2, left))),
      top: round(Math.max(-tall / 2, Math.min(this.capture.query_len - tall / 2, top)))});
  }

  /** Zooms around a device pixel: the pointer's, else the crosshair's when it is in sight, else the middle. */
  zoomBy(factor, x, y) {
    const view = this.viewOf(store.get());
    if (x === undefined) {
      const {row, key} = store.get();
      [x, y] = row >= 0 ? this.view.toScreen(row + 0.5, key + 0.5) : [this.canvas.width / 2, this.canvas.height / 2];
      if (x < 0 || y < 0 || x > this.canvas.width || y > this.canvas.height) [x, y] = [this.canvas.width / 2, this.canvas.height / 2];
    }
    const span = Math.max(4, Math.min(this.widest, view.span * factor));
    const pixel = this.canvas.width / span;
    this.show({span, left: view.left + x / this.view.pixel - x / pixel, top: view.top + y / this.view.pixel - y / pixel});
  }

  centre(row, key) {
    const view = this.viewOf(store.get());
    this.show({...view, left: key - view.span / 2, top: row - this.canvas.height / this.view.pixel / 2});
  }

  moveCross(row, key, speak) {
    const to = {row: Math.max(0, Math.min(this.capture.query_len - 1, row)), key: Math.max(0, Math.min(this.capture.key_len - 1, key))};
    store.set(to);
    const [x, y] = this.view.toScreen(to.row, to.key);
    if (x < 0 || y < 0 || x >= this.canvas.width || y >= this.canvas.height) this.centre(to.row, to.key);
    if (speak) this.details.tell(this.view, to.row, to.key);
  }

  hover(canvas, x, y) {
    const at = (canvas === this.canvas ? this.view : this.otherView).at(x, y);
    clearTimeout(this.hoverTimer);
    if (at) this.hoverTimer = setTimeout(() => this.details.tell(canvas === this.canvas ? this.view : this.otherView, at.row, at.key), 60);
  }

  /** To the largest coefficient of the cell under the crosshair. */
  async jump() {
    const {row, key} = store.get().row >= 0 ? store.get() : this.middle();
    const found = await this.details.tell(this.view, row, key);
    if (found && (found.found ?? true)) this.moveCross(found.i, found.j, true);
  }

  goTo(text) {
    const parts = text.trim().split(/[\s,;]+/).map((part) => {
      const match = /^(\d+(?:\.\d+)?)([km]?)$/i.exec(part);
      return match ? Math.round(Number(match[1]) * {'': 1, k: 1e3, m: 1e6}[match[2].toLowerCase()]) : NaN;
    });
    const fits = parts.length === 2 && parts[0] < this.capture.query_len && parts[1] < this.capture.key_len;
    this.gotoInput.setAttribute('aria-invalid', String(!fits));
    if (!fits) return announce(t('map.gotoWrong', {n: this.capture.query_len - 1, m: this.capture.key_len - 1}));
    const view = this.viewOf(store.get());
    this.show({span: Math.min(view.span, 64), left: parts[1] - 32, top: parts[0] - 32});
    this.moveCross(...parts, true);
    this.canvas.focus();
  }
}
