// What is in sight as a file: PNG, SVG, or one HTML file that needs nothing else and still tells values.
import {el, svg} from './dom.js';
import {t} from './i18n.js';
import {svgFile} from './figure_svg.js';
import {paint, tableOf} from './map_colour.js';

const MARGIN = {left: 78, top: 46, right: 24, bottom: 70};

function describe(view) {
  const pool = t(`map.pool.${view.pool}`);
  return {
    title: `${view.capture.name} · ${t('head')} ${view.head}`,
    what: `${pool} · ${t(`map.colour.${view.look.colour}`)} · ${t('map.cell', {cells: view.cells})}`,
  };
}

const painted = (view, {codes, columns, firstRow, cells}, look) => {
  const data = new ImageData(columns, codes.length / columns);
  paint(codes, data.data, columns, look, (row) => {
    const index = firstRow / cells + row;
    return view.uniform(Math.floor(index / 256), index % 256, cells);
  });
  return data;
};

const LIGHT_LOOK = {paper: [255, 255, 255], ink: [168, 162, 148], coarse: false};

/** The parts that all files share: an image of one pixel a cell, sizes, words. */
async function prepared(view) {
  const seen = view.visibleCodes();
  const rows = seen.codes.length / seen.columns;
  const canvas = el('canvas', {width: seen.columns, height: rows});
  canvas.getContext('2d').putImageData(painted(view, seen, {...view.look, ...LIGHT_LOOK}), 0, 0);
  const scale = Math.max(1, Math.floor(900 / Math.max(seen.columns, rows)));
  return {seen, rows, canvas, width: seen.columns * scale, height: rows * scale, ...describe(view)};
}

function picture(view, {seen, rows, canvas, width, height, title, what}) {
  const legend = 220;
  const table = tableOf(view.look.colour);
  const total = [Math.max(width, 420) + MARGIN.left + MARGIN.right, height + MARGIN.top + MARGIN.bottom];
  const label = (content, x, y, extra = {}) => svg('text', {x, y, 'font-size': 13, 'font-family': 'Arial, sans-serif', fill: '#1c1e24', ...extra}, content);
  const bottom = MARGIN.top + height;
  return svg('svg', {xmlns: 'http://www.w3.org/2000/svg', viewBox: `0 0 ${total.join(' ')}`, width: total[0], height: total[1]},
    svg('rect', {width: total[0], height: total[1], fill: '#ffffff'}),
    label(title, MARGIN.left, 20, {'font-size': 16, 'font-weight': 700}), label(what, MARGIN.left, 38, {fill: '#545a68'}),
    svg('image', {href: canvas.toDataURL(), x: MARGIN.left, y: MARGIN.top, width, height, 'image-rendering': 'pixelated', style: null, preserveAspectRatio: 'none'}),
    svg('rect', {x: MARGIN.left, y: MARGIN.top, width, height, fill: 'none', stroke: '#1c1e24'}),
    label(String(seen.firstRow), MARGIN.left - 8, MARGIN.top + 12, {'text-anchor': 'end'}), label(String(seen.firstRow + rows * seen.cells - 1), MARGIN.left - 8, bottom, {'text-anchor': 'end'}),
    label(t('map.row'), MARGIN.left - 8, MARGIN.top + height / 2, {'text-anchor': 'end'}),
    label(String(seen.firstKey), MARGIN.left, bottom + 18), label(String(seen.firstKey + seen.columns * seen.cells - 1), MARGIN.left + width, bottom + 18, {'text-anchor': 'end'}),
    label(t('map.key'), MARGIN.left + width / 2, bottom + 18, {'text-anchor': 'middle'}),
    Array.from({length: 64}, (_, i) => svg('rect', {x: MARGIN.left + i * legend / 64, y: bottom + 32, width: legend / 64 + 0.5, height: 12, fill: `rgb(${table[i * 4].join(',')})`})),
    label(String(view.look.low), MARGIN.left, bottom + 60), label(String(view.look.high), MARGIN.left + legend, bottom + 60, {'text-anchor': 'end'}));
}

export async function exportSvg(view) {
  return svgFile(picture(view, await prepared(view)));
}

