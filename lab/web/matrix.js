// A matrix on the page: brackets, a caption, cells that can be read, visited by arrow keys, or edited.
import {el, newId} from './dom.js';
import {fixed, short, t} from './i18n.js';

const CHANGED = 5e-7;

/** What an edited text means; undefined when it is no number. */
export function parseNumber(text) {
  const plain = text.trim().replace('−', '-').replace(',', '.');
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) && Math.abs(Number(plain)) <= 1e6 ? Number(plain) : undefined;
}

export class Matrix {
  /**
   * id: part of every cell's address, "score.0" + row + column. symbol: a node for the caption; label: the same in words.
   * edit(row, column, value): makes it editable. visit(address or null): a cell is looked at. headOf(row, column): its hue.
   * shaded: numbers from 0 to 1 tint their cells. rowLabel/columnLabel(index): header texts.
   */
  constructor(options) {
    this.options = options;
    this.rows = this.columns = 0;
    this.cells = [];
    this.values = [];
    this.body = el('tbody');
    this.head = options.columnLabel ? el('thead') : null;
    const caption = newId('caption');
    this.table = el('table', {role: 'grid', class: options.edit ? 'cells editable' : 'cells', 'aria-labelledby': caption}, this.head, this.body);
    this.note = el('span', {class: 'shape'});
    this.node = el('figure', {class: 'matrix', data: {matrix: options.id}},
      el('figcaption', {}, el('span', {id: caption, class: 'matrix-name'}, options.symbol, el('span', {class: 'visually-hidden', text: ` ${options.label}`})),
        this.note),
      el('div', {class: 'bracket'}, this.table));
    this.table.addEventListener('keydown', (event) => this.keydown(event));
    if (options.visit) {
      const address = (event) => event.target.closest('[data-cell]')?.dataset.cell;
      this.table.addEventListener('pointerover', (event) => address(event) && options.visit(address(event)));
      this.table.addEventListener('focusin', (event) => address(event) && options.visit(address(event)));
    }
  }

  /** values: rows of numbers, null = masked. before: the values to compare with, for the highlight. Returns whether any changed. */
  update(values, {before = null, exact = false, digits = 3} = {}) {
    if (values.length !== this.rows || (values[0]?.length ?? 0) !== this.columns) this.rebuild(values);
    this.values = values;
    this.note.textContent = `${this.rows} × ${this.columns}`;
    const comparable = before && before.length === this.rows && before[0]?.length === this.columns;
    let changed = false;
    values.forEach((row, i) => row.forEach((value, j) => {
      const cell = this.cells[i][j];
      const moved = comparable && (before[i][j] === null) !== (value === null) ||
        (comparable && value !== null && Math.abs(before[i][j] - value) > CHANGED);
      changed ||= moved;
      cell.classList.toggle('changed', Boolean(moved));
      cell.classList.toggle('masked', value === null);
      if (this.options.edit) {
        const input = cell.firstChild;
        if (document.activeElement !== input || parseNumber(input.value) !== value) input.value = short(value);
      } else {
        cell.textContent = fixed(value, {exact, digits});
        if (value !== null) cell.title = String(value);
        else cell.removeAttribute('title');
        if (this.options.shaded) cell.style.setProperty('--p', value === null ? 0 : Math.min(1, Math.max(0, value)).toFixed(4));
      }
    }));
    this.node.classList.toggle('has-changed', changed);
    this.node.dataset.changed = String(changed);
    return changed;
  }

  rebuild(values) {
    const {edit, id, label, headOf, rowLabel, columnLabel} = this.options;
    this.rows = values.length;
    this.columns = values[0]?.length ?? 0;
    this.cells = values.map((row, i) => row.map((_, j) => {
      const props = {class: `cell ${headOf ? `hue-${headOf(i, j) % 8}` : ''}`, data: {cell: `${id}.${i}.${j}`}};
      const first = i === 0 && j === 0;
      if (!edit) return el('td', {...props, tabindex: first ? '0' : '-1'});
      const input = el('input', {type: 'text', inputmode: 'decimal', autocomplete: 'off', spellcheck: 'false',
        'aria-label': t('cell.label', {name: label, row: i + 1, column: j + 1}), tabindex: first ? '0' : '-1'});
      input.addEventListener('change', () => this.commit(i, j, input));
      input.addEventListener('focus', () => input.select());
      return el('td', props, input);
    }));
    this.body.replaceChildren(...this.cells.map((row, i) =>
      el('tr', {}, rowLabel ? el('th', {scope: 'row', text: rowLabel(i)}) : null, row)));
    this.head?.replaceChildren(el('tr', {}, rowLabel ? el('td') : null,
      Array.from({length: this.columns}, (_, j) => el('th', {scope: 'col', text: columnLabel(j)}))));
  }

  commit(row, column, input) {
    const value = parseNumber(input.value);
    input.setAttribute('aria-invalid', String(value === undefined));
    if (value !== undefined && value !== this.values[row][column]) this.options.edit(row, column, value);
    if (value !== undefined) input.value = short(value);
  }

  focusCell(row, column) {
    const target = this.cells[row]?.[column];
    if (!target) return;
    const node = this.options.edit ? target.firstChild : target;
    this.table.querySelectorAll('[tabindex="0"]').forEach((other) => other.setAttribute('tabindex', '-1'));
    node.setAttribute('tabindex', '0');
    node.focus();
  }

  /** Arrows walk; in an editable cell up and down change the number (Shift: tenths), left and right walk at the text's ends. */
  keydown(event) {
    const cell = event.target.closest('[data-cell]');
    if (!cell || event.ctrlKey || event.metaKey) return;
    const [row, column] = cell.dataset.cell.split('.').slice(-2).map(Number);
    const input = this.options.edit ? cell.firstChild : null;
    const walk = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
    const vertical = event.key === 'ArrowUp' || event.key === 'ArrowDown';
    if (input && vertical && !event.altKey) {
      const step = (event.key === 'ArrowUp' ? 1 : -1) * (event.shiftKey ? 0.1 : 1);
      const now = parseNumber(input.value) ?? this.values[row][column];
      input.value = short(Math.round((now + step) * 1e6) / 1e6);
      this.commit(row, column, input);
      event.preventDefault();
    } else if (input && event.key === 'Enter') {
      this.commit(row, column, input);
      this.focusCell(Math.min(row + 1, this.rows - 1), column);
      event.preventDefault();
    } else if (input && event.key === 'Escape') {
      input.value = short(this.values[row][column]);
      input.setAttribute('aria-invalid', 'false');
    } else if (walk && (!input || event.altKey || this.atEnd(input, event.key))) {
      if (input) this.commit(row, column, input);
      this.focusCell(row + walk[0], column + walk[1]);
      event.preventDefault();
    } else if (!input && (event.key === 'Home' || event.key === 'End')) {
      this.focusCell(row, event.key === 'Home' ? 0 : this.columns - 1);
      event.preventDefault();
    }
  }

  atEnd(input, key) {
    const whole = input.selectionStart === 0 && input.selectionEnd === input.value.length;
    return whole || (key === 'ArrowLeft' && input.selectionEnd === 0) || (key === 'ArrowRight' && input.selectionStart === input.value.length);
  }
}
