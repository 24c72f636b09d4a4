// One map on a canvas: which tiles are in sight, how they look, and which cell is where.
import {CODES, STEPS, TILE, paint, scaled, stateOf} from './map_colour.js';
import {Tiles} from './map_tiles.js';

const rgb = (text) => text.match(/[\da-f]{2}/gi).map((pair) => parseInt(pair, 16));

/** Colours of the page that is shown, as numbers. */
export function pageColours() {
  const style = getComputedStyle(document.documentElement);
  return {paper: rgb(style.getPropertyValue('--raised')), ink: rgb(style.getPropertyValue('--strong-line')), text: style.getPropertyValue('--ink').trim(),
    soft: style.getPropertyValue('--soft').trim(), line: style.getPropertyValue('--line').trim()};
}

export class MapView {
  constructor(canvas, tiles) {
    this.canvas = canvas;
    this.tiles = tiles;
    this.images = new WeakMap();  // tile -> {key, canvas}
  }

  /** view: {top, left, span}; look as paint(); cross: {row, key} or null. */
  set({capture, head, view, look, pool, values, cross}) {
    Object.assign(this, {capture, head, view, look, pool, values, cross});
  }

  get side() { return Math.max(this.capture.query_len, this.capture.key_len, 1); }
  get pixel() { return this.canvas.width / this.view.span; }  // device pixels a coefficient
  get zoom() {
    return Math.max(0, Math.min(this.capture.max_zoom, Math.floor(this.capture.max_zoom + Math.log2(this.pixel) + 0.45)));
  }
  get cells() { return 2 ** (this.capture.max_zoom - this.zoom); }  // coefficients a cell

  toScreen(row, key) { return [(key - this.view.left) * this.pixel, (row - this.view.top) * this.pixel]; }

  /** The coefficient under a device pixel, or null outside the map. */
  at(x, y) {
    const key = Math.floor(this.view.left + x / this.pixel);
    const row = Math.floor(this.view.top + y / this.pixel);
    return row >= 0 && key >= 0 && row < this.capture.query_len && key < this.capture.key_len ? {row, key} : null;
  }

  uniform(y, row, cells) {
    const middle = Math.min(this.capture.query_len - 1, (y * TILE + row) * cells + Math.floor(cells / 2));
    const keys = this.capture.plainly_causal ? Math.min(this.capture.key_len, Math.max(1, this.capture.first_position + middle + 1)) : this.visibleKeys?.(middle) ?? this.capture.key_len;
    return (this.pool === 'mass' ? Math.log2(cells) : 0) - Math.log2(keys);
  }

  /** The tile (x, y) of a zoom, from memory. */
  tile(z, x, y) {
    const address = Tiles.address(this.capture, this.head, z, x, y, this.pool, this.values);
    const found = this.tiles.peek(address);
    if (found || !Tiles.knownMasked(this.capture, 2 ** (this.capture.max_zoom - z), x, y)) return {address, tile: found};
    const masked = Tiles.masked(this.capture, 2 ** (this.capture.max_zoom - z), x, y);
    this.tiles.put(address, masked);
    return {address, tile: masked};
  }

  image(tile, z, y) {
    const cells = 2 ** (this.capture.max_zoom - z);
    const coarse = cells * this.pixel >= 6;
    const key = JSON.stringify([this.look, coarse, this.pool, y, z, this.visibleVersion]);
    const kept = this.images.get(tile);
    if (kept?.key === key) return kept.canvas;
    const canvas = new OffscreenCanvas(TILE, TILE);
    const context = canvas.getContext('2d');
    const data = context.createImageData(TILE, TILE);
    paint(tile.codes, data.data, TILE, {...this.look, coarse}, (row) => this.uniform(y, row, cells));
    context.putImageData(data, 0, 0);
    this.images.set(tile, {key, canvas});
    return canvas;
  }

