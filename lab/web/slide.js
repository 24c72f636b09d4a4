// A 16:9 slide, 1280 × 720, self-contained: title, configuration, equation, figure, and what it says.
import {svg} from './dom.js';

const SERIF = 'Georgia, "Noto Serif CJK SC", serif';
const SANS = 'Arial, "Noto Sans CJK SC", sans-serif';
const COLOUR = {ink: '#1c1e24', soft: '#545a68', accent: '#1d5fa8', band: '#f2f5f9', line: '#d9dee6'};

const text = (content, x, y, size, extra = {}) => svg('text', {x, y, 'font-size': size, 'font-family': SANS, fill: COLOUR.ink, ...extra}, content);

// An equation as one line of text: parts are strings, [string, 'sub'] or [string, 'sup'].
function equation(parts, x, y, size) {
  const node = svg('text', {x, y, 'font-size': size, 'font-family': SERIF, fill: COLOUR.ink});
  let shift = 0;
  for (const part of parts) {
    const [content, kind] = Array.isArray(part) ? part : [part, 'base'];
    const level = {base: 0, sub: 0.28 * size, sup: -0.42 * size}[kind];
    node.append(svg('tspan', {dy: (level - shift).toFixed(2), 'font-size': kind === 'base' ? size : size * 0.66, 'font-style': /^[A-Za-z′]{1,2}$/.test(content) && kind === 'base' ? 'italic' : null}, content));
    shift = level;
  }
  return node;
}

// Words to lines of at most `width` characters; a wide (Chinese) character counts two and may end a line anywhere.
function lines(content, width) {
  const pieces = content.match(/[\u3000-\u9fff\uff00-\uffef]|[^\s\u3000-\u9fff\uff00-\uffef]+\s*|\s+/g) ?? [];
  const measure = (piece) => [...piece].reduce((sum, c) => sum + (c > '\u2fff' ? 2 : 1), 0);
  const result = [''];
  for (const piece of pieces) {
    if (measure(result.at(-1)) + measure(piece.trimEnd()) > width && result.at(-1)) result.push('');
    result[result.length - 1] += result.at(-1) || piece.trim() ? piece : '';
  }
  return result.map((line) => line.trim());
}

/** figure: the <svg> of figurePicture in light colours. texts: {title, subtitle, equation, caption, why, points: [[head, body]…], payoff, source}. */
export function slide(figure, texts, causal) {
  const picture = figure.cloneNode(true);
  for (const [key, value] of Object.entries({x: 84, y: 312, width: 430, height: 300})) picture.setAttribute(key, value);
  const parts = [
    svg('rect', {width: 1280, height: 720, fill: '#ffffff'}),
    svg('rect', {x: 60, y: 52, width: 6, height: 44, fill: COLOUR.accent}),
    text(texts.title, 84, 87, 36, {'font-family': SERIF, 'font-weight': 700}),
    text(texts.subtitle, 84, 120, 14, {'font-weight': 700, fill: COLOUR.soft, 'letter-spacing': 1.2}),
    svg('rect', {x: 60, y: 150, width: 1160, height: 122, rx: 10, fill: COLOUR.band, stroke: COLOUR.line}),
    svg('rect', {x: 60, y: 150, width: 6, height: 122, fill: COLOUR.accent}),
    text(texts.equation, 92, 178, 12, {'font-weight': 700, fill: COLOUR.accent, 'letter-spacing': 1.2}),
    equation(['MultiHead(', 'X', ', ', 'X′', ') = Concat(', 'O', ['1', 'sub'], ', …, ', 'O', ['h', 'sub'], ') ', 'W', ['O', 'sub']], 240, 202, 27),
    equation(['O', ['i', 'sub'], ' = softmax(', 'Q', ['i', 'sub'], ' ', 'K', ['i', 'sub'], ['⊤', 'sup'], ' / √', 'd', ['k', 'sub'], ...(causal ? [' + ', 'M'] : []), ') ', 'V', ['i', 'sub'],
      ',    ', 'Q', ' = ', 'X', ' ', 'W', ['Q', 'sub'], ',  ', 'K', ' = ', 'X′', ' ', 'W', ['K', 'sub'], ',  ', 'V', ' = ', 'X′', ' ', 'W', ['V', 'sub']], 240, 247, 27),
    svg('rect', {x: 60, y: 296, width: 478, height: 366, rx: 10, fill: '#ffffff', stroke: COLOUR.line}), picture,
    text(texts.caption, 299, 644, 12.5, {'text-anchor': 'middle', 'font-style': 'italic', fill: COLOUR.soft}),
    text(texts.why, 576, 320, 13, {'font-weight': 700, fill: COLOUR.accent, 'letter-spacing': 1.2}),
  ];
  let y = 338;
  for (const [head, body] of texts.points) {
    const wrapped = lines(body, 84);
    const height = 34 + 21 * wrapped.length;
    parts.push(svg('rect', {x: 576, y, width: 6, height, fill: COLOUR.ink}), text(head, 598, y + 19, 18, {'font-family': SERIF, 'font-weight': 700}));
    wrapped.forEach((line, i) => parts.push(text(line, 598, y + 43 + 21 * i, 15)));
    y += height + 14;
  }
  const wrapped = lines(texts.payoff, 82);
  parts.push(svg('rect', {x: 576, y, width: 644, height: 24 + 22 * wrapped.length, rx: 6, fill: COLOUR.band}), svg('rect', {x: 576, y, width: 5, height: 24 + 22 * wrapped.length, fill: COLOUR.accent}));
  wrapped.forEach((line, i) => parts.push(text(line, 598, y + 27 + 22 * i, 16, {'font-family': SERIF, 'font-style': 'italic'})));
  parts.push(text(texts.source, 60, 696, 12, {fill: COLOUR.soft}));
  return svg('svg', {xmlns: 'http://www.w3.org/2000/svg', viewBox: '0 0 1280 720', width: 1280, height: 720}, parts);
}
