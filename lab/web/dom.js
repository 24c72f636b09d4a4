// Building elements. Styles go through the CSSOM, which the content-security policy allows; style attributes are not.

/** el('button', {class: 'x', text: 'Go', on: {click: f}, 'aria-pressed': 'true'}, ...children) */
export function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

const SVG = 'http://www.w3.org/2000/svg';
export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

const MATHML = 'http://www.w3.org/1998/Math/MathML';
export function math(tag, ...children) {
  return fill(document.createElementNS(MATHML, tag), {}, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'text') node.textContent = value;
    else if (name === 'on') for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (name === 'data') Object.assign(node.dataset, value);
    else if (name === 'style') for (const [key, part] of Object.entries(value)) node.style.setProperty(key, part);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** A symbol with a subscript: name('W', 'Q'). */
export function name(letter, sub = '', sup = '') {
  return el('span', {class: 'symbol'}, el('i', {text: letter}), sup ? el('sup', {text: sup}) : null, sub ? el('sub', {text: sub}) : null);
}

let ids = 0;
export const newId = (prefix) => `${prefix}-${++ids}`;

/** A labelled control: label above, control below. */
export function field(label, control, props = {}) {
  if (!control.id) control.id = newId('field');
  return el('div', {class: 'field', ...props}, el('label', {for: control.id, text: label}), control);
}

export function button(text, click, props = {}) {
  return el('button', {type: 'button', text, on: {click}, ...props});
}

/** A <select>; options are [value, text] pairs. */
export function select(options, value, change, props = {}) {
  const node = el('select', {...props, on: {change: () => change(node.value)}},
    options.map(([key, text]) => el('option', {value: key, text, selected: key === value})));
  return node;
}

/** Radio buttons that look like one switch. */
export function segments(legend, options, value, change, props = {}) {
  const group = newId('segments');
  return el('fieldset', {class: 'segments', ...props}, el('legend', {text: legend}),
    el('div', {class: 'segments-row'}, options.map(([key, text]) => {
      const input = el('input', {type: 'radio', name: group, value: key, checked: String(key) === String(value),
        on: {change: () => change(key)}});
      return el('label', {}, input, el('span', {text}));
    })));
}

export function toggle(text, checked, change, props = {}) {
  const input = el('input', {type: 'checkbox', checked, ...props, on: {change: () => change(input.checked)}});
  return el('label', {class: 'toggle'}, input, el('span', {text}));
}

/** Offers bytes as a file. */
export function download(filename, blob) {
  const link = el('a', {href: URL.createObjectURL(blob), download: filename});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

let region;
/** Speaks to screen readers. */
export function announce(text) {
  if (!region) {
    region = el('div', {class: 'visually-hidden', 'aria-live': 'polite', role: 'status'});
    document.querySelector('main').append(region);
  }
  region.textContent = text;
}