  /** Addresses of the tiles in sight, nearest to the middle first. */
  draw() {
    const {canvas, capture, view} = this;
    const context = canvas.getContext('2d');
    const colours = pageColours();
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.imageSmoothingEnabled = false;
    const z = this.zoom;
    const size = TILE * this.cells * this.pixel;
    const firstX = Math.max(0, Math.floor(view.left / (TILE * this.cells)));
    const firstY = Math.max(0, Math.floor(view.top / (TILE * this.cells)));
    const wanted = [];
    for (let y = firstY; y * TILE * this.cells < Math.min(capture.query_len, view.top + canvas.height / this.pixel); ++y) {
      for (let x = firstX; x * TILE * this.cells < Math.min(capture.key_len, view.left + view.span); ++x) {
        const {address, tile} = this.tile(z, x, y);
        const [left, top] = this.toScreen(y * TILE * this.cells, x * TILE * this.cells);
        const far = Math.hypot(left + size / 2 - canvas.width / 2, top + size / 2 - canvas.height / 2);
        wanted.push([far, address]);
        if (tile?.codes) context.drawImage(this.image(tile, z, y), left, top, size, size);
        else this.placeholder(context, z, x, y, left, top, size, tile?.error, colours);
      }
    }
    if (this.cells * this.pixel >= 6) this.glyphs(context, z, colours);
    this.frame(context, colours);
    this.drawCross(context);
    return wanted.sort((a, b) => a[0] - b[0]).map(([, address]) => address);
  }

  // Until a tile is here: the part of a coarser one, with dots over it; or dots alone.
  placeholder(context, z, x, y, left, top, size, error, colours) {
    for (let up = 1; up <= z; ++up) {
      const {tile} = this.tile(z - up, x >> up, y >> up);
      if (!tile?.codes) continue;
      const part = TILE / 2 ** up;
      context.drawImage(this.image(tile, z - up, y >> up), (x & (2 ** up - 1)) * part, (y & (2 ** up - 1)) * part, part, part, left, top, size, size);
      break;
    }
    context.save();
    context.beginPath();
    const [right, bottom] = this.toScreen(this.capture.query_len, this.capture.key_len);
    context.rect(left, top, Math.min(size, right - left), Math.min(size, bottom - top));
    context.clip();
    context.fillStyle = error ? '#e000a0' : colours.soft;
    for (let py = Math.max(0, top) + 8; py < Math.min(this.canvas.height, top + size); py += 18) {
      for (let px = Math.max(0, left) + 8; px < Math.min(this.canvas.width, left + size); px += 18) context.fillRect(px, py, 2, 2);
    }
    context.restore();
  }

  // Large cells: what they are as signs, and as numbers where there is room.
  glyphs(context, z, colours) {
    const edge = this.cells * this.pixel;
    const rows = Math.min(Math.ceil(this.capture.query_len / this.cells), Math.ceil((this.view.top + this.canvas.height / this.pixel) / this.cells));
    const columns = Math.min(Math.ceil(this.capture.key_len / this.cells), Math.ceil((this.view.left + this.view.span) / this.cells));
    context.font = `${Math.min(15 * devicePixelRatio, edge / 4.2)}px ui-monospace, monospace`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (let row = Math.max(0, Math.floor(this.view.top / this.cells)); row < rows; ++row) {
      for (let column = Math.max(0, Math.floor(this.view.left / this.cells)); column < columns; ++column) {
        const {tile} = this.tile(z, Math.floor(column / TILE), Math.floor(row / TILE));
        if (!tile?.codes) continue;
        const code = tile.codes[(row % TILE) * TILE + (column % TILE)];
        const uniform = this.uniform(Math.floor(row / TILE), row % TILE, this.cells);
        const state = stateOf(code, this.look, uniform);
        const [x, y] = this.toScreen(row * this.cells, column * this.cells);
        if (state === 'masked' && this.look.hatch) {
          context.strokeStyle = colours.soft;
          context.lineWidth = 1;
          context.beginPath();
          context.moveTo(x, y + edge);
          context.lineTo(x + edge, y);
          context.stroke();
        } else if (state === 'below') {
          context.fillStyle = '#ffffff';
          context.fillRect(x + edge / 2 - 1.5, y + edge / 2 - 1.5, 3, 3);
        } else if (state === 'nonFinite') {
          context.fillStyle = '#ffffff';
          context.fillText('×', x + edge / 2, y + edge / 2);
        } else if (state === 'value' && edge >= 44 * devicePixelRatio) {
          const place = (scaled(code / STEPS, this.look.colour, uniform) - this.look.low) / (this.look.high - this.look.low);
          context.fillStyle = this.look.colour === 'lift' ? (Math.abs(place - 0.5) < 0.3 ? '#000000' : '#ffffff') : place > 0.5 ? '#000000' : '#ffffff';
          const number = 2 ** (code / STEPS);
          context.fillText(number < 0.001 ? number.toExponential(0) : number.toFixed(3), x + edge / 2, y + edge / 2);
        }
      }
    }
  }

