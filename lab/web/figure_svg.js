// The classic attention figure in oblique projection, with real numbers: the floor is A, queries along its front, keys along its
// depth. Q hangs at the front edge, K at the right, V stands at the left, Y at the back. Self-contained: no style sheet.
import {svg} from './dom.js';

export const LIGHT = {paper: '#ffffff', ink: '#1c1e24', soft: '#545a68', plane: '#e4efe4', edge: '#5b6b5d', busy: '#f6d84c', result: '#d9482b',
  share: '#2166ac', negative: '#2166ac', positive: '#b35806'};
export const DARK = {paper: '#1b1e24', ink: '#ebe8e1', soft: '#aab0bd', plane: '#2b3a30', edge: '#8fa295', busy: '#d9b92e', result: '#f2785c',
  share: '#7db8ee', negative: '#7db8ee', positive: '#f0a35c'};

const WIDTH = 720;
const HEIGHT = 486;
const LENGTH = 290;  // along queries
const DEPTH = 330;   // along keys
const GAP = 14;
const ASIDE = 92;    // between the floor and the planes beside it
const TALLEST = 16;  // rows of a plane that are drawn; wider vectors are averaged

const point = (x, y, z) => [118 + x + 0.5 * y, 345 - 0.5 * y - z];
const corners = (list) => list.map((corner) => point(...corner).map((value) => value.toFixed(1)).join(',')).join(' ');

/** Vectors of any width as at most TALLEST numbers each. */
function shortened(rows) {
  const width = rows[0].length;
  if (width <= TALLEST) return rows;
  return rows.map((row) => Array.from({length: TALLEST}, (_, k) => {
    const begin = Math.floor(k * width / TALLEST);
    const part = row.slice(begin, Math.floor((k + 1) * width / TALLEST));
    return part.reduce((a, b) => a + b, 0) / part.length;
  }));
}

/** The number of steps for n queries: an overview, two for each query. */
export const figureSteps = (n) => 2 * n + 1;

/** What a step is about. */
export function figureStep(step) {
  if (step === 0) return {phase: 'overview', row: -1, done: -1};
  const row = Math.floor((step - 1) / 2);
  const weighing = step % 2 === 0;
  return {phase: weighing ? 'weigh' : 'compare', row, done: weighing ? row : row - 1};
}

/**
 * data: {Q, K, V, A, Y} as rows of numbers, null in A where masked; labels: {Q, K, V, A, Y, queries, keys}.
 * Returns an <svg>.
 */