export async function exportPng(view) {
  const parts = await prepared(view);
  const {seen, rows, canvas, width, height, title, what} = parts;
  const page = el('canvas', {width: Math.max(width, 420) + MARGIN.left + MARGIN.right, height: height + MARGIN.top + MARGIN.bottom});
  const context = page.getContext('2d');
  context.fillStyle = '#ffffff';
  context.fillRect(0, 0, page.width, page.height);
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, MARGIN.left, MARGIN.top, width, height);
  context.strokeStyle = context.fillStyle = '#1c1e24';
  context.strokeRect(MARGIN.left + 0.5, MARGIN.top + 0.5, width - 1, height - 1);
  const bottom = MARGIN.top + height;
  const label = (content, x, y, align = 'left', font = '13px Arial, sans-serif') => Object.assign(context, {textAlign: align, font}).fillText(content, x, y);
  label(title, MARGIN.left, 20, 'left', 'bold 16px Arial, sans-serif');
  label(what, MARGIN.left, 38);
  label(String(seen.firstRow), MARGIN.left - 8, MARGIN.top + 12, 'right');
  label(String(seen.firstRow + rows * seen.cells - 1), MARGIN.left - 8, bottom, 'right');
  label(t('map.row'), MARGIN.left - 8, MARGIN.top + height / 2, 'right');
  label(String(seen.firstKey), MARGIN.left, bottom + 18);
  label(String(seen.firstKey + seen.columns * seen.cells - 1), MARGIN.left + width, bottom + 18, 'right');
  label(t('map.key'), MARGIN.left + width / 2, bottom + 18, 'center');
  label(String(view.look.low), MARGIN.left, bottom + 60);
  label(String(view.look.high), MARGIN.left + 220, bottom + 60, 'right');
  tableOf(view.look.colour).forEach((rgb, i) => {
    context.fillStyle = `rgb(${rgb.join(',')})`;
    context.fillRect(MARGIN.left + i * 220 / 256, bottom + 32, 1.5, 12);
  });
  return new Promise((done) => page.toBlob(done, 'image/png'));
}

// What the exported page does: tells the value under the pointer, or under the arrow keys.
const VIEWER = `
const image = document.getElementById('image'), told = document.getElementById('told');
const bytes = Uint8Array.from(atob(data.codes), (c) => c.charCodeAt(0));
const codes = new Int16Array(bytes.buffer);
let row = 0, column = 0;
function tell() {
  const code = codes[row * data.columns + column];
  const special = data.states[code];
  const range = (from) => data.cells === 1 ? from : from + '–' + (from + data.cells - 1);
  told.textContent = data.row + ' ' + range(data.firstRow + row * data.cells) + ', ' + data.key + ' ' + range(data.firstKey + column * data.cells) + ': ' +
    (special || (2 ** (code / 256)).toPrecision(4) + '  (log₂ ' + (code / 256).toFixed(2) + ')');
}
image.addEventListener('pointermove', (event) => {
  const box = image.getBoundingClientRect();
  column = Math.max(0, Math.min(data.columns - 1, Math.floor((event.clientX - box.left) / box.width * data.columns)));
  row = Math.max(0, Math.min(data.rows - 1, Math.floor((event.clientY - box.top) / box.height * data.rows)));
  tell();
});
image.addEventListener('keydown', (event) => {
  const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
  if (!step) return;
  event.preventDefault();
  row = Math.max(0, Math.min(data.rows - 1, row + step[0]));
  column = Math.max(0, Math.min(data.columns - 1, column + step[1]));
  tell();
});
tell();`;

const escaped = (text) => text.replace(/[&<>"]/g, (c) => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'})[c]);

export async function exportHtml(view) {
  const {seen, rows, canvas, title, what} = await prepared(view);
  let binary = '';
  const bytes = new Uint8Array(seen.codes.buffer);
  for (let i = 0; i < bytes.length; i += 0x8000) binary += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  const data = {codes: btoa(binary), rows, columns: seen.columns, firstRow: seen.firstRow, firstKey: seen.firstKey, cells: seen.cells, row: t('map.row'), key: t('map.key'),
    states: {'-32768': t('map.state.masked'), '-32767': t('map.state.outside'), '-32766': t('map.state.nonFinite'), '-32765': t('map.state.below')}};
  const html = `<!doctype html>
<html lang="${document.documentElement.lang}"><meta charset="utf-8"><title>${escaped(title)}</title>
<style>body{font:15px/1.5 system-ui,sans-serif;margin:2rem;color:#1c1e24}img{width:min(90vmin,100%);image-rendering:pixelated;border:1px solid #1c1e24;display:block;cursor:crosshair}#told{font-family:ui-monospace,monospace}</style>
<h1>${escaped(title)}</h1><p>${escaped(what)} · ${view.look.low} … ${view.look.high}</p>
<img id="image" tabindex="0" alt="${escaped(title)}" src="${canvas.toDataURL()}"><p id="told" aria-live="polite"></p>
<script>const data = ${JSON.stringify(data).replace(/</g, '\\u003c')};${VIEWER}</script></html>
`;
  return new Blob([html], {type: 'text/html'});
}
