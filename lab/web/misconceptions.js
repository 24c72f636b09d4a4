// The list of beliefs: each with its experiment one click away, and what the engine's numbers say about it.
import * as api from './api.js';
import * as store from './store.js';
import {button, el} from './dom.js';
import {t} from './i18n.js';
import {EXPERIMENTS} from './experiments.js';
import {stateOf} from './problem.js';

export class Misconceptions {
  constructor(presets) {
    // Experiments start from the presets as they come, not from a random one that was drawn later.
    this.presets = presets;
    this.items = EXPERIMENTS.map((experiment, index) => this.item(index + 1));
    this.node = el('section', {class: 'block', id: 'misconceptions', 'aria-labelledby': 'misconceptions-title'},
      el('h2', {id: 'misconceptions-title', text: t('misconceptions.title')}), el('p', {text: t('misconceptions.what')}),
      el('ol', {class: 'beliefs'}, this.items.map((item) => item.node)));
  }

  item(number) {
    const verdict = el('div', {class: 'belief-verdict', 'aria-live': 'polite'});
    const trials = el('div', {class: 'buttons trials'});
    const node = el('li', {data: {experiment: number}},
      el('p', {class: 'belief'}, el('q', {text: t(`belief.${number}`)})),
      el('p', {class: 'belief-try', text: t(`belief.${number}.try`)}),
      el('div', {class: 'buttons'}, button(t('misconceptions.try'), () => this.run(number), {class: 'primary try', 'aria-describedby': `belief-${number}`})),
      trials, verdict);
    node.querySelector('.belief').id = `belief-${number}`;
    return {node, verdict, trials};
  }

  trialsOf(number) {
    return EXPERIMENTS[number - 1].trials(this.basePresets ?? this.presets);
  }

  /** Shows the experiment's last problem, coming from its first, and tells the verdict over all. */
  async run(number) {
    const problems = this.trialsOf(number);
    await this.show(number, 0);
    await this.show(number, problems.length - 1);
    await this.judge(number);
    document.getElementById('inputs').scrollIntoView({block: 'center', behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth'});
  }

  async judge(number) {
    const {verdict, trials} = this.items[number - 1];
    const problems = this.trialsOf(number);
    const answers = await Promise.all(problems.map((problem) => api.compute(problem).catch((error) => ({error: error.message}))));
    const {holds, measured} = EXPERIMENTS[number - 1].check(answers);
    verdict.dataset.holds = String(holds);
    verdict.replaceChildren(el('p', {class: 'measured', text: t(`belief.${number}.measured`, measured)}), el('p', {text: t(`belief.${number}.holds`)}));
    trials.replaceChildren(...problems.map((_, index) =>
      button(t('misconceptions.trial', {number: index + 1}), () => this.show(number, index), {data: {trial: index}})));
    this.update(store.get());
  }

  async show(number, index) {
    const {compare_heads: compare = 0, ...problem} = this.trialsOf(number)[index];
    const presets = this.presets;
    const preset = number === 11 ? 'duplicate' : [2, 3, 8, 9, 10, 14, 15, 16, 17].includes(number) ? 'random' : 'two-heads';
    store.set({...stateOf(problem, preset, presets[preset]), compare, experiment: number, trial: index}, {undoable: true});
    // The page follows before the next step, so that the highlight tells one from the other.
    await new Promise((done) => setTimeout(done, 0));
    await settled();
  }

  /** A link that was made during an experiment shows its verdict. */
  resume() {
    const {experiment} = store.get();
    if (experiment > 0) this.judge(experiment);
  }

  update(state) {
    this.items.forEach(({node, trials}, index) => {
      node.classList.toggle('running', state.experiment === index + 1);
      for (const trial of trials.children) trial.setAttribute('aria-pressed', String(state.experiment === index + 1 && state.trial === Number(trial.dataset.trial)));
    });
  }
}

const settled = async () => {
  for (let i = 0; i < 200 && document.body.dataset.busy === 'true'; ++i) await new Promise((done) => setTimeout(done, 10));
};