export function figurePicture(data, step, labels, palette, title) {
  const {phase, row, done} = figureStep(step);
  const {Q, K, V, A, Y} = data;
  const n = Q.length;
  const m = K.length;
  const parts = [];

  // One plane: `columns` vectors along an edge, cells upwards. place(column, up) gives a corner, both 0 … 1.
  const plane = (rows, place, look) => {
    const cells = shortened(rows);
    const tall = cells[0].length;
    const most = Math.max(...cells.flat().map(Math.abs), 1e-9);
    cells.forEach((vector, i) => {
      const {fill, shown} = look(i);
      const quad = (k0, k1) => corners([place(i / rows.length, k0), place((i + 1) / rows.length, k0), place((i + 1) / rows.length, k1), place(i / rows.length, k1)]);
      parts.push(svg('polygon', {points: quad(0, 1), fill, stroke: palette.edge, 'stroke-width': 0.8}));
      if (shown) vector.forEach((value, k) => {
        const strength = Math.abs(value) / most;
        if (strength < 0.02) return;
        // The first component is at the top.
        parts.push(svg('polygon', {points: quad(1 - (k + 1) / tall, 1 - k / tall), fill: value < 0 ? palette.negative : palette.positive, 'fill-opacity': (0.75 * strength).toFixed(3)}));
      });
    });
    parts.push(svg('polygon', {points: corners([place(0, 0), place(1, 0), place(1, 1), place(0, 1)]), fill: 'none', stroke: palette.ink, 'stroke-width': 1.4}));
  };

  const tallQ = 96;
  const tallV = 118;
  const busy = {fill: palette.busy, shown: true};
  const plain = {fill: palette.plane, shown: true};
  const empty = {fill: palette.paper, shown: false};

  plane(Y, (c, up) => [c * LENGTH, DEPTH, GAP + up * tallV], (i) => (i === row && phase === 'weigh' ? {fill: palette.result, shown: true} : i <= done ? plain : empty));
  plane(V, (c, up) => [-ASIDE, c * DEPTH, up * tallV], () => (phase === 'weigh' ? busy : plain));
  floor();
  plane(K, (c, up) => [LENGTH + ASIDE, c * DEPTH, (up - 1) * tallQ], () => (phase === 'compare' ? busy : plain));
  plane(Q, (c, up) => [c * LENGTH, 0, -GAP - (1 - up) * tallQ], (i) => (i === row && phase === 'compare' ? busy : plain));
  if (row >= 0) bars();
  names();
  return svg('svg', {xmlns: 'http://www.w3.org/2000/svg', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': title, 'font-family': 'Georgia, "Noto Serif CJK SC", serif'},
    svg('title', {}, title), svg('rect', {width: WIDTH, height: HEIGHT, fill: palette.paper}), parts);

  // A, one strip a query, as far as it is computed.
  function floor() {
    A.forEach((line, i) => line.forEach((value, j) => {
      const points = corners([[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]].map(([x, y]) => [x / n * LENGTH, y / m * DEPTH, 0]));
      const known = i <= done || (i === row && phase === 'compare');
      const cell = svg('polygon', {points, fill: palette.paper, stroke: palette.edge, 'stroke-width': n * m > 300 ? 0.2 : 0.6},
        svg('title', {}, `A[${i + 1}, ${j + 1}] = ${value === null ? '–' : value.toPrecision(4)}`));
      if (known && value !== null) {
        cell.setAttribute('fill', palette.share);
        cell.setAttribute('fill-opacity', (0.06 + 0.86 * value).toFixed(3));
      }
      parts.push(cell);
      if (known && value === null) {
        const [a, b] = [point(i / n * LENGTH, j / m * DEPTH, 0), point((i + 1) / n * LENGTH, (j + 1) / m * DEPTH, 0)];
        parts.push(svg('line', {x1: a[0], y1: a[1], x2: b[0], y2: b[1], stroke: palette.edge, 'stroke-width': 0.7}));
      }
    }));
    parts.push(svg('polygon', {points: corners([[0, 0, 0], [LENGTH, 0, 0], [LENGTH, DEPTH, 0], [0, DEPTH, 0]]), fill: 'none', stroke: palette.ink, 'stroke-width': 1.4}));
  }

  // The row's shares, standing on the floor: still in the making while it is compared, ready when it weighs.
  function bars() {
    const tall = 78;
    const x = (row + 0.5) / n * LENGTH;
    // From the back to the front, so that nearer bars cover farther ones.
    for (let j = m - 1; j >= 0; --j) {
      const value = A[row][j];
      if (value === null || value < 0.004) continue;
      const points = corners([[x, j / m * DEPTH, 0], [x, (j + 1) / m * DEPTH, 0], [x, (j + 1) / m * DEPTH, value * tall], [x, j / m * DEPTH, value * tall]]);
      parts.push(svg('polygon', {points, fill: phase === 'compare' ? palette.result : palette.busy, stroke: palette.ink, 'stroke-width': 0.9},
        svg('title', {}, `A[${row + 1}, ${j + 1}] = ${value.toPrecision(4)}`)));
    }
  }

  function names() {
    const label = (text, [x, y], size = 22, extra = {}) => parts.push(svg('text', {x, y, 'font-size': size, 'font-style': 'italic', fill: palette.ink, 'text-anchor': 'middle', ...extra}, text));
    label(labels.Q, [point(0, 0, 0)[0] - 24, point(0, 0, -GAP - tallQ / 2)[1] + 7]);
    label(labels.K, [point(LENGTH + ASIDE, DEPTH, 0)[0] + 20, point(0, DEPTH, -tallQ / 2)[1] + 6]);
    label(labels.V, [point(-ASIDE, 0, 0)[0] - 18, point(0, 0, tallV / 2)[1]]);
    label(labels.Y, [point(LENGTH, DEPTH, 0)[0] + 24, point(0, DEPTH, GAP + tallV / 2)[1] + 7]);
    label(labels.A, [point(LENGTH, DEPTH * 0.35, 0)[0] + 26, point(0, DEPTH * 0.35, 0)[1] + 6]);
    const small = {'font-style': 'normal', 'font-family': 'Arial, sans-serif', fill: palette.soft};
    label(labels.queries, [point(LENGTH / 2, 0, 0)[0], point(0, 0, -GAP - tallQ)[1] + 19], 12.5, small);
    label(labels.keys, [point(LENGTH + ASIDE, 0, 0)[0] + 46, point(0, 0, -tallQ)[1] + 14], 12.5, small);
  }
}

/** The text of an <svg> as a file. */
export function svgFile(node) {
  return new Blob(['<?xml version="1.0" encoding="UTF-8"?>\n', new XMLSerializer().serializeToString(node)], {type: 'image/svg+xml'});
}
