// The Map's keys, in one table: what the help shows is what works.

/** key -> [name of the action, arguments]. */
export const MAP_KEYS = {
  ArrowLeft: ['pan', -1, 0], ArrowRight: ['pan', 1, 0], ArrowUp: ['pan', 0, -1], ArrowDown: ['pan', 0, 1],
  '+': ['zoom', 0.5], '=': ['zoom', 0.5], '-': ['zoom', 2], '−': ['zoom', 2], 0: ['whole'],
  '[': ['head', -1], ']': ['head', 1], g: ['goto'], m: ['masked'], p: ['pooling'], a: ['largest'], Enter: ['pin'], '?': ['help'],
};

/** With Shift the arrows move the crosshair by a cell. */
export function actionOf(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const action = MAP_KEYS[event.key];
  if (!action) return null;
  return action[0] === 'pan' && event.shiftKey ? ['cross', ...action.slice(1)] : action;
}

/** For the help: [keys, text key]. */
export const HELP = [['← → ↑ ↓', 'pan'], ['Shift + ← → ↑ ↓', 'cross'], ['+ −', 'zoom'], ['0', 'whole'], ['[ ]', 'head'], ['g', 'goto'], ['a', 'largest'], ['Enter', 'pin'],
  ['m', 'masked'], ['p', 'pooling'], ['?', 'help']];
