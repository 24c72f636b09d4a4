// What colours and patterns mean now.
import {el} from './dom.js';
import {t} from './i18n.js';
import {CODES, STEPS, paint} from './map_colour.js';

export class Legend {
  constructor() {
    this.bar = el('canvas', {width: 256, height: 1, class: 'legend-bar', 'aria-hidden': 'true'});
    this.low = el('span');
    this.high = el('span');
    this.what = el('p', {class: 'legend-what'});
    this.states = el('ul', {class: 'legend-states'});
    this.node = el('div', {class: 'legend'}, this.what, el('div', {class: 'legend-scale'}, this.low, this.bar, this.high), this.states);
  }

  show(look, view) {
    const key = JSON.stringify([look, view.pool, view.values, document.documentElement.lang]);
    if (key === this.key) return;
    this.key = key;
    this.what.textContent = `${view.values ? t('map.values') : t(`map.pool.${view.pool}.what`)} ${t(`map.colour.${look.colour}.what`)}`;
    this.low.textContent = String(look.low);
    this.high.textContent = String(look.high);
    const context = this.bar.getContext('2d');
    const data = context.createImageData(256, 1);
    const codes = Int16Array.from({length: 256}, (_, i) => {
      const value = look.low + (look.high - look.low) * i / 255;
      return Math.max(-32764, Math.round(STEPS * (look.colour === 'linear' ? Math.log2(Math.max(value, 1e-30)) : value)));
    });
    paint(codes, data.data, 256, {...look, low: look.low - 1e-3}, () => 0);
    context.putImageData(data, 0, 0);
    this.states.replaceChildren(...['value', 'below', 'masked', 'outside', 'pending', 'nonFinite'].map((state) => el('li', {}, this.sample(state, look), t(`map.state.${state}`))));
  }

  // The pattern itself, two pixels a cell.
  sample(state, look) {
    const side = 14;
    const canvas = el('canvas', {width: side, height: side, class: 'legend-sample', 'aria-hidden': 'true'});
    const context = canvas.getContext('2d');
    if (state === 'pending') {
      context.fillStyle = `rgb(${look.ink.join(',')})`;
      for (let y = 3; y < side; y += 6) for (let x = 3; x < side; x += 6) context.fillRect(x, y, 2, 2);
      return canvas;
    }
    const middle = look.colour === 'linear' ? Math.log2(Math.max(1e-9, (look.low + look.high) / 2)) : (look.low + look.high) / 2;
    const code = state === 'value' ? Math.round(STEPS * middle) : CODES[state];
    const data = context.createImageData(side, side);
    paint(new Int16Array(side * side).fill(code), data.data, side, {...look, hatch: true}, () => 0);
    context.putImageData(data, 0, 0);
    return canvas;
  }
}
