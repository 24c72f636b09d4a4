// Predict, then reveal: a question, the learner's guess, the engine's number and the gap. Nothing blocks "just show me".
import * as api from './api.js';
import {button, el, newId} from './dom.js';
import {fixed, t} from './i18n.js';

const change = (problem, patch) => ({...structuredClone(problem), ...patch});

// Each: the problem it is about, and the number that answers it.
const QUESTIONS = [
  {key: 'firstRow', problem: (p) => change(p['two-heads'], {mask: 'causal'}), answer: (a) => a.heads[0].probabilities[0][0]},
  {key: 'twoHeads', problem: (p) => p['two-heads'], answer: (a) => a.heads[0].probabilities[0][2]},
  {key: 'oneHead', problem: (p) => change(p['two-heads'], {num_heads: 1}), answer: (a) => a.heads[0].probabilities[0][2]},
  {key: 'parameters', problem: (p) => change(p['two-heads'], {num_heads: 4}), answer: (a) => a.counters.here.parameters},
  {key: 'rowSum', problem: (p) => change(p.random, {mask: 'causal'}), answer: (a) => a.heads[1].probabilities[1].reduce((x, y) => x + y, 0)},
  {key: 'exponentials', problem: (p) => change(p['two-heads'], {num_heads: 4}),
    answer: (a) => a.counters.here.exponentials / a.counters.divisors.find((row) => row.num_heads === 1).exponentials},
];

export class Questions {
  constructor(presets) {
    this.node = el('section', {class: 'block', id: 'questions', 'aria-labelledby': 'questions-title'},
      el('h2', {id: 'questions-title', text: t('questions.title')}), el('p', {text: t('questions.what')}),
      el('ol', {class: 'questions'}, QUESTIONS.map((question) => this.item(question, presets))));
  }

  item(question, presets) {
    const guess = el('input', {type: 'text', inputmode: 'decimal', autocomplete: 'off', class: 'small', id: newId('guess')});
    const result = el('p', {class: 'reveal', 'aria-live': 'polite'});
    const reveal = async (value) => {
      const answer = question.answer(await api.compute(question.problem(presets)));
      const close = value !== null && Math.abs(value - answer) < 0.005 * Math.max(1, Math.abs(answer));
      result.dataset.answer = answer;
      result.classList.toggle('close', close);
      const numbers = {answer: fixed(answer, {digits: Number.isInteger(answer) ? 0 : 3}), guess: value === null ? '' : fixed(value), gap: value === null ? '' : fixed(Math.abs(value - answer))};
      result.textContent = `${value === null ? t('questions.shown', numbers) : close ? t('questions.close', numbers) : t('questions.gap', numbers)} ${t(`question.${question.key}.why`)}`;
    };
    const commit = () => {
      const value = Number(guess.value.trim().replace(',', '.').replace('−', '-'));
      const valid = guess.value.trim() !== '' && Number.isFinite(value);
      guess.setAttribute('aria-invalid', String(!valid));
      if (valid) reveal(value);
    };
    guess.addEventListener('keydown', (event) => event.key === 'Enter' && commit());
    return el('li', {data: {question: question.key}}, el('label', {for: guess.id, text: t(`question.${question.key}`)}),
      el('div', {class: 'buttons'}, guess, button(t('questions.commit'), commit, {class: 'primary commit'}), button(t('questions.show'), () => reveal(null), {class: 'show'})),
      result);
  }
}
