// The whole map, small, with a frame around what is in sight; never smaller than can be seen.
import {el} from './dom.js';
import {t} from './i18n.js';
import {TILE} from './map_colour.js';
import {Tiles} from './map_tiles.js';
import {pageColours} from './map_view.js';

const SIDE = 200;
const LEAST = 7;

export class Minimap {
  /** go(row, key): the middle of the view moves there. */
  constructor(go) {
    this.canvas = el('canvas', {width: SIDE, height: SIDE, class: 'minimap', role: 'img', 'aria-label': t('map.minimap.what')});
    const move = (event) => {
      const box = this.canvas.getBoundingClientRect();
      go((event.clientY - box.top) / box.height * this.whole, (event.clientX - box.left) / box.width * this.whole);
    };
    this.canvas.addEventListener('pointerdown', (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      move(event);
    });
    this.canvas.addEventListener('pointermove', (event) => event.buttons && move(event));
  }

  address(view) { return Tiles.address(view.capture, view.head, 0, 0, 0, view.pool, view.values); }

  draw(view) {
    const {capture} = view;
    this.whole = 2 ** capture.max_zoom * TILE;
    // The tile of zoom 0 spans a power of two; show what the map fills of it.
    const filled = Math.max(capture.query_len, capture.key_len, 1);
    const scale = SIDE / filled;
    this.whole = filled;
    const context = this.canvas.getContext('2d');
    context.clearRect(0, 0, SIDE, SIDE);
    const {tile} = view.tile(0, 0, 0);
    if (tile?.codes) {
      const side = filled / (2 ** capture.max_zoom);
      context.drawImage(view.image(tile, 0, 0), 0, 0, side, side, 0, 0, SIDE, SIDE);
    }
    const colours = pageColours();
    const marker = (begin, size, end) => {
      const wide = Math.max(LEAST, size * scale);
      return [Math.max(0, Math.min(end * scale - wide, (begin + size / 2) * scale - wide / 2)), wide];
    };
    const [x, width] = marker(view.view.left, view.view.span, filled);
    const [y, height] = marker(view.view.top, view.canvas.height / view.pixel, filled);
    context.strokeStyle = colours.text;
    context.lineWidth = 1;
    context.setLineDash([2, 3]);
    context.beginPath();
    context.moveTo(x + width / 2, 0);
    context.lineTo(x + width / 2, SIDE);
    context.moveTo(0, y + height / 2);
    context.lineTo(SIDE, y + height / 2);
    context.stroke();
    context.setLineDash([]);
    for (const [style, line] of [['#000000', 4], ['#ffffff', 2]]) {
      context.strokeStyle = style;
      context.lineWidth = line;
      context.strokeRect(x + 1, y + 1, Math.min(width, SIDE) - 2, Math.min(height, SIDE) - 2);
    }
    context.strokeStyle = colours.line;
  }
}
