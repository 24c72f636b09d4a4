// What the number of heads changes, and what it does not.
import {el, newId} from './dom.js';
import {number, t} from './i18n.js';

const COLUMNS = ['parameters', 'score_multiplications', 'coefficients', 'exponentials'];

export class Counters {
  constructor() {
    this.node = el('section', {class: 'panel counters', id: 'counters'});
  }

  update(problem, answer) {
    const {divisors, here} = answer.counters;
    const listed = divisors.some((row) => row.num_heads === here.num_heads && row.head_dim === here.head_dim);
    const rows = listed ? divisors : [...divisors, here];
    const caption = newId('counters');
    this.node.replaceChildren(el('h2', {id: caption, text: t('counters.title')}),
      el('table', {class: 'numbers', 'aria-labelledby': caption},
        el('thead', {}, el('tr', {}, el('th', {scope: 'col', text: 'h'}), el('th', {scope: 'col', text: 'dₖ'}),
          COLUMNS.map((column) => el('th', {scope: 'col', text: t(`counters.${column}`)})))),
        el('tbody', {}, rows.map((row) => {
          const current = row.num_heads === here.num_heads && row.head_dim === here.head_dim;
          return el('tr', {class: current ? 'current' : null, 'aria-current': current ? 'true' : null, data: {heads: row.num_heads}},
            el('th', {scope: 'row', text: String(row.num_heads)}), el('td', {text: String(row.head_dim)}),
            COLUMNS.map((column) => el('td', {data: {count: column}, text: number(row[column])})));
        }))),
      el('p', {class: 'hint', text: t('counters.what')}));
  }
}