  frame(context, colours) {
    const [left, top] = this.toScreen(0, 0);
    const [right, bottom] = this.toScreen(this.capture.query_len, this.capture.key_len);
    context.strokeStyle = colours.text;
    context.lineWidth = devicePixelRatio;
    context.strokeRect(left + 0.5, top + 0.5, right - left - 1, bottom - top - 1);
  }

  // In two tones, so that it shows on any colour.
  drawCross(context) {
    if (!this.cross || this.cross.row < 0) return;
    const size = Math.max(this.pixel, 1);
    const [x, y] = this.toScreen(this.cross.row, this.cross.key);
    for (const [style, width] of [['#000000', 3], ['#ffffff', 1]]) {
      context.strokeStyle = style;
      context.lineWidth = width * devicePixelRatio;
      context.beginPath();
      for (const [x1, y1, x2, y2] of [[0, y + size / 2, x - 6, y + size / 2], [x + size + 6, y + size / 2, this.canvas.width, y + size / 2],
        [x + size / 2, 0, x + size / 2, y - 6], [x + size / 2, y + size + 6, x + size / 2, this.canvas.height]]) {
        context.moveTo(x1, y1);
        context.lineTo(x2, y2);
      }
      context.stroke();
      context.strokeRect(x - 3, y - 3, size + 6, size + 6);
    }
  }

  /** The pooled code of the cell that holds a coefficient: {code, row, key, cells} or null when its tile is not here. */
  cellOf(row, key) {
    const cells = this.cells;
    const r = Math.floor(row / cells);
    const c = Math.floor(key / cells);
    const {tile} = this.tile(this.zoom, Math.floor(c / TILE), Math.floor(r / TILE));
    if (!tile?.codes) return null;
    return {code: tile.codes[(r % TILE) * TILE + (c % TILE)], row: r * cells, key: c * cells, cells, uniform: this.uniform(Math.floor(r / TILE), r % TILE, cells)};
  }

  /** All codes in sight as one rectangle of cells, for export: {codes, rows, columns, firstRow, firstKey, cells}. */
  visibleCodes() {
    const cells = this.cells;
    const firstRow = Math.max(0, Math.floor(this.view.top / cells));
    const firstKey = Math.max(0, Math.floor(this.view.left / cells));
    const rows = Math.max(1, Math.min(Math.ceil(this.capture.query_len / cells), Math.ceil((this.view.top + this.canvas.height / this.pixel) / cells)) - firstRow);
    const columns = Math.max(1, Math.min(Math.ceil(this.capture.key_len / cells), Math.ceil((this.view.left + this.view.span) / cells)) - firstKey);
    const codes = new Int16Array(rows * columns).fill(CODES.outside);
    for (let row = 0; row < rows; ++row) {
      for (let column = 0; column < columns; ++column) {
        const {tile} = this.tile(this.zoom, Math.floor((firstKey + column) / TILE), Math.floor((firstRow + row) / TILE));
        if (tile?.codes) codes[row * columns + column] = tile.codes[((firstRow + row) % TILE) * TILE + ((firstKey + column) % TILE)];
      }
    }
    return {codes, rows, columns, firstRow: firstRow * cells, firstKey: firstKey * cells, cells};
  }
}
